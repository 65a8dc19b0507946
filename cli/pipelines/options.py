"""Common parts of `kvorum pipelines`: the state folder, and the hint for the missing extra."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from kvorum.cli.output import Exit, fail, install_hint

if TYPE_CHECKING:
    from kvorum.pipelines.run.state import Folder, Status

F = TypeVar("F", bound=Callable[..., object])


def state_option(command: F) -> F:
    """Add --state: the folder of the pipelines' states."""
    return click.option(
        "-d",
        "--state",
        "--dir",
        "state_dir",
        default=None,
        show_default="$KVORUM_PIPELINES_DIR, else ./kvorum-pipelines",
        metavar="DIR",
        help="Folder of the states (offsets, checkpoints, logs) of all pipelines.",
    )(command)


def require_extra() -> None:
    """End the command where Spark's Python side is not installed: everything else of Kvorum works without it."""
    if importlib.util.find_spec("pyspark") is None:
        fail(f"pipelines need Spark and Java 17 or 21; {install_hint('pipelines')}", Exit.USAGE)


def root(state_dir: str | None) -> Path:
    """Return the folder of all pipelines."""
    from kvorum.pipelines.run.state import root_of

    return root_of(state_dir)


def find_pipeline(state_dir: str | None, name: str) -> "Folder":
    """Return a pipeline's folder; end the command if there is none."""
    from kvorum.pipelines.run.state import Folder, folders

    require_extra()
    folder = Folder(root(state_dir), name)
    if not folder.spec.exists():
        names = ", ".join(each.name for each in folders(folder.root)) or "none"
        fail(f"no pipeline {name!r} in {folder.root}; it has {names}", Exit.NOT_FOUND)
    return folder


@contextmanager
def report_errors(*, problems_fail: bool = True) -> Iterator[None]:
    """End the command with one or a few lines for errors that the user can correct.

    Without `problems_fail` the faults of a file are printed, and raised again: there are other files.
    """
    from kvorum.pipelines.databases.dialect import DatabaseError
    from kvorum.pipelines.formats import FormatError
    from kvorum.pipelines.plugins import PluginError
    from kvorum.pipelines.run.state import StateError
    from kvorum.pipelines.session.connector import ConnectorError
    from kvorum.pipelines.session.machine import MachineError
    from kvorum.pipelines.spec import SpecError
    from kvorum.pipelines.transforms import TransformError

    try:
        yield
    except SpecError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        if not problems_fail:
            raise
        fail(problem_count_text(len(error.problems)), Exit.USAGE)
    except (StateError, PluginError, ConnectorError, MachineError, DatabaseError, FormatError, TransformError) as error:
        fail(str(error))


def problem_count_text(problems: int) -> str:
    """Return `2 problems`."""
    return f"{problems} problem{'s' * (problems != 1)}"


def require_start(folder: "Folder", status: "Status") -> None:
    """End the command if a pipeline that was to run in the background failed, or waits to be tried again."""
    from kvorum.pipelines.run.state import State

    if status.state is State.FAILED:
        fail(f"pipeline {folder.name} failed: {status.reason}\n(complete log: {folder.log})")
    if status.state is State.STARTING:
        ends = f"kvorum pipelines stop {folder.name} ends it"
        fail(f"pipeline {folder.name} is not running yet: {status.reason}\n(retried automatically; {ends})")
