"""Texts in the code are plain English: log messages, errors, help, descriptions of the admin API."""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from kvorum.admin.app import operations
from kvorum.admin.http.openapi import document
from kvorum.chaos.serve.routes import FaultRoutes
from kvorum.chaos.serve.scenario_routes import ScenarioRoutes
from kvorum.cli.commands import COMMANDS
from kvorum.cli.main import main as main_command
from kvorum.runtime.config_defs import BROKER, GROUP, TOPIC
from kvorum.runtime.metric_definitions import DEFINITIONS
from tests.monitoring import ROOT
from tests.unit.repository.test_docs import BANNED

PACKAGES = (
    "admin",
    "broker",
    "chaos",
    "cli",
    "cluster",
    "network",
    "security",
    "pipelines",
    "protocol",
    "quorum",
    "runtime",
    "storage",
)
LEVELS = ("debug", "info", "warning", "error", "exception")
TEXT_BANNED = {
    **BANNED,
    "speech for a response": r"\b(is|are|was|were|be) (told|asked)\b|\bdoes not (tell|say)\b",
    "there for exists": r"\b(is|are) (not )?there( already| yet| twice)?( any more)?(?=[:;,.]|$)",
    "is no for is not a": r"(?<!there )\b(is|are) no (?!error\b|longer\b|more\b)\w+",
    "for want of": r"\bfor want of\b|\bleft out\b",
    "in hand for in progress": r"\bin hand\b|\bmakes no difference\b",
    "comes back for restarts": r"\b(comes?|came) (back|to rest)\b|\bstands? still\b|\bwithout a word\b",
}
EVENT_BANNED = {
    **TEXT_BANNED,
    "an article first": r"^(a|an|the|this|it|its|who|what|nobody)\b",
}
"""A log message is an event, such as `broker fenced`."""
PROSE_BANNED = {
    "a person for a process": r"\b(nobody|somebody|anybody|everybody|who(so)?ever|whomever|whichever)\b",
    "Who without a noun": r"(^|[.;:] )(Who|Whom|Whose) ",
    "speech": r"\b(told|asked|heard|tells? of|is said|are said)\b",
    "mannered verbs": r"\b(heed(s|ed)?|mend(s|ed)?|anew|lies|let go of|gone on with|goes on|go on)\b",
    "for want of": r"\bfor want of\b|\bin vain\b",
    "a for per": r"\b([Oo]ne|lines?|rows?|bytes) a (second|partition|broker|topic|group|request|record|batch|run)\b",
    "as it is": r"\bas (it is|they are) now\b|\b(come|comes|came) to be\b|\b(becomes|became|become) of\b",
    "What without a noun": r"(^|[.;] )What (?!if )\w+ ",
    "So many without a noun": r"(^|[.;] )So (many|much|long|often) (?!as )",
    "Ask for a request": r"(^|[.;] )(Asks?|Tells?) ",
    "Begin for a constructor": r"(^|[.;] )Begin (empty|with (none|nothing)|without)\b",
    "Take in for a step": r"(^|[.;] )(Take in|Take what|Take it\b|Let (nothing|no|what)|Have (it|one|all))\b",
    "in hand for in progress": r"\bin hand\b|\bwithout a word\b|\ball the same\b|\bstands? (still|in for)\b",
    "hold against for compare": r"\bhold(s|ing)? (what|it|them|each|all|a|an|the) [^.;]{1,40} against\b",
}
"""Shapes that are in no docstring and no comment, except in diagrams and quoted names."""
NAMES_BANNED = r"(^|_)(told|asked)(_|$)|^Narrator$"
TEST_NAMES_BANNED = (
    r"def test_(\w*_)?(told|tells?|asked|asks?|who(so|m)?ever|nobody|somebody|everybody|anybody|anew|heeds?|heeded"
    r"|mended|lies|goes_on|go_on|lets?_go|says_so|said)(_\w*)?\(|def test_(who|whom|whose|what)_"
)
PROSE_PACKAGES = tuple(each for each in PACKAGES if each != "pipelines")
NOT_PROSE = ("chaos/report/script.py",)
"""JavaScript."""
QUOTED = r"`[^`]*`|\"[^\"]*\"|\S {2,}\S.*|-->.*|--\w.*"


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Give the modules of the packages."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), parsed(path)


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a module."""
    return ast.parse(path.read_text())


def prose() -> Iterator[tuple[str, str]]:
    """Give the docstrings and comments of the packages: without quoted names, tables and diagrams."""
    for path, module in sources():
        if path.partition("/")[0] not in PROSE_PACKAGES or "/messages/" in path:
            continue
        for node in ast.walk(module):
            for each in () if isinstance(node, ast.Lambda | ast.IfExp) else getattr(node, "body", ()):
                match each:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield f"{path}:{each.lineno}", unquoted(text)
        with open(ROOT / path, "rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT:
                    yield f"{path}:{token.start[0]}", unquoted(token.string.lstrip("# "))


def unquoted(text: str) -> str:
    """Return the sentences of a text, each paragraph in a line."""
    lines = (re.sub(QUOTED, "", line) for line in text.splitlines())
    return "\n\n".join(" ".join(each.split()) for each in "\n".join(lines).split("\n\n"))


def names() -> Iterator[tuple[str, str]]:
    """Give the functions, classes, arguments, variables and attributes of the packages."""
    for path, module in sources():
        if path.partition("/")[0] in PROSE_PACKAGES:
            for node in ast.walk(module):
                match node:
                    case (
                        ast.FunctionDef(name=name)
                        | ast.AsyncFunctionDef(name=name)
                        | ast.ClassDef(name=name)
                        | ast.arg(arg=name)
                        | ast.Name(id=name)
                        | ast.Attribute(attr=name)
                    ):
                        yield f"{path}:{getattr(node, 'lineno', 0)}", name


def literals(node: ast.expr) -> Iterator[str]:
    """Give the texts of an argument; a field of an f-string is {}."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in parts)
        case ast.IfExp(body=body, orelse=orelse):
            yield from literals(body)
            yield from literals(orelse)


def log_messages() -> Iterator[tuple[str, str]]:
    """Give the place and the text of every log message."""
    for path, module in sources():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                owner = ast.unparse(node.func.value)
                if owner in ("log", "logger", "_log", "self._log", "logging") and node.args:
                    yield from ((f"{path}:{node.lineno}", text) for text in literals(node.args[0]))


def errors() -> Iterator[tuple[str, str]]:
    """Give the place and the text of every exception that is raised with a text."""
    for path, module in sources():
        for node in ast.walk(module):
            call = node.exc if isinstance(node, ast.Raise) else node
            named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "fail"
            if isinstance(call, ast.Call) and (isinstance(node, ast.Raise) or named):
                if ast.unparse(call.func) == "AssertionError":
                    continue
                for each in [*call.args, *(keyword.value for keyword in call.keywords)]:
                    yield from ((f"{path}:{node.lineno}", text) for text in literals(each))


def outputs() -> Iterator[tuple[str, str]]:
    """Give the texts of the commands and the chaos lab: string literals of three words or more."""

    def walk(node: ast.AST) -> Iterator[ast.expr]:
        for each in ast.iter_child_nodes(node):
            match each:
                case ast.Expr(value=ast.Constant()):
                    pass
                case ast.Constant() | ast.JoinedStr():
                    yield each
                case _:
                    yield from walk(each)

    for path, module in sources():
        if path.startswith(("chaos/", "cli/")) and path not in NOT_PROSE:
            for node in walk(module):
                yield from ((f"{path}:{node.lineno}", text) for text in literals(node) if len(text.split()) > 2)


def api_texts() -> Iterator[tuple[str, str]]:
    """Give the descriptions of the OpenAPI documents."""

    def walk(value: object, place: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, each in value.items():
                if key in ("description", "summary") and isinstance(each, str):
                    yield place, each
                else:
                    yield from walk(each, f"{place}/{key}")
        elif isinstance(value, list):
            for each in value:
                yield from walk(each, place)

    chaos = [each for kind in (FaultRoutes, ScenarioRoutes) for each in kind.__new__(kind).operations()]
    yield from walk(document(operations(), "1"), "")
    yield from walk(document(chaos, "1"), "/v1/chaos")


def help_texts() -> Iterator[tuple[str, str]]:
    """Give the help of commands and options, except Kafka's scripts."""

    def walk(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
        context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
        yield path, command.help or ""
        yield from (
            (f"{path} {each.name}", each.help or "") for each in command.params if isinstance(each, click.Option)
        )
        if isinstance(command, click.Group) and path != "kvorum kafka":
            for name in COMMANDS if parent is None else command.list_commands(context):
                below = command.get_command(context, name)
                if below is not None:
                    yield from walk(below, f"{path} {name}", context)

    yield from walk(main_command, "kvorum", None)


def reference_texts() -> Iterator[tuple[str, str]]:
    """Give the meanings of configs and metrics."""
    for definitions in (BROKER, GROUP, TOPIC):
        yield from ((key, each.documentation) for key, each in definitions.items())
    yield from ((name, each.help) for name, each in DEFINITIONS.items())


TEXTS = {
    "log messages": (log_messages, EVENT_BANNED),
    "errors": (errors, TEXT_BANNED),
    "commands and chaos lab": (outputs, TEXT_BANNED),
    "admin and chaos API": (api_texts, TEXT_BANNED),
    "help": (help_texts, TEXT_BANNED),
    "configs and metrics": (reference_texts, TEXT_BANNED),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_are_plain(kind: str) -> None:
    texts, banned = TEXTS[kind]
    hits = [
        f"{place}: {shape}: {text}"
        for place, text in texts()
        for shape, pattern in banned.items()
        if re.search(pattern, text, re.M | re.I)
    ]
    assert not hits, "\n".join(hits)


def test_docstrings_and_comments_are_plain() -> None:
    hits = [
        f"{place}: {shape}: {found[0]}: {text[:100]}"
        for place, text in prose()
        for shape, pattern in PROSE_BANNED.items()
        if (found := re.search(pattern, text, re.M if shape[0].isupper() else re.M | re.I))
    ]
    assert not hits, "\n".join(hits)


def test_names_are_those_of_the_field() -> None:
    hits = sorted({f"{place} {name}" for place, name in names() if re.search(NAMES_BANNED, name)})
    assert not hits, "\n".join(hits)


def test_names_of_tests_are_those_of_the_field() -> None:
    hits = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if not {"pipelines", "spark"} & {*path.parts}
        for found in re.finditer(TEST_NAMES_BANNED, path.read_text())
    ]
    assert not hits, "\n".join(hits)
    assert all(re.search(TEST_NAMES_BANNED, "def test_" + name) for name in ("who_leads()", "a_lag_is_told()"))


def test_each_shape_of_prose_is_found() -> None:
    """One sentence per shape, as they were."""
    found = {
        "a person for a process": "Whoever asks gets the newest offset.",
        "Who without a noun": "Who comes back begins with epoch 0.",
        "speech": "A leader is told of a rebalance.",
        "mannered verbs": "A link that was mended begins anew.",
        "for want of": "Logs that failed for want of descriptors.",
        "a for per": "One a broker.",
        "as it is": "Return the quotas as they are now.",
        "What without a noun": "What clients are given.",
        "So many without a noun": "So long a rebalance waits.",
        "Ask for a request": "Tell whether a broker leads.",
        "Begin for a constructor": "Begin with nothing known.",
        "Take in for a step": "Take in what was read.",
        "in hand for in progress": "Its high watermark stands still.",
        "hold against for compare": "Hold a replica's batches against what is committed.",
    }
    assert {shape for shape, text in found.items() if re.search(PROSE_BANNED[shape], text, re.M | re.I)} == set(
        PROSE_BANNED
    )


def test_no_line_at_info_is_one_of_many_partitions() -> None:
    """A batch of partitions has one line, with their number and the first names."""
    hits = [
        f"{path}:{node.lineno}"
        for path, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "log.info"
        if any(each.arg == "partition" for each in node.keywords)
    ]
    assert not hits, "\n".join(hits)


def test_each_shape_is_found() -> None:
    """One text per kind, as they were."""
    found = {
        "speech for a response": "a change was asked for",
        "there for exists": "internal topic is there",
        "is no for is not a": "node 4 is no controller",
        "for want of": "file operation failed for want of descriptors",
        "in hand for in progress": "a connection with a request in hand",
        "comes back for restarts": "{} comes back with an empty disk",
        "an article first": "the event loop stood still",
    }
    added = {kind: pattern for kind, pattern in EVENT_BANNED.items() if kind not in BANNED}
    assert {kind for kind, text in found.items() if re.search(added[kind], text, re.M | re.I)} == set(added)
