"""`kvorum pipelines list | status | pause | resume | stop | restart | offsets | logs`."""

import sys
import time
from dataclasses import asdict
from typing import Any

import click

from kvorum.cli.output import fail, output_option, show
from kvorum.cli.pipelines.options import find_pipeline, report_errors, require_extra, require_start, root, state_option

LIST_COLUMNS = ("name", "state", "pid", "since", "records_in", "records_out", "lag")
FOLLOW_SECONDS = 0.3
RUNNING_SECONDS = 120.0


@click.command("list")
@state_option
@output_option
def list_(state_dir: str | None, output: str) -> None:
    """List the pipelines of a folder and their states.

    \b
    kvorum pipelines list
    """
    require_extra()
    from kvorum.pipelines.run.state import folders

    rows = [row(folder.status(), folder.name) for folder in folders(root(state_dir))]
    show(rows, output, LIST_COLUMNS)


def row(status: Any, name: str) -> dict[str, Any]:
    """Return a status as a row of the list."""
    if status is None:
        return {"name": name, "state": "NEW"}
    progress = {key: status.progress.get(key) for key in ("records_in", "records_out", "lag")}
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.since_ms / 1000))
    return {"name": name, "state": str(status.state), "pid": status.pid, "since": since, **progress}


@click.command()
@click.argument("name")
@state_option
@output_option
def status(name: str, state_dir: str | None, output: str) -> None:
    """Show a pipeline's state, error and counters. `-o json` has the complete trace.

    \b
    kvorum pipelines status orders -o json
    """
    folder = find_pipeline(state_dir, name)
    found = folder.status()
    if found is None:
        fail(f"pipeline {name!r} was never started")
    data = asdict(found)
    if output == "table":
        data |= data.pop("progress")
        data["state"] = str(found.state)
        data = {("reason" if key == "trace" else key): value for key, value in data.items()} | {"reason": found.reason}
        data["log"] = str(folder.log)
    show(data, output)


@click.command()
@click.argument("name")
@state_option
def pause(name: str, state_dir: str | None) -> None:
    """Pause a pipeline. Its process and session are kept, so that it resumes quickly.

    \b
    kvorum pipelines pause orders
    """
    send_command(name, state_dir, "pause")


@click.command()
@click.argument("name")
@state_option
def resume(name: str, state_dir: str | None) -> None:
    """Resume a paused pipeline.

    \b
    kvorum pipelines resume orders
    """
    send_command(name, state_dir, "resume")


def send_command(name: str, state_dir: str | None, command: str) -> None:
    """Send a pipeline a command and print the result."""
    folder = find_pipeline(state_dir, name)
    from kvorum.pipelines.run.control import ask

    with report_errors():
        found = ask(folder.root, name, command)
    click.echo(f"pipeline {name} is {found['state'] if command == 'pause' else found['wanted']}")


@click.command()
@click.argument("name")
@click.option(
    "--timeout", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds until it is killed."
)
@state_option
def stop(name: str, timeout: float, state_dir: str | None) -> None:
    """Stop a pipeline's process. Its positions are kept; `restart` or `run` continues there.

    \b
    kvorum pipelines stop orders
    """
    folder = find_pipeline(state_dir, name)
    from kvorum.pipelines.run import process

    with report_errors():
        found = process.stop(folder, timeout)
    click.echo(f"pipeline {name} is {found.state if found else 'not started'}")


@click.command()
@click.argument("name")
@state_option
def restart(name: str, state_dir: str | None) -> None:
    """Stop a pipeline if it runs, and start it detached with its last options.

    \b
    kvorum pipelines restart orders
    """
    folder = find_pipeline(state_dir, name)
    from kvorum.pipelines.run import process
    from kvorum.pipelines.run.state import State

    with report_errors():
        started = process.restart(folder)
        found = process.wait(started, folder, (State.RUNNING, State.FINISHED), RUNNING_SECONDS)
    require_start(folder, found)
    click.echo(f"pipeline {name} is {found.state} (process {found.pid})")


@click.command()
@click.argument("name")
@click.option(
    "--reset", is_flag=True, help="Delete the offsets of a stopped pipeline, so that it restarts from the beginning."
)
@state_option
@output_option
def offsets(name: str, reset: bool, state_dir: str | None, output: str) -> None:
    """Show a pipeline's last completed micro-batch and positions.

    After --reset a pipeline reads and writes everything again.

    \b
    kvorum pipelines offsets orders
    kvorum pipelines stop orders; kvorum pipelines offsets orders --reset
    """
    folder = find_pipeline(state_dir, name)
    from kvorum.pipelines.run import checkpoint
    from kvorum.pipelines.run.control import ask

    with report_errors():
        if reset:
            checkpoint.reset(folder)
            click.echo(f"pipeline {name} starts from the beginning")
            return
        if folder.alive():
            found = ask(folder.root, name, "offsets")
        else:
            found = checkpoint.committed(checkpoint.of_pipeline(folder))
    rows = [line for index, source in enumerate(found.get("sources", ())) for line in checkpoint.rows(index, source)]
    show(found if output != "table" else rows, output)


@click.command()
@click.argument("name")
@click.option("-n", "--lines", type=click.IntRange(1), default=50, show_default=True, help="Number of last lines.")
@click.option("-f", "--follow", is_flag=True, help="Print new lines until Ctrl-C.")
@state_option
def logs(name: str, lines: int, follow: bool, state_dir: str | None) -> None:
    """Show the log of a pipeline's process and of Spark.

    \b
    kvorum pipelines logs orders -f
    """
    folder = find_pipeline(state_dir, name)
    try:
        with open(folder.log, encoding="utf-8", errors="replace") as file:
            for line in file.readlines()[-lines:]:
                click.echo(line, nl=False)
            while follow:
                line = file.readline()
                if line:
                    click.echo(line, nl=False)
                else:
                    sys.stdout.flush()
                    time.sleep(FOLLOW_SECONDS)
    except FileNotFoundError:
        fail(f"pipeline {name} has no log yet")
    except KeyboardInterrupt:
        pass  # how one ends --follow
