"""MkDocs hooks of the documentation site (`make docs`).

They add pages that are not in docs/: those at the top of the checkout, the list of decisions, and the reference of
commands, HTTP operations and the Python API, generated from the code. They translate what GitHub displays and MkDocs
does not: alerts (`> [!WARNING]`) and links from docs/ to the top of the checkout.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import EnumType
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import kvorum.client
from kvorum.admin.app import operations
from kvorum.admin.http.operations import Operation
from kvorum.cli.commands import COMMANDS
from kvorum.cli.main import main as main_command
from kvorum.client import Cluster

ROOT = Path(__file__).parent.parent
AT_THE_TOP = ("ARCHITECTURE.md", "CHANGELOG.md", "STYLE.md")
ADMONITIONS = {"NOTE": "note", "TIP": "tip", "IMPORTANT": "info", "WARNING": "warning", "CAUTION": "danger"}
ALERT = re.compile(r"^> \[!([A-Z]+)\]\n((?:>.*\n)+)", re.MULTILINE)
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:configs|tests|tools)\b[^)]*)\)")
TO_THE_TOP = re.compile(rf"\]\(\.\./({'|'.join(AT_THE_TOP)})(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    generated = {
        "decisions/README.md": decisions(),
        "reference/commands.md": "# Commands and options\n\n" + "\n".join(commands(main_command, "kvorum")),
        "reference/http.md": http_operations(),
        "reference/python.md": python_api(),
    }
    for name in AT_THE_TOP:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name, text in generated.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Translate alerts and links of a page."""
    text = ALERT.sub(lambda match: admonition(*match.groups()), markdown + "\n")
    text = TO_THE_TOP.sub(r"](\1", text)
    text = OUTSIDE.sub(r"\1 (\2)", text)
    return text.replace("](decisions)", "](decisions/README.md)")


def admonition(kind: str, quoted: str) -> str:
    """Return an alert of GitHub's as an admonition of Python-Markdown's."""
    lines = [line.removeprefix(">").removeprefix(" ") for line in quoted.splitlines()]
    body = "".join(f"    {line}\n" if line else "\n" for line in lines)
    return f'!!! {ADMONITIONS[kind]} "{kind.capitalize()}"\n\n{body}\n'


def decisions() -> str:
    """Return the list of decisions, by their titles."""
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    rows = (f"- [{page.read_text().splitlines()[0].removeprefix('# ')}]({page.name})" for page in pages)
    return "# Decisions\n\n" + "\n".join(rows) + "\n"


def commands(command: click.Command, path: str, parent: click.Context | None = None) -> Iterator[str]:
    """Yield the help of a command and its subcommands, except Kafka's scripts: those have Kafka's documentation."""
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    if parent is not None:
        yield f"## {path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group) and path != "kvorum kafka":
        for name in COMMANDS if parent is None else command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, f"{path} {name}", context)


def http_operations() -> str:
    """Return a section per resource of the admin API, with its operations."""
    found: dict[str, list[Operation]] = {}
    for operation in operations():
        _, version, resource, *_ = f"{operation.path}//".split("/")
        found.setdefault(f"/{version}/{resource}", []).append(operation)
    parts = ["# Operations of the admin API\n", "`/openapi.json` of a running node has the models too.\n"]
    for resource, listed in found.items():
        parts += [f"## {resource}\n", *map(http_operation, listed)]
    return "\n".join(parts)


def http_operation(operation: Operation) -> str:
    """Return method and path, summary, role and query parameters of one operation."""
    lines = [f"**`{operation.method} {operation.path}`**", ""]
    lines += [f"{operation.summary}. Role: {operation.needs.name.lower()}."]
    if operation.query:
        lines += ["", "| parameter | meaning |", "| --- | --- |"]
        lines += [f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in operation.query.items()]
    return "\n".join([*lines, ""])


def python_api() -> str:
    """Return the methods of each namespace of the Python API, then the public classes, by their docstrings."""
    parts = ["# Methods of the Python API\n", "`SyncCluster` has the same methods without `await`.\n"]
    for name, namespace in vars(Cluster.connect("localhost:9092")).items():
        methods = [method for method in vars(type(namespace)).items() if not method[0].startswith("_")]
        if name != "client":
            parts += [
                f"## cluster.{name}\n",
                *(python_item(f"cluster.{name}.{each}", found) for each, found in methods),
            ]
    parts.append("## Classes\n")
    for name in kvorum.client.__all__:
        found = getattr(kvorum.client, name)
        if is_dataclass(found):
            rows = "\n".join(
                f"    {each.name}: {without_modules(inspect.formatannotation(each.type))}" for each in fields(found)
            )
            parts.append(f"```python\nclass {name}:\n{rows}\n```\n\n{inspect.getdoc(found)}\n")
        elif isinstance(found, EnumType):
            parts.append(f"**`{name}`**: {inspect.getdoc(found)} {', '.join(f'`{each.name}`' for each in found)}\n")
    return "\n".join(parts)


def python_item(name: str, function: Any) -> str:
    """Return the signature and the docstring of a method."""
    wait = "await " if inspect.iscoroutinefunction(function) else ""
    signature = re.sub(r"\(self(, )?", "(", without_modules(str(inspect.signature(function))), count=1)
    return f"```python\n{wait}{name}{signature}\n```\n\n{inspect.getdoc(function)}\n"


def without_modules(text: str) -> str:
    """Return a type or signature without the names of modules; defaults that are members of enums by their names."""
    return re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text))
