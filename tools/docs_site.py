"""MkDocs hooks of the documentation site (`make docs`).

They add pages that are not in docs/: those at the top of the checkout, the list of decisions, and the reference of
commands and HTTP operations, generated from the code. They translate what GitHub displays and MkDocs does not: alerts
(`> [!WARNING]`) and links from docs/ to the top of the checkout.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from kvorum.admin.http.app import operations
from kvorum.admin.http.operations import Operation
from kvorum.cli.main import COMMANDS
from kvorum.cli.main import main as main_command

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
