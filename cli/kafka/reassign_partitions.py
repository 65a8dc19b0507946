"""`kafka-reassign-partitions` (KIP-113, KIP-455, KIP-73, KIP-860). Source: Kafka's ReassignPartitionsCommand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.kafka.option_checks import one_action
from kvorum.cli.kafka.reassign_execute import execute
from kvorum.cli.kafka.reassign_files import with_reassignments
from kvorum.cli.kafka.reassign_generate import generate
from kvorum.cli.kafka.reassign_verify import cancel, verify
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.values.reassignment import Reassignment

Json = click.Path(exists=True, dir_okay=False, path_type=Path)
TIMEOUT_MS = 10_000
ACTIONS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "generate": (("topics-to-move-json-file", "broker-list"), ("disable-rack-aware",)),
    "execute": (
        ("reassignment-json-file",),
        (
            *("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
            "disallow-replication-factor-change",
        ),
    ),
    "verify": (("reassignment-json-file",), ("preserve-throttles",)),
    "cancel": (("reassignment-json-file",), ("preserve-throttles", "timeout", "bootstrap-controller")),
    "list": ((), ("bootstrap-controller",)),
}
"""Required and permitted options of each action."""


@click.command("kafka-reassign-partitions")
@click.option("--generate", is_flag=True, help="Propose replicas for all partitions of some topics.")
@click.option("--execute", is_flag=True, help="Start the moves of a file.")
@click.option("--verify", is_flag=True, help="Show the progress; remove the throttles once all moves are completed.")
@click.option("--cancel", is_flag=True, help="Cancel the moves of a file and restore the original replicas.")
@click.option("--list", "listing", is_flag=True, help="List current reassignments.")
@click.option("--topics-to-move-json-file", type=Json, help='{"topics": [{"topic": "orders"}], "version": 1}')
@click.option("--reassignment-json-file", type=Json, help="File in the format of --generate.")
@click.option("--broker-list", metavar="0,1,2", help="Target brokers.")
@click.option("--disable-rack-aware", is_flag=True)
@click.option("--throttle", type=int, default=-1, help="Bytes per second between brokers.")
@click.option(
    "--replica-alter-log-dirs-throttle",
    type=int,
    default=-1,
    help="Bytes per second between log directories of a broker.",
)
@click.option("--timeout", type=int, default=TIMEOUT_MS, help="ms.")
@click.option("--additional", is_flag=True, help="Permit other reassignments in progress, or change their throttle.")
@click.option("--preserve-throttles", is_flag=True)
@click.option("--disallow-replication-factor-change", is_flag=True)
@connection_options(controller=True)
def reassign_partitions(connection: Connection, **options: Any) -> None:
    """Move partitions to other brokers.

    \b
    kvorum kafka-reassign-partitions --bootstrap-server localhost:9092 --generate \\
        --topics-to-move-json-file topics.json --broker-list 2,3,4
    kvorum kafka-reassign-partitions --bootstrap-server localhost:9092 --execute --reassignment-json-file plan.json
    kvorum kafka-reassign-partitions --bootstrap-server localhost:9092 --verify --reassignment-json-file plan.json
    """
    commands = {
        "generate": generate,
        "execute": execute,
        "verify": verify,
        "cancel": cancel,
        "list": list_reassignments,
    }
    action = one_action({name: options["listing" if name == "list" else name] for name in commands})
    check_options(action)
    commands[action](connection, options)


def check_options(action: str) -> None:
    """Reject missing and conflicting options, with Kafka's messages."""
    context = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE
    given = {name.replace("_", "-") for name in context.params if context.get_parameter_source(name) is source}
    needed, allowed = ACTIONS[action]
    for name in needed:
        if name not in given:
            raise click.UsageError(f'Missing required argument "[{name}]"')
    own = {name for names in ACTIONS.values() for each in names for name in each}
    for name in sorted(given & own - {*needed, *allowed}):
        raise click.UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def list_reassignments(connection: Connection, options: dict[str, Any]) -> None:
    """Print current reassignments, one line per partition."""
    found = with_reassignments(connection, lambda reassignments: reassignments.list())
    say("Current partition reassignments:" if found else "No partition reassignments found.")
    for partition, each in found.items():
        say(f"{partition}: replicas: {','.join(map(str, each.replicas))}.{changes(each)}")


def changes(reassignment: "Reassignment") -> str:
    """Return the replicas that are added and removed, as the end of a line."""
    rows = (("adding", reassignment.adding), ("removing", reassignment.removing))
    return "".join(f" {name}: {','.join(map(str, brokers))}." for name, brokers in rows if brokers)
