"""`kafka-reassign-partitions` --verify and --cancel of a plan. Source: Kafka's ReassignPartitionsCommand."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.reassign_execute import say_started
from kvorum.cli.kafka.reassign_files import assignment_in, error_lines, stop, with_reassignments
from kvorum.cli.output import raw, say
from kvorum.cli.reassign.plans import join_places, moves_in, plural

if TYPE_CHECKING:
    from kvorum.client.namespaces.reassignments import Reassignments
    from kvorum.client.partitions.log_dir_moves import MoveState
    from kvorum.client.values.log_dir import TopicPartitionReplica
    from kvorum.client.values.reassignment import PlanPartition


def verify(connection: Connection, options: dict[str, Any]) -> None:
    """Print the progress of each partition; when all are done, remove the throttles."""
    path = options["reassignment_json_file"]
    wanted, moves = assignment_in(path), moves_in(path)

    async def work(found: "Reassignments") -> None:
        progress = await found.verify(wanted, moves, preserve_throttles=options["preserve_throttles"])
        say("Status of partition reassignment:")
        for each in progress.partitions:
            say(partition_line(each))
        say("".join(f"{move_line(replica, state)}\n" for replica, state in progress.log_dirs.items()))
        if progress.unthrottled_brokers is not None:
            say_throttle_removed(progress.unthrottled_brokers, progress.unthrottled_topics or ())

    with_reassignments(connection, work)


def partition_line(progress: "PlanPartition") -> str:
    """Return the progress of a partition (partitionReassignmentStatesToString)."""
    partition = progress.topic_partition
    if progress.state == "in progress":
        return f"Reassignment of partition {partition} is still in progress."
    if progress.state == "completed":
        return f"Reassignment of partition {partition} is completed."
    current, target = (",".join(map(str, replicas)) for replicas in (progress.replicas, progress.target))
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {current} rather than {target}."
    )


def move_line(replica: "TopicPartitionReplica", state: "MoveState") -> str:
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


def say_throttle_removed(brokers: Sequence[int], topics: Sequence[str]) -> None:
    """Print the throttles that were removed."""
    for what, names in (("broker", [*map(str, brokers)]), ("topic", topics)):
        say(f"Clearing {what}-level throttles on {what}{'' if len(names) == 1 else 's'} {','.join(names)}")


def cancel(connection: Connection, options: dict[str, Any]) -> None:
    """Cancel current moves of the file's partitions."""
    path = options["reassignment_json_file"]
    wanted, moves = assignment_in(path), moves_in(path)

    async def work(found: "Reassignments") -> None:
        active = await found.cancel(wanted, timeout_ms=options["timeout"])
        errors = {partition: error for partition, error in active.items() if error is not None}
        if errors:
            stop(error_lines(f"Error cancelling partition reassignment{plural([*errors])} for:", errors))
        if active:
            say(f"Successfully cancelled partition reassignment{plural([*active])} for: {join_places([*active])}")
        else:
            say("None of the specified partition reassignments are active.")
        moving = {
            replica: state.current for replica, state in (await found.moves.states(moves)).items() if state.future
        }
        if moving:  # their moves are requested on their brokers
            say_started(moving, await found.moves.ask(moving))
        else:
            raw("None of the specified partition moves are active.")
        if not options["preserve_throttles"]:
            say_throttle_removed(*await found.remove_throttles({place.topic for place in wanted}))

    with_reassignments(connection, work)
