"""`kvorum pipelines mirror FILE`: run a mirror until Ctrl-C."""

import logging
import signal
import sys
import threading
from pathlib import Path

import click

from kvorum.pipelines.mirror.run import run
from kvorum.pipelines.mirror.spec import load
from kvorum.pipelines.session.build import SessionSettings, build
from kvorum.pipelines.spec import SpecError


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--master", help="Spark's master: spark://HOST:PORT, k8s://..., yarn, local[2].")
@click.option("--memory", default="1g", show_default=True, help="Heap of the driver.")
@click.option("--check", is_flag=True, help="Only validate the file.")
def mirror(file: Path, master: str | None, memory: str, check: bool) -> None:
    """Mirror topics, configs and group offsets from one cluster to another.

    \b
    kvorum pipelines mirror a-to-b.yaml              until Ctrl-C; continues when restarted
    kvorum pipelines mirror a-to-b.yaml --check      validate the file
    """
    try:
        spec = load(file)
    except SpecError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    if check:
        click.echo(f"{file}: {spec.source.alias} -> {spec.target.alias}, {', '.join(spec.topics)}: right")
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    session = build(spec.name, SessionSettings(master=master, memory=memory, connector="kvorum"))
    try:
        figures = run(spec, session.spark, stop)
    finally:
        session.spark.stop()
    behind = sum(figures.lag().values())
    click.echo(f"{figures.batches} batches; {behind} records behind; groups followed: {figures.groups}")
