"""`kvorum pipelines run | validate | plugins | package | doctor`."""

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.configs.shipped import ConfigFile
from kvorum.cli.local.folders import end_command
from kvorum.cli.output import Exit, fail, output_option, pairs, show
from kvorum.cli.pipelines.options import (
    problem_count_text,
    report_errors,
    require_extra,
    require_start,
    root,
    state_option,
)

if TYPE_CHECKING:
    from kvorum.pipelines.run.process import Launch
    from kvorum.pipelines.run.state import Folder
    from kvorum.pipelines.spec import Pipeline

F = TypeVar("F", bound=Callable[..., object])


def session_options(command: F) -> F:
    """Add the options of a Spark session."""
    for option in (
        click.option("--conf", "confs", multiple=True, metavar="KEY=VALUE", help="Spark setting."),
        click.option("--jars", metavar="DIR", help="Folder of jars (default: $KVORUM_SPARK_JARS)."),
        click.option("--memory", default="1g", show_default=True, help="Heap of the driver."),
        click.option(
            "--master", help="Spark master: local[2], spark://host:port, k8s://..., yarn (default: this machine)."
        ),
    ):
        command = option(command)
    return command


def launch(master: str | None, memory: str, jars: str | None, confs: tuple[str, ...], **more: Any) -> "Launch":
    """Return the options as one value."""
    from kvorum.pipelines.run.process import Launch

    folder, settings = os.path.abspath(jars) if jars else None, pairs(confs, "--conf")
    return Launch(master=master, memory=memory, jars=folder, settings=settings, folder=os.getcwd(), **more)


@click.command()
@click.argument("file", type=ConfigFile(), metavar="PIPELINE")
@click.option("--detach", is_flag=True, help="Leave it running and return; `kvorum pipelines stop` ends it.")
@click.option("--paused", is_flag=True, help="Start paused, until `kvorum pipelines resume`.")
@click.option(
    "--retries", type=click.IntRange(0), default=10, show_default=True, help="Number of retries of temporary errors."
)
@click.option("-v", "--verbose", is_flag=True, help="Print Spark's log here instead of the pipeline's log file.")
@session_options
@state_option
def run(
    file: str,
    detach: bool,
    paused: bool,
    retries: int,
    verbose: bool,
    master: str | None,
    memory: str,
    jars: str | None,
    confs: tuple[str, ...],
    state_dir: str | None,
) -> None:
    """Run the pipeline of a file: YAML, JSON, or a connector's configuration (JSON, .properties).

    A pipeline continues at its position. Exit code 1 if it failed, 2 if its file is invalid.

    \b
    kvorum pipelines run configs/pipelines/orders-in.yaml
    kvorum pipelines run orders.yaml --detach --master spark://spark:7077 --memory 2g
    """
    require_extra()
    from kvorum.pipelines.run import process
    from kvorum.pipelines.run.compile import loaded
    from kvorum.pipelines.run.state import Folder, State

    wanted = launch(master, memory, jars, confs, paused=paused, retries=retries)
    with report_errors():
        pipeline = loaded(file)
        folder = Folder(root(state_dir), pipeline.name)
        try:
            folder.make()
        except OSError as error:
            end_command(error, str(folder.path))
        click.echo(f"pipeline {pipeline.name}: state and Spark's log are in {folder.path}", err=True)
        if not detach:
            raise SystemExit(run_here(folder, pipeline, wanted, verbose))
        started = process.start(pipeline, folder, wanted)
        status = process.wait(started, folder, (State.RUNNING, State.PAUSED, State.FINISHED))
    require_start(folder, status)
    click.echo(f"pipeline {pipeline.name} is {status.state} (process {status.pid}; {status.connector})")


def run_here(folder: "Folder", pipeline: "Pipeline", wanted: "Launch", verbose: bool) -> int:
    """Run a pipeline in this process until it ends; return the exit code."""
    from kvorum.pipelines.run import worker
    from kvorum.pipelines.run.terminal import WHOLE, beside_the_log

    logging.getLogger("py4j").setLevel(logging.WARNING)
    if verbose:
        logging.basicConfig(level=logging.INFO, format=WHOLE, stream=sys.stderr)
        return worker.run(folder, pipeline, wanted)
    click.echo("press Ctrl-C to stop", err=True)
    with beside_the_log(folder):
        code = worker.run(folder, pipeline, wanted)
    if code:
        click.echo(f"complete log: {folder.log} (kvorum pipelines logs {pipeline.name})", err=True)
    return code


@click.command()
@click.argument("files", type=ConfigFile(), nargs=-1, required=True, metavar="PIPELINE...")
def validate(files: tuple[str, ...]) -> None:
    """Validate pipeline files; print errors with lines and suggestions. Does not start Spark.

    \b
    kvorum pipelines validate configs/pipelines/*.yaml
    """
    require_extra()
    from kvorum.pipelines.run.compile import loaded
    from kvorum.pipelines.spec import SpecError

    problems = 0
    for file in files:
        try:
            with report_errors(problems_fail=False):
                pipeline = loaded(file)
        except SpecError as error:
            problems += len(error.problems)
            continue
        count = len(pipeline.transforms)
        steps = f", {count} transform{'s' * (count != 1)}" if count else ""
        click.echo(f"{file}: pipeline {pipeline.name}, {pipeline.source.type} to {pipeline.sink.type}{steps}")
    if problems:
        fail(problem_count_text(problems), Exit.USAGE)


@click.command()
@output_option
def plugins(output: str) -> None:
    """List sources and sinks, those of other packages included.

    \b
    kvorum pipelines plugins -o json
    """
    require_extra()
    from kvorum.pipelines.plugins import plugins as there

    with report_errors():
        rows = [
            {"kind": p.kind.value, "name": p.name, "package": p.package, "version": p.version, "target": p.target}
            for p in there()
        ]
    show(rows, output)


@click.command()
@click.argument("target", type=click.Path(dir_okay=False), default="kvorum-pipelines.zip", metavar="[ZIP]")
def package(target: str) -> None:
    """Write the code for executors, for spark-submit; `run --master ...` distributes it automatically.

    \b
    kvorum pipelines package kvorum-pipelines.zip
    spark-submit --master yarn --py-files kvorum-pipelines.zip \\
        $(python -c 'import kvorum.pipelines.run.worker as w; print(w.__file__)') orders.yaml --state /data/pipelines
    """
    require_extra()
    from pathlib import Path

    from kvorum.pipelines.session.build import pack

    click.echo(str(pack(Path(target))))


@click.command()
@click.option("--memory", default="1g", show_default=True, help="Heap of the driver.")
@click.option("--jars", metavar="DIR", help="Folder of jars (default: $KVORUM_SPARK_JARS).")
@output_option
def doctor(memory: str, jars: str | None, output: str) -> None:
    """Check the requirements of pipelines on this machine and print how to fix missing ones.

    Exit code 1 if a mandatory requirement is missing.

    \b
    kvorum pipelines doctor
    kvorum pipelines doctor --jars ./jars -o json
    """
    require_extra()
    from kvorum.pipelines.session.machine import examine

    found = list(examine(memory, jars))
    show(found, output)
    raise SystemExit(Exit.FAILED if any(each["state"] == "missing" for each in found) else Exit.DONE)
