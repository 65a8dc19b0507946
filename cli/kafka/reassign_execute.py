"""`kafka-reassign-partitions --execute`: start a plan. Source: Kafka's ReassignPartitionsCommand."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.reassign_files import as_json, assignment_in, error_lines, stop, with_reassignments
from kvorum.cli.output import say
from kvorum.cli.reassign.plans import join_places, moves_in, plural

if TYPE_CHECKING:
    from kvorum.client.namespaces.reassignments import Reassignments
    from kvorum.client.partitions.log_dir_moves import MoveStart
    from kvorum.client.values.log_dir import TopicPartitionReplica
    from kvorum.client.values.reassignment import Assignment
    from kvorum.protocol.errors import KafkaError
    from kvorum.protocol.topic_partition import TopicPartition

ALREADY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY_PERIODICALLY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


def execute(connection: Connection, options: dict[str, Any]) -> None:
    """Start the plan of the file, with a throttle first if requested."""
    path, timeout_ms = options["reassignment_json_file"], options["timeout"]
    wanted, moves = assignment_in(path), moves_in(path)
    throttle, log_dirs_throttle = options["throttle"], options["replica_alter_log_dirs_throttle"]
    may_resize = not options["disallow_replication_factor_change"]

    async def work(found: "Reassignments") -> "dict[TopicPartition, KafkaError]":
        if await found.list() and not options["additional"]:
            stop(ALREADY)
        unknown = {broker for replicas in wanted.values() for broker in replicas}.difference(await found.live_brokers())
        if unknown:
            stop(f"Error: Unknown broker id {min(unknown)}")
        current = await current_of(found, wanted)
        now = as_json(current, await found.replica_log_dirs(current))
        say(f"Current partition replica assignment\n\n{now}\n")
        say("Save this to use as the --reassignment-json-file option during rollback")
        if throttle >= 0 or log_dirs_throttle >= 0:
            say(VERIFY_PERIODICALLY)
        if throttle >= 0:
            await found.throttle(throttle, wanted)
            say(f"The inter-broker throttle limit was set to {throttle} B/s")
        if log_dirs_throttle >= 0:
            await found.moves.throttle({replica.broker for replica in moves}, log_dirs_throttle)
            say(f"The replica-alter-dir throttle limit was set to {log_dirs_throttle} B/s")
        return await found.alter(wanted, timeout_ms=timeout_ms, allow_replication_factor_change=may_resize)

    errors = with_reassignments(connection, work)
    if errors:
        stop(error_lines("Error reassigning partition(s):", errors))
    say(f"Successfully started partition reassignment{plural(wanted)} for {join_places(wanted)}")
    if moves:
        say_started(moves, with_reassignments(connection, lambda found: found.moves.begin(moves, timeout_ms)))


def say_started(moves: "Mapping[TopicPartitionReplica, str]", started: "MoveStart") -> None:
    """Print the replicas that move between log directories; those that do not are an error."""
    for each in started.replicas:
        place = f"{each.topic}-{each.partition}"
        where = f"to {moves[each]} for replica {place} with broker {each.broker}"
        say(f"Successfully started moving log directory {where} ")  # the blank at the end is Kafka's
    if started.errors:
        stop(error_lines("Failed to alter dir:", started.reasons))
    if started.absent:
        which = f"log directory move{plural(started.absent)} could be started for: {join_places(started.absent)}"
        stop(f"Timed out before {which}")


async def current_of(found: "Reassignments", wanted: "Assignment") -> "Assignment":
    """Return the replicas that these partitions have; one that is not there ends the command."""
    current = await found.assignments({place.topic for place in wanted})
    for topic in sorted({place.topic for place in wanted} - {place.topic for place in current}):
        stop(f"Error: Topic {topic} not found.")
    missing = [place for place in sorted(wanted) if place not in current]
    if missing:
        stop(f"Error: Unable to find partition: {', '.join(map(str, missing))}")
    return {place: current[place] for place in wanted}
