"""`kvorum chaos`: break a cluster, record its behaviour, check its guarantees. Each command is a separate module."""

import click

from kvorum.cli.lazy import LazyGroup

COMMANDS = {
    "list": ("cli.chaos.run:list_command", "List the scenarios."),
    "run": ("cli.chaos.run:run", "Run scenarios: load, faults, final reads, verdict."),
    "check": (
        "cli.chaos.check:check",
        "Check the history of a run for lost, duplicated and reordered records.",
    ),
    "serve": ("cli.chaos.serve:serve", "Serve faults and scenarios over HTTP, with the web console."),
    "report": ("cli.chaos.report:report", "Write the HTML report of a recorded run."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def chaos() -> None:
    """The chaos lab.

    \b
    kvorum chaos run n-minus-one                kills every leader in turn; exit code 1 on a violation
    kvorum chaos check history.jsonl            checks a recorded run; exit code 1 on a violation
    """
