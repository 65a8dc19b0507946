"""`kvorum nodes`: single nodes of a cluster on this machine."""

from typing import TYPE_CHECKING

import click

from kvorum.cli.completion import node_names
from kvorum.cli.local.folders import end_command, folder_option, open_cluster, start_timeout_option, stop_timeout_option
from kvorum.cli.output import Exit, fail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvorum.runtime.process import ProcessId

DONE = {"kill": "killed", "stop": "stopped", "pause": "paused", "resume": "resumed"}


@click.group()
def nodes() -> None:
    """Kill, stop, start, pause or resume all processes of a node.

    \b
    kvorum nodes kill node-2 --dir ./data       kill -9
    kvorum nodes start node-2 --dir ./data
    """


def act(name: str, folder: str, verb: str, *, start_seconds: float = 0, stop_seconds: float = 0) -> None:
    """Execute an action on a node and print it; 0 seconds: the cluster's own limits."""
    from kvorum.cli.local.dev import failure_of
    from kvorum.cluster.local.foreground import EXIT_CODE, ClusterRunError, exit_code_of, hold, request_start
    from kvorum.cluster.local.local import ClusterError

    cluster = open_cluster(folder)
    try:
        cluster.node(name)
        cluster.start_seconds = start_seconds or cluster.start_seconds
        cluster.stop_seconds = stop_seconds or cluster.stop_seconds
        if verb == "start":
            cluster.on_waiting = lambda node, reason: click.echo(f"{node} is not up yet; {reason}", err=True)
            outcome = request_start(cluster, [name])
            if outcome is None:
                with hold(folder):
                    outcome = cluster.start(name)
                code = exit_code_of(cluster, outcome)
            else:
                code = int(outcome.pop(EXIT_CODE, Exit.FAILED))
            if "error" in outcome:
                fail(outcome["error"])
            if not outcome:
                click.echo(f"{name} is already running")
                return
            what, _, reason = outcome[name].partition(": ")
            if what != "ready":
                if reason:
                    cluster.refusals[name] = reason
                fail(failure_of(cluster, name, what), code)
            click.echo(f"{name} started ({pids(cluster.processes(name).values())})")
            return
        processes = cluster.processes(name)
        if not processes:
            fail(f"{name} is not running", Exit.NOT_FOUND)
        reached = list(processes.values())
        if verb == "stop":
            if cluster.stop(name):
                click.echo(f"{name} did not stop within {cluster.stop_seconds:.0f} s and was killed", err=True)
        else:
            getattr(cluster, verb)(name)
    except (ClusterRunError, OSError) as error:
        end_command(error, folder)
    except ClusterError as error:
        fail(str(error), Exit.NOT_FOUND)
    click.echo(f"{name} {DONE[verb]} ({pids(reached)})")


def pids(processes: "Iterable[ProcessId]") -> str:
    """Return the pids for a message."""
    numbers = sorted({process.pid for process in processes})
    return f"pid{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def verb(name: str, text: str) -> None:
    """Add one subcommand."""

    own = {"start": start_timeout_option, "stop": stop_timeout_option}.get(name, lambda command: command)

    @nodes.command(name, help=f"{text}\n\n\b\nkvorum nodes {name} node-2 --dir ./data")
    @click.argument("node", shell_complete=node_names)
    @folder_option
    @own
    def command(node: str, folder: str, **seconds: float) -> None:
        act(node, folder, name, **seconds)


verb("kill", "kill -9 all processes of NODE.")
verb("stop", "Controlled shutdown of NODE (SIGTERM).")
verb("start", "Start NODE and wait until its broker is unfenced.")
verb("pause", "SIGSTOP all processes of NODE.")
verb("resume", "SIGCONT all processes of NODE.")
