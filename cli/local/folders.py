"""Common parts of `dev`, `up`, `nodes` and `quickstart`: a cluster's folder and its errors."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import click

from kvorum.cli.output import Exit, fail
from kvorum.cli.text_values import environment_value

if TYPE_CHECKING:
    from kvorum.cluster.local.local import LocalCluster
    from kvorum.quorum.records import MetadataRecord
    from kvorum.runtime.cluster_file import ClusterSpec


def folder_option(command: "click.decorators.FC") -> "click.decorators.FC":
    """Add --dir."""
    return click.option(
        "-d",
        "--dir",
        "folder",
        default=lambda: environment_value("KVORUM_DIR") or "kvorum-data",
        show_default="$KVORUM_DIR, else ./kvorum-data",
        help="Data directory of the cluster.",
    )(command)


UNIT_START_SECONDS: Final = 300.0
"""A node that cannot start fails at once; one that is late recovers its logs after a crash."""
UNIT_STOP_SECONDS: Final = 320.0
"""A broker gives its leaders away for five minutes at most."""


def patience_options(command: "click.decorators.FC") -> "click.decorators.FC":
    """Add --start-timeout and --stop-timeout."""
    return start_timeout_option(stop_timeout_option(command))


def start_timeout_option(command: "click.decorators.FC") -> "click.decorators.FC":
    """Add --start-timeout."""
    return click.option(
        "--start-timeout",
        "start_seconds",
        type=click.FloatRange(min=1),
        default=UNIT_START_SECONDS,
        show_default=True,
        help="Seconds a node may take until its broker is unfenced: recovery after a crash may be long.",
    )(command)


def stop_timeout_option(command: "click.decorators.FC") -> "click.decorators.FC":
    """Add --stop-timeout."""
    return click.option(
        "--stop-timeout",
        "stop_seconds",
        type=click.FloatRange(min=1),
        default=UNIT_STOP_SECONDS,
        show_default=True,
        help="Seconds a controlled shutdown may take before a node is killed (kill -9).",
    )(command)


def rebuild_option(command: "click.decorators.FC") -> "click.decorators.FC":
    """Add --rebuild."""
    return click.option(
        "--rebuild",
        is_flag=True,
        help="Write a lost cluster.json again from the nodes' folders.",
    )(command)


def open_cluster(folder: str) -> "LocalCluster":
    """Return the cluster in a folder, whose nodes outlive this command; end the command without one."""
    from kvorum.cluster.local.local import ClusterError, LocalCluster
    from kvorum.cluster.local.plan import NoCluster

    try:
        cluster = LocalCluster.open(folder, detached=True)
        cluster.on_stopping = report_stopping
        return cluster
    except NoCluster as error:
        fail(f"{error}; --dir or KVORUM_DIR names the data directory of a cluster", Exit.NOT_FOUND)
    except ClusterError as error:
        end_command(error, folder)


def require_linux() -> None:
    """End the command where nodes cannot run: they need prctl, pidfd and /proc."""
    if sys.platform != "linux":
        fail(f"nodes run on Linux only (this is {sys.platform}); clients can be anywhere", Exit.USAGE)


@contextmanager
def create_cluster(
    folder: str,
    read: Callable[[str], "ClusterSpec"],
    detached: bool = False,
    rebuild: bool = False,
    port_advice: Callable[[str], str] = lambda label: "choose another port",
    prepare: "Callable[[], Sequence[MetadataRecord]] | None" = None,
) -> Iterator["LocalCluster"]:
    """Hold the folder and return its cluster; a missing one is created from `read` (called with the folder).

    `rebuild`: its lost cluster.json is written again. `port_advice` gets the name of a listener whose port cannot
    be bound, and returns the advice. `prepare` writes files that the configuration names, before it is checked, and
    returns records for a new cluster's first metadata.

    An error ends the command in one line; differences to the requested cluster are warnings.
    """
    from kvorum.cluster.local.foreground import hold
    from kvorum.cluster.local.formatting import FormatError
    from kvorum.cluster.local.local import ClusterError
    from kvorum.runtime.config import ConfigError
    from kvorum.storage.checkpoints import CheckpointError

    require_linux()
    place = os.path.abspath(folder)
    try:
        spec = read(place)
        if prepare is None:
            check_nodes(spec)
        with hold(place):
            bootstrap: Sequence[MetadataRecord] = ()
            if prepare is not None:
                refuse_foreign_files(place, spec)
                bootstrap = prepare()
                check_nodes(spec)
            yield make(place, spec, detached, rebuild, bootstrap)
    except FormatError as error:
        end_command(FormatError(f"{error}; no cluster was created in {folder}"), folder)
    except (ConfigError, ClusterError, CheckpointError, OSError) as error:
        end_command(error, folder, port_advice)


def check_nodes(spec: "ClusterSpec") -> list[str]:
    """Check the security of a cluster's nodes; return warnings. Raises ConfigError."""
    from kvorum.security.settings import is_plaintext

    secured = [node for node in spec.nodes if not is_plaintext(node.settings)]
    if not secured:
        return []
    from kvorum.security.config_checks import check_security

    return [f"{node.name}: {warning}" for node in secured for warning in check_security(node.with_secrets())]


def end_command(
    error: Exception, folder: str, port_advice: Callable[[str], str] = lambda label: "choose another port"
) -> NoReturn:
    """End the command with one line and, for the same cause, the exit code that `kvorum node` has."""
    from kvorum.cluster.local.foreground import ClusterRunError
    from kvorum.cluster.local.formatting import FormatError
    from kvorum.cluster.local.plan import BrokenPlan, PortUnusable
    from kvorum.cluster.process.exits import Exit as NodeExit
    from kvorum.cluster.process.exits import folder_problem
    from kvorum.runtime.config import ConfigError
    from kvorum.storage.checkpoints import CheckpointError

    match error:
        case ConfigError():
            fail(str(error), NodeExit.CONFIG)
        case PortUnusable():
            fail(f"{error}; {port_advice(error.key)}", NodeExit.BUSY)
        case ClusterRunError():
            fail(str(error), NodeExit.BUSY)
        case BrokenPlan() | CheckpointError() | FormatError():
            fail(str(error), NodeExit.DATA_REFUSED)
        case OSError():
            fail(folder_problem(error, folder), NodeExit.DATA_REFUSED)
        case _:
            fail(str(error))


def make(
    place: str, spec: "ClusterSpec", detached: bool, rebuild: bool, bootstrap: "Sequence[MetadataRecord]" = ()
) -> "LocalCluster":
    """Return the cluster in a folder, created if missing, and print warnings for the operator."""
    from kvorum.cluster.local.differences import differences
    from kvorum.cluster.local.formatting import new_cluster_id
    from kvorum.cluster.local.local import LocalCluster
    from kvorum.cluster.local.plan import plan_of
    from kvorum.runtime.config_files import environment_entries

    for key, entry in environment_entries(os.environ):
        click.echo(f"warning: {entry.source.where} is set, and is {key} of every node", err=True)
    for warning in spec.warnings:
        click.echo(f"warning: {warning}", err=True)
    aside = None if rebuild else LocalCluster.set_aside_unstarted(place)
    if aside is not None:
        click.echo(
            f"the cluster in {place} never started and is formatted again; the old files are in {aside}", err=True
        )
    if not rebuild:
        refuse_foreign_files(place, spec)
    plan = plan_of(spec, spec.cluster_id or new_cluster_id())
    if rebuild:
        cluster = LocalCluster.rebuild(place, plan, detached=detached)
        click.echo(f"{cluster.paths.cluster} was written again: cluster {cluster.plan.cluster_id}", err=True)
    else:
        cluster = LocalCluster.create(place, plan, detached=detached, bootstrap=bootstrap)
    cluster.on_waiting = lambda name, reason: click.echo(f"kvorum: {name} is not up yet; {reason}", err=True)
    cluster.on_stopping = report_stopping
    if cluster.plan is not plan:
        found = differences(cluster.plan, spec)
        if found:
            known = f"cluster {cluster.plan.cluster_id} with {node_count_text(cluster)}"
            click.echo(f"warning: {place} already holds {known}, which keeps its configuration", err=True)
        for difference in found:
            click.echo(f"warning: {difference}", err=True)
    return cluster


def report_stopping(name: str, reason: str) -> None:
    """Print which node a stop waits for, and why."""
    click.echo(f"kvorum: waiting for {name} to stop; {reason}", err=True)


def node_count_text(cluster: "LocalCluster") -> str:
    """Return "1 node" or "3 nodes"."""
    count = len(cluster.plan.nodes)
    return f"{count} node{'' if count == 1 else 's'}"


def refuse_foreign_files(place: str, spec: "ClusterSpec") -> None:
    """End the command where a folder has files and is no cluster's: nodes would be written between them."""
    from kvorum.cluster.local.paths import ClusterPaths
    from kvorum.cluster.process.exits import Exit as NodeExit

    paths = ClusterPaths(place)
    if os.path.exists(paths.cluster):
        return
    own = {node.name for node in spec.nodes}
    for node in spec.nodes:
        stores = [entry.text for key, entry in node.settings.explicit().items() if key.endswith("store.location")]
        own |= {os.path.relpath(path, place).split(os.sep)[0] for path in (*node.settings.list("log.dirs"), *stores)}
    foreign = sorted(
        name
        for name in os.listdir(place)
        if name not in own
        and not name.startswith((".", os.path.basename(paths.never_started_file)))
        and not os.path.exists(paths.node(name).config)  # a node's folder: the cluster lost its cluster.json
        and name != os.path.basename(paths.control)
    )
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        text = (
            f"{place} is not empty and holds no cluster: it has {foreign[0]}{more}; choose an empty folder with --dir"
        )
        fail(text, NodeExit.DATA_REFUSED)
