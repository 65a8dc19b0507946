"""`kafka-reassign-partitions` (KIP-113, KIP-455, KIP-73, KIP-860). Source: Kafka's ReassignPartitionsCommand."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from kvorum.cli.kafka.common import Connection, connected, one_action
from kvorum.cli.output import Exit, raw, say
from kvorum.cli.reassign.commands import placed
from kvorum.cli.reassign.plans import joined, moves_in, plural

if TYPE_CHECKING:
    from kvorum.client.partitions.log_dir_moves import MoveState, Replica, Started
    from kvorum.client.reassignments.reassignments import Assignment, Reassignments
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.topic_partition import TopicPartition

T = TypeVar("T")
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
ALREADY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY_PERIODICALLY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


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
@connected(controller=True)
def reassign_partitions(connection: Connection, **options: Any) -> None:
    """Move partitions to other brokers.

    \b
    kvorum kafka-reassign-partitions --bootstrap-server localhost:9092 --generate \\
        --topics-to-move-json-file topics.json --broker-list 2,3,4
    kvorum kafka-reassign-partitions --bootstrap-server localhost:9092 --execute --reassignment-json-file plan.json
    kvorum kafka-reassign-partitions --bootstrap-server localhost:9092 --verify --reassignment-json-file plan.json
    """
    actions = {name: options["listing" if name == "list" else name] for name in ACTIONS}
    action = one_action(actions)
    check(action)
    match action:
        case "generate":
            generate(connection, options)
        case "execute":
            execute(connection, options)
        case "verify":
            verify(connection, options)
        case "cancel":
            cancel(connection, options)
        case _:
            list_under_way(connection)


def check(action: str) -> None:
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


def ask(connection: Connection, work: Callable[["Reassignments"], Awaitable[T]]) -> T:
    """Run `work` on the cluster's reassignments."""

    async def run(cluster: "ClusterClient") -> T:
        from kvorum.client.reassignments.reassignments import Reassignments

        return await work(Reassignments(cluster))

    return connection.run(run)


def stop(text: str) -> NoReturn:
    """End with an error that Kafka prints to standard output."""
    say(text)
    raise SystemExit(Exit.FAILED)


def as_json(assignment: "Assignment", log_dirs: "Mapping[tuple[TopicPartition, int], str] | None" = None) -> str:
    """Return an assignment as Kafka writes it, without blanks."""
    from kvorum.client.reassignments.reassignments import as_file

    return json.dumps(as_file(assignment, log_dirs or {}), separators=(",", ":"))


def assignment_in(path: Path) -> "Assignment":
    """Read a file of partitions."""
    from kvorum.client.reassignments.reassignments import read_assignment

    try:
        return read_assignment(path.read_text())
    except ValueError as error:
        stop(f"Error: {error}")


def generate(connection: Connection, options: dict[str, Any]) -> None:
    """Print the current and the proposed assignment."""
    from kvorum.client.reassignments.reassignments import read_topics

    try:
        brokers = [int(each) for each in options["broker_list"].split(",")]
        topics = read_topics(options["topics_to_move_json_file"].read_text())
    except ValueError as error:
        stop(f"Error: {error}")
    twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
    if twice:
        stop(f"Error: Broker list contains duplicate entries: {twice}")

    async def work(
        found: "Reassignments",
    ) -> "tuple[Assignment, dict[int, str | None], dict[tuple[TopicPartition, int], str]]":
        current = await found.current(topics)
        return current, await found.brokers(), await found.log_dirs(current)

    current, racks, log_dirs = ask(connection, work)
    for missing in sorted(set(topics) - {place.topic for place in current}):
        stop(f"Error: Topic {missing} not found.")
    aware = not options["disable_rack_aware"]
    chosen = {broker: racks[broker] if aware else None for broker in brokers if broker in racks}
    if len({rack is None for rack in chosen.values()}) > 1:
        stop(
            "Error: Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed = placed(current, chosen)
    say(f"Current partition replica assignment\n{as_json(current, log_dirs)}\n")
    say(f"Proposed partition reassignment configuration\n{as_json(proposed)}")


def execute(connection: Connection, options: dict[str, Any]) -> None:
    """Start the plan of the file, with a throttle first if requested."""
    from kvorum.client.reassignments.reassignments import moves_of

    path, timeout_ms = options["reassignment_json_file"], options["timeout"]
    wanted, moves = assignment_in(path), moves_in(path)
    throttle, log_dirs_throttle = options["throttle"], options["replica_alter_log_dirs_throttle"]
    may_resize = not options["disallow_replication_factor_change"]

    async def work(found: "Reassignments") -> dict[Any, str]:
        under_way = await found.under_way()
        if under_way and not options["additional"]:
            stop(ALREADY)
        unknown = {broker for replicas in wanted.values() for broker in replicas}.difference(await found.brokers())
        if unknown:
            stop(f"Error: Unknown broker id {min(unknown)}")
        current = await current_of(found, wanted)
        now = as_json(current, await found.log_dirs(current))
        say(f"Current partition replica assignment\n\n{now}\n")
        say("Save this to use as the --reassignment-json-file option during rollback")
        if throttle >= 0 or log_dirs_throttle >= 0:
            say(VERIFY_PERIODICALLY)
        if throttle >= 0:
            await found.throttle(moves_of(under_way, current, wanted), throttle)
            say(f"The inter-broker throttle limit was set to {throttle} B/s")
        if log_dirs_throttle >= 0:
            await found.moves.throttle({replica.broker for replica in moves}, log_dirs_throttle)
            say(f"The replica-alter-dir throttle limit was set to {log_dirs_throttle} B/s")
        return await found.alter(dict(wanted), timeout_ms, may_resize=may_resize)

    refused = ask(connection, work)
    if refused:
        stop("\n".join(["Error reassigning partition(s):", *lines_of(refused)]))
    say(f"Successfully started partition reassignment{plural(wanted)} for {joined(wanted)}")
    if moves:
        say_begun(moves, ask(connection, lambda found: found.moves.begin(moves, timeout_ms)))


def say_begun(moves: "Mapping[Replica, str]", started: "Started") -> None:
    """Print the replicas that move between log directories; those that do not are an error."""
    for each in started.begun:
        place = f"{each.topic}-{each.partition}"
        where = f"to {moves[each]} for replica {place} with broker {each.broker}"
        say(f"Successfully started moving log directory {where} ")  # the blank at the end is Kafka's
    if started.refused:
        stop("\n".join(["Failed to alter dir:", *lines_of(started.refused)]))
    if started.absent:
        which = f"log directory move{plural(started.absent)} could be started for: {joined(started.absent)}"
        stop(f"Timed out before {which}")


async def current_of(found: "Reassignments", wanted: "Assignment") -> "Assignment":
    """Return the replicas that these partitions have; one that is not there ends the command."""
    current = await found.current({place.topic for place in wanted})
    for topic in sorted({place.topic for place in wanted} - {place.topic for place in current}):
        stop(f"Error: Topic {topic} not found.")
    missing = [place for place in sorted(wanted) if place not in current]
    if missing:
        stop(f"Error: Unable to find partition: {', '.join(map(str, missing))}")
    return {place: current[place] for place in wanted}


def lines_of(refused: Mapping[Any, str]) -> list[str]:
    """Return the errors, one line per partition."""
    return [f"{place}: {why}" for place, why in sorted(refused.items())]


def verify(connection: Connection, options: dict[str, Any]) -> None:
    """Print the progress of each partition; when all are done, remove the throttles."""
    path = options["reassignment_json_file"]
    wanted, moves = assignment_in(path), moves_in(path)

    async def work(found: "Reassignments") -> None:
        under_way = await found.under_way()
        current = await found.current({place.topic for place in wanted})
        say("Status of partition reassignment:")
        for place, target in sorted(wanted.items()):
            replicas = current.get(place, [])
            if place in under_way:
                say(f"Reassignment of partition {place} is still in progress.")
            elif replicas == target:
                say(f"Reassignment of partition {place} is completed.")
            else:
                have, want = (",".join(map(str, each)) for each in (replicas, target))
                what = f"There is no active reassignment of partition {place}"
                say(f"{what}, but replica set is {have} rather than {want}.")
        states = await found.moves.states(moves)
        say("".join(f"{line_of(replica, state)}\n" for replica, state in states.items()))
        is_moving = any(state.future is not None for state in states.values())
        if not under_way and not is_moving and not options["preserve_throttles"]:
            await clear_throttles(found, wanted)

    ask(connection, work)


def line_of(replica: "Replica", state: "MoveState") -> str:
    """Return the progress of a replica's move to another log directory (replicaMoveStatesToString)."""
    place = f"Partition {replica.topic}-{replica.partition}"
    if not state.current:
        return f"{place} cannot be found in any live log directory on broker {replica.broker}."
    if state.future is None:
        if state.current == state.target:
            return f"Reassignment of replica {replica} completed successfully."
        where = f"from log dir {state.current} to {state.target}"
        return f"{place} on broker {replica.broker} is not being moved {where}."
    if state.future == state.target:
        return f"Reassignment of replica {replica} is still in progress."
    return f"{place} on broker {replica.broker} is being moved to log dir {state.future} instead of {state.target}."


async def clear_throttles(found: "Reassignments", wanted: "Assignment") -> None:
    """Remove throttles, and list them."""
    brokers, topics = await found.unthrottle(wanted)
    for what, names in (("broker", list(map(str, brokers))), ("topic", topics)):
        say(f"Clearing {what}-level throttles on {what}{'' if len(names) == 1 else 's'} {','.join(names)}")


def cancel(connection: Connection, options: dict[str, Any]) -> None:
    """Cancel current moves of the file's partitions."""
    path = options["reassignment_json_file"]
    wanted, moves = assignment_in(path), moves_in(path)

    async def work(found: "Reassignments") -> None:
        active = [place for place in await found.under_way() if place in wanted]
        refused = await found.alter(dict.fromkeys(active), options["timeout"]) if active else {}
        if refused:
            stop(
                "\n".join([f"Error cancelling partition reassignment{plural(list(refused))} for:", *lines_of(refused)])
            )
        if active:
            say(f"Successfully cancelled partition reassignment{plural(active)} for: {joined(active)}")
        else:
            say("None of the specified partition reassignments are active.")
        moving = {
            replica: state.current for replica, state in (await found.moves.states(moves)).items() if state.future
        }
        if moving:  # their moves are requested on their brokers
            say_begun(moving, await found.moves.ask(moving))
        else:
            raw("None of the specified partition moves are active.")
        if not options["preserve_throttles"]:
            await clear_throttles(found, wanted)

    ask(connection, work)


def list_under_way(connection: Connection) -> None:
    """Print current reassignments, one line per partition."""

    async def work(found: "Reassignments") -> list[str]:
        lines = []
        for place, each in (await found.under_way()).items():
            line = f"{place}: replicas: {','.join(map(str, each.replicas))}."
            for word, brokers in (("adding", each.adding), ("removing", each.removing)):
                line += f" {word}: {','.join(map(str, brokers))}." if brokers else ""
            lines.append(line)
        return lines

    lines = ask(connection, work)
    for line in ["Current partition reassignments:", *lines] if lines else ["No partition reassignments found."]:
        say(line)
