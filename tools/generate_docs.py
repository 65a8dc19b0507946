"""Write the generated parts of docs/configs.md, monitoring.md, command-line.md and chaos.md from the code.

Run: python tools/generate_docs.py [--check]. The tables of configs come from kvorum.runtime.config_defs, the table of
metrics from kvorum.runtime.metric_definitions, those of faults from kvorum.chaos.faults.fault_kinds. The process that
exposes a metric follows from the package that registers it. tests/unit/repository/test_generated_docs.py checks the
pages.
"""

import argparse
import ast
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from kvorum.admin.app import operations
from kvorum.chaos.faults.fault_kinds import FAULTS, GROUPS, FaultKind
from kvorum.chaos.faults.fault_options import FaultOptions
from kvorum.cli.commands import COMMANDS
from kvorum.cli.kafka.scripts import SCRIPTS
from kvorum.cli.main import main as main_command
from kvorum.runtime import metric_names
from kvorum.runtime.config_defs import BROKER, GROUP, TOPIC, ConfigDef, Mutability
from kvorum.runtime.metric_definitions import DEFINITIONS, OF_A_NODE

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
CHANGES = {
    Mutability.READ_ONLY: "at start",
    Mutability.PER_BROKER: "per broker",
    Mutability.CLUSTER_WIDE: "all brokers",
}
OPERATIONS_TEXT = (
    "These commands are operations of the admin API ([Admin HTTP API](admin-api.md)): same names, values and fields. "
    "The command uses Kafka's\nprotocol and needs no admin server."
)
OURS = ("kvorum.", "admin.", "metrics.listener")
MODULE = ("names", "metric_names")
"""Names under which metric_names is imported."""
EXPOSED_BY = (
    ("broker", "broker"),
    ("cluster/metrics/broker_", "broker"),
    ("cluster/process/broker_", "broker"),
    ("quorum", "controller"),
    ("cluster/metrics/controller_", "controller"),
    ("cluster/process/controller_", "controller"),
    ("network", "both"),
    ("cluster/metrics/process_", "both"),
    ("runtime", "both"),
    ("storage", "broker"),
)
"""(path prefix of the module that registers a metric, process that exposes it). Registered by both: `both`."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return a table in Markdown."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def configs() -> str:
    """Return the tables of all configs except internal ones."""
    ours = {name: each for name, each in BROKER.items() if name.startswith(OURS)}
    kafkas = {name: each for name, each in BROKER.items() if name not in ours}
    lines: list[str] = []
    for title, found in (
        ("Kvorum only", ours),
        ("Nodes", kafkas),
        ("Topics", TOPIC),
        ("Groups", GROUP),
    ):
        lines += ["", f"## {title}", "", *config_table(found, of_node=found in (ours, kafkas))]
    return "\n".join(lines[1:])


def config_table(found: Mapping[str, ConfigDef], *, of_node: bool) -> list[str]:
    """Return one table of configs."""
    head = ["Key", "Type", "Default", *(["Changes"] if of_node else []), "Meaning"]
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
    exposed_by = processes_by_metric()
    rows = [
        [
            f"`{name}`",
            ", ".join(f"`{label}`" for label in (*each.labels, *(("quantile",) if each.in_quantiles else ()))),
            "once per node" if name in OF_A_NODE else exposed_by[name],
            each.help,
        ]
        for name, each in DEFINITIONS.items()
    ]
    return "\n".join(table(["Metric", "Labels", "Exposed by", "Meaning"], rows))


def processes_by_metric() -> dict[str, str]:
    """Return {metric: broker, controller or both}."""
    constants = {value: key for key, value in vars(metric_names).items() if isinstance(value, str) and key.isupper()}
    used: dict[str, set[str]] = {}
    for path in sorted(ROOT.glob("*/**/*.py")):
        module = path.relative_to(ROOT).as_posix()
        process = next((process for prefix, process in EXPOSED_BY if module.startswith(prefix)), None)
        if process is not None and module != "runtime/metric_definitions.py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULE:
                    used.setdefault(node.attr, set()).add(process)
    return {name: one_or_both(used[constants[name]]) for name in DEFINITIONS}


def one_or_both(processes: set[str]) -> str:
    """Return the only process, or `both`."""
    return next(iter(processes)) if len(processes) == 1 else "both"


def commands() -> str:
    """Return the tables of commands and of Kafka's scripts."""
    context = click.Context(main_command)
    rows = []
    for name, (_, text) in COMMANDS.items():
        command = main_command.get_command(context, name)
        below = command.list_commands(context) if isinstance(command, click.Group) and name != "kafka" else []
        rows.append([f"`{name}`", ", ".join(f"`{each}`" for each in below), text])
    scripts = [[f"`{name}`", text] for name, (_, text) in SCRIPTS.items()]
    lines = ["## Commands", "", *table(["Command", "Subcommands", "Purpose"], rows)]
    lines += ["", "## Operations", "", OPERATIONS_TEXT, "", *operation_table()]
    return "\n".join([*lines, "", "## Kafka's scripts", "", *table(["Script", "Purpose"], scripts)])


def operation_table() -> list[str]:
    """Return the table of the operations that are commands and HTTP requests."""
    named = sorted((each.command.name, each) for each in operations() if each.command is not None)
    rows = [
        [f"`kvorum {name}`", f"`{each.method} {each.path}`", each.needs.name.lower(), f"{each.summary}."]
        for name, each in named
    ]
    return table(["Command", "HTTP", "Role", "Purpose"], rows)


TARGETS = {"nodes": "node", "processes": "node or process", "parties": "end", "partitions": "partition"}
ENDS = {"start": "start of its nodes", "end": "its end", "at once": "at once"}


def faults() -> str:
    """Return the tables of all faults, by their needs."""
    lines: list[str] = []
    for needs, title in GROUPS.items():
        rows = [
            [f"`{each.name}`", each.about, targets_of(each), options_of(each.options), each.stops, ENDS[each.ends]]
            for each in FAULTS.values()
            if each.needs == needs
        ]
        lines += ["", f"### {title}", "", *table(["Fault", "Effect", "Targets", "Options", "Stops", "Ends with"], rows)]
    return "\n".join(lines[1:])


def targets_of(kind: FaultKind) -> str:
    """Return the number and kind of a fault's targets."""
    first, last = kind.targets
    if last == 0:
        return "none"
    word = TARGETS[kind.of]
    return word if last == 1 else f"{first if first == last else f'{first} to {last}'} {word}s"


def options_of(options: type[FaultOptions]) -> str:
    """Return the options with their bounds, and their other spelling in a step."""
    schema, spellings, found = options.model_json_schema(), options.spellings(), []
    for name, each in schema.get("properties", {}).items():
        shape = next((one for one in each.get("anyOf", [each]) if one["type"] != "null"), each)
        shape = {**shape, **{key: each[key] for key in ("default",) if key in each}}
        words = [f"`{name}`", *(f"(`{other}`)" for other in spellings[name][1:])]
        if "enum" in shape:
            words.append(", ".join(shape["enum"]))
        low, high = shape.get("minimum", shape.get("exclusiveMinimum")), shape.get("maximum")
        if low is not None and high is not None:
            words.append(f"{low:,} to {high:,}" if "minimum" in shape else f"above {low:,}, up to {high:,}")
        elif low is not None:
            words.append(f"from {low:,}")
        words += ["(required)"] if name in schema.get("required", ()) else []
        found.append(" ".join(words))
    return "; ".join(found)


PAGES = {"configs.md": configs, "monitoring.md": metrics, "command-line.md": commands, "chaos.md": faults}


def rendered(page: str, text: str) -> str:
    """Return a page with its generated part brought up to date."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{PAGES[page]()}\n{END}{after}"


def main() -> int:
    """Write the pages, or report stale ones."""
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
                print(f"docs/{page} is stale: run python tools/generate_docs.py", file=sys.stderr)
            else:
                path.write_text(fresh)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
