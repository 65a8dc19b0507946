"""`kvorum pipelines connect`: Kafka Connect's REST interface over pipelines."""

import sys
from pathlib import Path
from typing import Any

import click

from kvorum.cli.output import Exit, fail, pairs

EXIT_SUPERSEDED = 5
"""Of a manager that another one replaced: a service manager must not start it again."""


@click.command()
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="Cluster that stores the state.")
@click.option("--listen", default="127.0.0.1:8083", show_default=True, metavar="HOST:PORT", help="Port 0: a free one.")
@click.option(
    "--state",
    "state_dir",
    default="kvorum-connect",
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of workers and their checkpoints.",
)
@click.option("--checkpoints", metavar="DIR|URL", help="Folder of checkpoints, if not --state: reachable everywhere.")
@click.option(
    "--prefix",
    default="connect",
    show_default=True,
    help="Prefix of the topics -configs, -offsets and -status. A new manager replaces the earlier one of the topics.",
)
@click.option("--master", metavar="URL", help="local[2], spark://host:port, k8s://..., yarn.")
@click.option("--memory", default="1g", show_default=True, help="Heap of each worker's driver.")
@click.option("--jars", metavar="DIR", help="A folder of jars for Spark.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark setting for all workers.")
@click.option("--client", multiple=True, metavar="KEY=VALUE", help="Setting of all Kafka clients of this cluster.")
@click.option(
    "--log-level", default="INFO", show_default=True, type=click.Choice(("DEBUG", "INFO", "WARNING", "ERROR"))
)
def connect(
    state_dir: Path,
    master: str | None,
    memory: str,
    jars: str | None,
    conf: tuple[str, ...],
    client: tuple[str, ...],
    log_level: str,
    **options: Any,
) -> None:
    """Run pipelines managed over Kafka Connect's REST interface.

    \b
    kvorum pipelines connect --bootstrap 127.0.0.1:9092
    curl localhost:8083/connectors -H 'Content-Type: application/json' -d '{"name": "lines", "config": {
      "connector.class": "FileStreamSource", "file": "/var/log/apps", "topic": "lines"}}'
    """  # fmt: skip
    import asyncio
    import logging

    from kvorum.pipelines.bridge.client import OptionError
    from kvorum.pipelines.connect.errors import RunnerError, Superseded
    from kvorum.pipelines.connect.routes import serve
    from kvorum.pipelines.run.process import RETRIES_OF_CONNECTORS, Launch
    from kvorum.pipelines.run.state import StateError
    from kvorum.pipelines.spec import SpecError

    logging.basicConfig(
        level=log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr, force=True
    )
    launch = Launch(
        master=master, memory=memory, jars=jars, settings=pairs(conf, "--conf"), retries=RETRIES_OF_CONNECTORS
    )
    try:
        asyncio.run(serve(launch=launch, client=pairs(client, "--client"), state_dir=state_dir.absolute(), **options))
    except (RunnerError, StateError, SpecError, OptionError, OSError, Superseded) as error:
        fail(str(error), EXIT_SUPERSEDED if isinstance(error, Superseded) else Exit.FAILED)


if __name__ == "__main__":
    connect(prog_name="kvorum pipelines connect")
