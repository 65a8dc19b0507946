"""`kvorum brokers list`, and `maintenance` and `decommission`, which wait until the broker is in the state."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvorum.cli.completion import broker_ids
from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, show, tell
from kvorum.cli.progress import bar

if TYPE_CHECKING:
    from kvorum.client.values.broker import Broker, BrokerState
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.metadata import MetadataResponsePartition

F = TypeVar("F", bound=Callable[..., object])
COLUMNS = ("broker", "state", "alive", "rack", "address", "leaders", "replicas", "left", "moving")
LOOK_AGAIN_S = 0.5
"""Polling interval, because Kafka's protocol has no notification."""
TIMEOUT_S = 3600.0


def row_of(found: "BrokerState") -> dict[str, Any]:
    """Return a broker as a row."""
    return {
        "broker": found.broker,
        "state": str(found.state),
        "alive": not found.is_fenced,
        "rack": found.rack,
        "address": f"{found.host}:{found.port}" if found.host else None,
        "leaders": found.leaders,
        "replicas": found.replicas,
        "left": found.left,
        "moving": found.moving,
    }


def row_without_state(broker: "Broker", partitions: Sequence["MetadataResponsePartition"]) -> dict[str, Any]:
    """Return a broker of a cluster without administrative states as a row."""
    return {
        "broker": broker.id,
        "state": None,
        "alive": not broker.is_fenced,
        "rack": broker.rack,
        "address": f"{broker.host}:{broker.port}" if broker.host else None,
        "leaders": sum(broker.id == each.leader_id for each in partitions),
        "replicas": sum(broker.id in each.replica_nodes for each in partitions),
        "left": None,
        "moving": None,
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


@click.command("list")
@bootstrap_option
@output_option
def list_(bootstrap: str, output: str) -> None:
    """List the registered brokers with their administrative state, leaders and replicas.

    Apache Kafka's brokers have no administrative state.

    \b
    kvorum brokers list -o json
    """

    async def work(cluster: "ClusterClient") -> list[dict[str, Any]]:
        from kvorum.client.namespaces.brokers import Brokers
        from kvorum.protocol.errors import ErrorCode, KafkaError

        try:
            return [row_of(each) for each in await Brokers(cluster).states()]
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
        partitions = [row for topic in (await cluster.metadata()).topics for row in topic.partitions]
        return [row_without_state(each, partitions) for each in await Brokers(cluster).list()]

    show(with_cluster(bootstrap, work), output, COLUMNS)


@click.command()
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


@click.command()
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

    async def work(cluster: "ClusterClient") -> "BrokerState":
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
