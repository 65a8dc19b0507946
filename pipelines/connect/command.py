"""`kvorum pipelines connect`: Kafka Connect's REST interface over pipelines."""

import sys
from pathlib import Path

import click

EXIT_FAILED = 1
EXIT_USAGE = 2


@click.command()
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="Cluster that stores the state.")
@click.option("--listen", default="127.0.0.1:8083", show_default=True, metavar="HOST:PORT", help="Port 0: a free one.")
@click.option("--advertise", metavar="URL", help="URL for other managers, if it differs from --listen.")
@click.option(
    "--state",
    "state_dir",
    default="kvorum-connect",
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for workers, used by this manager only.",
)
@click.option(
    "--checkpoints",
    metavar="DIR|URL",
    help="Folder of checkpoints; shared by all managers.",
)
@click.option("--group", default="connect-cluster", show_default=True, help="Group id of the managers of one cluster.")
@click.option(
    "--prefix", default="connect", show_default=True, help="Prefix of the topics -configs, -offsets and -status."
)
@click.option("--alone", is_flag=True, help="Single manager without leader election: workers survive its end.")
@click.option("--leave-workers", is_flag=True, help="On shutdown, keep the workers for the next manager.")
@click.option(
    "--lease",
    "lease_seconds",
    default=60.0,
    show_default=True,
    help="Seconds after which workers without a manager exit.",
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
    bootstrap: str,
    listen: str,
    advertise: str | None,
    state_dir: Path,
    checkpoints: str | None,
    group: str,
    prefix: str,
    alone: bool,
    leave_workers: bool,
    lease_seconds: float,
    master: str | None,
    memory: str,
    jars: str | None,
    conf: tuple[str, ...],
    client: tuple[str, ...],
    log_level: str,
) -> None:
    """Run pipelines managed over Kafka Connect's REST interface.

    \b
    kvorum pipelines connect --bootstrap 127.0.0.1:9092
    curl localhost:8083/connectors -H 'Content-Type: application/json' -d '{"name": "lines", "config": {
      "connector.class": "FileStreamSource", "file": "/var/log/apps", "topic": "lines"}}'
    """  # fmt: skip
    import asyncio
    import logging

    from kvorum.pipelines.connect.lease import FolderTaken
    from kvorum.pipelines.connect.manager import Settings, serve
    from kvorum.pipelines.connect.store import Names
    from kvorum.pipelines.run.launch import Launch
    from kvorum.pipelines.spec import SpecError

    logging.basicConfig(
        level=log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr, force=True
    )
    settings = Settings(
        bootstrap=bootstrap,
        state_dir=state_dir.absolute(),
        listen=listen,
        advertise=advertise,
        group=group,
        names=Names(configs=f"{prefix}-configs", offsets=f"{prefix}-offsets", status=f"{prefix}-status"),
        checkpoints=checkpoints,
        launch=Launch(master=master, memory=memory, jars=jars, settings=pairs(conf, "--conf")),
        client=pairs(client, "--client"),
        alone=alone,
        leave_workers=leave_workers,
        lease_seconds=lease_seconds,
    )
    try:
        asyncio.run(serve(settings))
    except (FolderTaken, SpecError, OSError) as error:
        click.echo(f"kvorum: {error}", err=True)
        sys.exit(EXIT_FAILED)


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """Read KEY=VALUE options."""
    for value in values:
        if not value.partition("=")[0] or "=" not in value:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", param_hint=option)
    return {key: text for key, _, text in (value.partition("=") for value in values)}
