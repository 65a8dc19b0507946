"""`kvorum pipelines`: data pipelines on Spark. Each command is imported on use."""

import click

from kvorum.cli.lazy import LazyGroup

COMMANDS = {
    "run": ("cli.pipelines.run:run", "Run a pipeline: here until it ends, or detached."),
    "validate": ("cli.pipelines.run:validate", "Show the errors in a pipeline's file, by line."),
    "list": ("cli.pipelines.manage:list_", "List pipelines and their states."),
    "status": ("cli.pipelines.manage:status", "Show the status of a pipeline: state, records, rate, lag."),
    "pause": ("cli.pipelines.manage:pause", "Hold a pipeline; its process stays."),
    "resume": ("cli.pipelines.manage:resume", "Resume a paused pipeline."),
    "stop": ("cli.pipelines.manage:stop", "End a pipeline's process; its positions are kept."),
    "restart": ("cli.pipelines.manage:restart", "Stop a pipeline and start it as it was started last."),
    "offsets": ("cli.pipelines.manage:offsets", "Show how far a pipeline has read."),
    "logs": ("cli.pipelines.manage:logs", "Show the log of a pipeline's process."),
    "connect": ("cli.pipelines.connect:connect", "Connect's REST interface, and the process that keeps pipelines."),
    "mirror": ("pipelines.mirror.run:command", "Copy topics of one cluster to another, and groups with them."),
    "plugins": ("cli.pipelines.run:plugins", "List sources, sinks and what packages add to them."),
    "package": ("cli.pipelines.run:package", "Write the zip that spark-submit wants as --py-files."),
    "doctor": ("cli.pipelines.run:doctor", "Check the requirements of pipelines."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def pipelines() -> None:
    """Run data pipelines on Spark, one file per pipeline. Needs kvorum[pipelines] and Java.

    \b
    kvorum pipelines doctor                     check the requirements
    kvorum pipelines run orders.yaml            run it here, until Ctrl-C
    kvorum pipelines run orders.yaml --detach   leave it running
    kvorum pipelines status orders              records, rate, lag
    """
