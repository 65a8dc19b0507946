"""`kvorum brokers`: list, maintenance, decommission."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.completion import broker_ids
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, show, tell
from kvorum.cli.progress import bar

if TYPE_CHECKING:
    from kvorum.client.reassignments.broker_admin_state import BrokerStateProgress
    from kvorum.client.wire.cluster_client import ClusterClient

F = TypeVar("F", bound=Callable[..., object])
COLUMNS = ("broker", "state", "alive", "rack", "address", "leaders", "replicas", "left", "moving")
LOOK_AGAIN_S = 0.5
"""Polling interval, because Kafka's protocol has no notification."""
TIMEOUT_S = 3600.0


@click.group()
def brokers() -> None:
    """List brokers; put a broker in maintenance; decommission and unregister a broker.

    \b
    kvorum brokers list
    kvorum brokers maintenance 3                 moves leadership away, so that it can be stopped
    kvorum brokers maintenance 3 --end           leadership returns
    kvorum brokers decommission 3 --throttle 50000000
    kvorum brokers recommission 3                cancels the decommission
    kvorum brokers unregister 3                  once it has no replicas and is stopped
    """


def row_of(found: "BrokerStateProgress") -> dict[str, Any]:
    """Return a broker as a row."""
    return {
        "broker": found.broker,
        "state": str(found.state),
        "alive": not found.fenced,
        "rack": found.rack,
        "address": f"{found.host}:{found.port}" if found.host else None,
        "leaders": found.leaders,
        "replicas": found.replicas,
        "left": found.left,
        "moving": found.moving,
    }


def wait_options(command: F) -> F:
    """Add --no-wait and --timeout."""
    command = click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0),
        default=TIMEOUT_S,
        show_default=True,
        help="Seconds to wait.",
    )(command)
    return click.option("--no-wait", is_flag=True, help="Do not wait; `kvorum brokers list` shows the progress.")(
        command
    )


def broker_argument(command: F) -> F:
    """Add BROKER_ID."""
    return click.argument("broker", type=click.IntRange(0), metavar="BROKER_ID", shell_complete=broker_ids)(command)


@brokers.command("list")
@bootstrap_option
@output_option
def list_(bootstrap: str, output: str) -> None:
    """List the registered brokers with their administrative state, leaders and replicas.

    \b
    kvorum brokers list -o json
    """

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.client.reassignments import broker_admin_state

        return [row_of(each) for each in await broker_admin_state.broker_states(cluster)]

    show(with_cluster(bootstrap, work), output, COLUMNS)


@brokers.command()
@broker_argument
@bootstrap_option
@output_option
def describe(broker: int, bootstrap: str, output: str) -> None:
    """Describe one broker, with remaining work and partitions that block it.

    \b
    kvorum brokers describe 3
    """

    async def work(cluster: "ClusterClient") -> dict[str, Any]:
        from kvorum.client.reassignments import broker_admin_state

        found = await broker_admin_state.broker_state(cluster, broker)
        kept = [str(place) for place in found.kept]
        more = {"requested": str(found.requested), "done": found.done, "kept": kept, "throttle": found.throttle}
        return {**row_of(found), **more, "message": found.message}

    show(with_cluster(bootstrap, work), output)


@brokers.command()
@broker_argument
@click.option("--end", is_flag=True, help="End maintenance; leadership returns.")
@wait_options
@bootstrap_option
@output_option
def maintenance(broker: int, end: bool, no_wait: bool, timeout_s: float, bootstrap: str, output: str) -> None:
    """Move leadership off a broker for maintenance; its replicas continue to follow.

    \b
    kvorum brokers maintenance 3
    kvorum brokers maintenance 3 --end
    """

    async def ask(cluster: "ClusterClient") -> None:
        from kvorum.client.reassignments import broker_admin_state

        await (broker_admin_state.end_maintenance if end else broker_admin_state.begin_maintenance)(cluster, broker)

    carry_out(bootstrap, broker, ask, no_wait, timeout_s, output)


@brokers.command()
@broker_argument
@click.option("--throttle", type=click.IntRange(1), help="Maximum bytes per second that each broker moves.")
@click.option("--dry-run", is_flag=True, help="Only check whether it is possible.")
@wait_options
@bootstrap_option
@output_option
def decommission(
    broker: int, throttle: int | None, dry_run: bool, no_wait: bool, timeout_s: float, bootstrap: str, output: str
) -> None:
    """Move all replicas off a broker, so that it can be stopped and unregistered. It gets no new replicas.

    The controller performs the moves. Ending this command does not cancel them.

    \b
    kvorum brokers decommission 3
    kvorum brokers decommission 3 --throttle 50000000 --no-wait
    """

    async def ask(cluster: "ClusterClient") -> None:
        from kvorum.client.reassignments import broker_admin_state

        await broker_admin_state.decommission(cluster, broker, throttle=throttle, validate_only=dry_run)

    if dry_run:
        with_cluster(bootstrap, ask)
        tell({"broker": broker, "possible": True}, output, f"broker {broker} can be decommissioned")
        return
    carry_out(bootstrap, broker, ask, no_wait, timeout_s, output)


@brokers.command()
@broker_argument
@bootstrap_option
@output_option
def recommission(broker: int, bootstrap: str, output: str) -> None:
    """Cancel a decommission. Completed moves are kept.

    \b
    kvorum brokers recommission 3
    """

    async def ask(cluster: "ClusterClient") -> "BrokerStateProgress":
        from kvorum.client.reassignments import broker_admin_state

        await broker_admin_state.recommission(cluster, broker)
        return await broker_admin_state.broker_state(cluster, broker)

    found = with_cluster(bootstrap, ask)
    tell(row_of(found), output, f"broker {broker} stays; it has {found.replicas} replica(s)")


@brokers.command()
@broker_argument
@bootstrap_option
@output_option
def unregister(broker: int, bootstrap: str, output: str) -> None:
    """Unregister a broker that is decommissioned and stopped.

    \b
    kvorum brokers unregister 3
    """

    async def ask(cluster: "ClusterClient") -> None:
        from kvorum.client.reassignments import broker_admin_state

        await broker_admin_state.unregister(cluster, broker)

    with_cluster(bootstrap, ask)
    tell({"broker": broker, "registered": False}, output, f"broker {broker} is not registered any more")


def carry_out(
    bootstrap: str,
    broker: int,
    ask: "Callable[[ClusterClient], Awaitable[None]]",
    no_wait: bool,
    timeout_s: float,
    output: str,
) -> None:
    """Send the request, and show the progress until it is done; returns the exit code."""
    import asyncio

    async def work(cluster: "ClusterClient") -> "BrokerStateProgress":
        from kvorum.client.reassignments import broker_admin_state

        await ask(cluster)
        found = await broker_admin_state.broker_state(cluster, broker)
        if no_wait or found.done:
            return found
        deadline = asyncio.get_running_loop().time() + timeout_s
        least = most = max(found.left, 1)
        with bar(most, f"broker {broker}") as moved:
            while not found.done and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(LOOK_AGAIN_S)
                found = await broker_admin_state.broker_state(cluster, broker)
                moved(max(0, least - found.left))
                least = min(least, found.left)
        return found

    found = with_cluster(bootstrap, work)
    tell({**row_of(found), "done": found.done}, output, f"broker {broker} is {found.state}. {found.message}")
    if not found.done and not no_wait:
        fail(f"not done after {timeout_s:g} s; the cluster continues", Exit.FAILED)
