"""`kvorum nodes`: single nodes of a cluster on this machine."""

import click

from kvorum.cli.completion import node_names
from kvorum.cli.folders import folder_option, opened, start_timeout_option, stop_timeout_option
from kvorum.cli.output import Exit, fail


@click.group()
def nodes() -> None:
    """Kill, stop, start, pause or resume all processes of a node.

    \b
    kvorum nodes kill node-2 --dir ./data       kill -9
    kvorum nodes start node-2 --dir ./data
    """


def act(name: str, folder: str, verb: str, *, start_seconds: float = 0, stop_seconds: float = 0) -> None:
    """Do one thing to one node; 0: as long as it is by itself."""
    from kvorum.cluster.foreground import RunsAlready, ask_foreground, hold
    from kvorum.cluster.local import ClusterError

    cluster = opened(folder)
    try:
        cluster.node(name)
        cluster.start_seconds = start_seconds or cluster.start_seconds
        cluster.stop_seconds = stop_seconds or cluster.stop_seconds
        if verb == "start":
            outcome = ask_foreground(cluster, [name])
            if outcome is None:
                with hold(folder):
                    outcome = cluster.start(name)
            if "error" in outcome:
                fail(outcome["error"])
            if not outcome:
                click.echo(f"{name} runs already")
            elif outcome[name] != "ready":
                fail(f"{name} is not up ({outcome[name]}); see {cluster.node(name).log('node')}")
            return
        reached = len(cluster.processes(name))
        if verb == "stop":
            if cluster.stop(name):
                click.echo(f"{name} did not end by itself and was killed", err=True)
        else:
            reached = len(getattr(cluster, verb)(name))
    except RunsAlready as error:
        fail(str(error))
    except ClusterError as error:
        fail(str(error), Exit.NOT_FOUND)
    if not reached:
        fail(f"{name} does not run", Exit.NOT_FOUND)


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
