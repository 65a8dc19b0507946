"""Write the generated parts of docs/configs.md, docs/monitoring.md and docs/command-line.md from the code.

Run: python tools/generate_docs.py [--check]. Tables of configs come from kvorum.runtime.config_defs, that of the
metrics from kvorum.runtime.metric_definitions and, for who tells what, from where each is registered: a name that is
used in a room is told by the process that room is part of. tests/unit/repository/test_generated_docs.py
compares the pages with the code.
"""

import argparse
import ast
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from kvorum.cli.kafka.scripts import SCRIPTS
from kvorum.cli.main import COMMANDS
from kvorum.cli.main import main as main_command
from kvorum.runtime import metric_names
from kvorum.runtime.config_defs import BROKER, GROUP, TOPIC, ConfigDef, Mutability
from kvorum.runtime.metric_definitions import DEFINITIONS, OF_A_NODE

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
CHANGES = {
    Mutability.READ_ONLY: "at start",
    Mutability.PER_BROKER: "a broker",
    Mutability.CLUSTER_WIDE: "all brokers",
}
OURS = ("kvorum.", "admin.", "metrics.listener")
MODULE = ("names", "metric_names")
"""As what metric_names is imported."""
TOLD_BY = (
    ("broker", "broker"),
    ("cluster/broker_", "broker"),
    ("quorum", "controller"),
    ("cluster/controller_", "controller"),
    ("network", "both"),
    ("cluster/process_", "both"),
    ("runtime", "both"),
    ("storage", "broker"),
)
"""By the beginning of the path where a metric is registered. What both rooms register is told by both."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return a table in Markdown."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def configs() -> str:
    """Return the tables of all configs but those that are for tests."""
    ours = {name: each for name, each in BROKER.items() if name.startswith(OURS)}
    kafkas = {name: each for name, each in BROKER.items() if name not in ours}
    lines: list[str] = []
    for title, found in (
        ("Kvorum's own", ours),
        ("Of a node, by Kafka's names", kafkas),
        ("Of a topic", TOPIC),
        ("Of a group", GROUP),
    ):
        lines += ["", f"## {title}", "", *config_table(found, of_node=found in (ours, kafkas))]
    return "\n".join(lines[1:])


def config_table(found: Mapping[str, ConfigDef], *, of_node: bool) -> list[str]:
    """Return one of them."""
    head = ["key", "type", "default", *(["changes"] if of_node else []), "meaning"]
    rows = (
        [
            f"`{each.name}`",
            each.type.name.lower(),
            "" if each.default is None else f"`{each.default}`" if each.default else "empty",
            *([CHANGES[each.mutability]] if of_node else []),
            each.documentation,
        ]
        for each in found.values()
        if not each.internal
    )
    return table(head, rows)


def metrics() -> str:
    """Return the table of all metrics."""
    tellers = tellers_of_names()
    rows = [
        [
            f"`{name}`",
            ", ".join(f"`{label}`" for label in (*each.labels, *(("quantile",) if each.in_quantiles else ()))),
            "once a node" if name in OF_A_NODE else tellers[name],
            each.help,
        ]
        for name, each in DEFINITIONS.items()
    ]
    return "\n".join(table(["metric", "labels", "told by", "what"], rows))


def tellers_of_names() -> dict[str, str]:
    """Return {metric: broker, controller or both}, by who registers it."""
    constants = {value: key for key, value in vars(metric_names).items() if isinstance(value, str) and key.isupper()}
    used: dict[str, set[str]] = {}
    for path in sorted(ROOT.glob("*/**/*.py")):
        place = path.relative_to(ROOT).as_posix()
        teller = next((who for prefix, who in TOLD_BY if place.startswith(prefix)), None)
        if teller is not None and place != "runtime/metric_definitions.py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULE:
                    used.setdefault(node.attr, set()).add(teller)
    return {name: who_of(used[constants[name]]) for name in DEFINITIONS}


def who_of(tellers: set[str]) -> str:
    """Return one word for all who tell a metric."""
    return next(iter(tellers)) if len(tellers) == 1 else "both"


def commands() -> str:
    """Return the tables of commands and of Kafka's scripts."""
    context = click.Context(main_command)
    rows = []
    for name, (_, text) in COMMANDS.items():
        command = main_command.get_command(context, name)
        below = command.list_commands(context) if isinstance(command, click.Group) and name != "kafka" else []
        rows.append([f"`{name}`", ", ".join(f"`{each}`" for each in below), text])
    scripts = [[f"`{name}`", text] for name, (_, text) in SCRIPTS.items()]
    lines = ["## Commands", "", *table(["command", "what is below it", "what it does"], rows)]
    return "\n".join([*lines, "", "## Kafka's scripts", "", *table(["script", "what it does"], scripts)])


PAGES = {"configs.md": configs, "monitoring.md": metrics, "command-line.md": commands}


def rendered(page: str, text: str) -> str:
    """Return a page with its generated part as the code has it now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{PAGES[page]()}\n{END}{after}"


def main() -> int:
    """Write the pages, or say which are not what they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page would change")
    check = parser.parse_args().check
    stale = 0
    for page in PAGES:
        path = ROOT / "docs" / page
        text = path.read_text()
        fresh = rendered(page, text)
        if fresh != text:
            stale += 1
            if check:
                print(f"docs/{page} is old: run python tools/generate_docs.py", file=sys.stderr)
            else:
                path.write_text(fresh)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
