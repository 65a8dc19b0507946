"""`kvorum chaos`: break a cluster, record what it did, check what it promised. Each command is a module of its own."""

import click

from kvorum.cli.lazy import LazyGroup

COMMANDS = {
    "list": ("cli.chaos_run:list_command", "List the shipped scenarios."),
    "run": ("cli.chaos_run:run", "Run scenarios: load, faults, final reads, verdict."),
    "check": (
        "cli.chaos_check:check",
        "Check the history of a run: what was lost, duplicated, reordered, and was it legal.",
    ),
    "check-spark": ("chaos.spark_check:main", "The same on Spark, for a history that no memory holds."),
    "serve": ("cli.chaos_serve:serve", "An HTTP interface to every fault, for a cluster on this machine."),
    "mutants": ("cli.chaos_mutants:mutants", "Known protocol mistakes: does the simulation find each of them?"),
    "report": ("cli.chaos_report:report", "Write the report of a recorded run: one HTML file."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def chaos() -> None:
    """The chaos lab.

    \b
    kvorum chaos run n-minus-one                kills every leader in turn; exit code 1 on a violation
    kvorum chaos check history.jsonl            checks a recorded run; exit code 1 on a violation
    """
