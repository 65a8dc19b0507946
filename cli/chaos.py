"""`kvorum chaos`: break a cluster, record its behaviour, check its guarantees. Each command is a separate module."""

import click

from kvorum.cli.lazy import LazyGroup

COMMANDS = {
    "list": ("cli.chaos_run:list_command", "List the scenarios."),
    "run": ("cli.chaos_run:run", "Run scenarios: load, faults, final reads, verdict."),
    "check": (
        "cli.chaos_check:check",
        "Check the history of a run for lost, duplicated and reordered records.",
    ),
    "check-spark": ("chaos.spark_check:main", "Check a history that is larger than memory, on Spark."),
    "serve": ("cli.chaos_serve:serve", "Serve faults and scenarios over HTTP, with the web console."),
    "mutants": ("cli.chaos_mutants:mutants", "Insert known mistakes and check that tests find them."),
    "report": ("cli.chaos_report:report", "Write the HTML report of a recorded run."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def chaos() -> None:
    """The chaos lab.

    \b
    kvorum chaos run n-minus-one                kills every leader in turn; exit code 1 on a violation
    kvorum chaos check history.jsonl            checks a recorded run; exit code 1 on a violation
    """
