"""`kvorum reassign`: what Kafka's kafka-reassign-partitions.sh does, with its files and options (KIP-455, KIP-73)."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.connection.client import bootstrap_option
from kvorum.cli.output import Exit, fail, output_option, show, tell
from kvorum.cli.reassign.plans import (
    assignment_in,
    fail_if_refused,
    file_option,
    join_places,
    moves_in,
    plural,
    preserve_option,
    remove_throttles,
    timeout_option,
    with_reassignments,
)

if TYPE_CHECKING:
    from kvorum.client.namespaces.reassignments import Reassignments
    from kvorum.client.partitions.log_dir_moves import MoveStart
    from kvorum.client.values.log_dir import TopicPartitionReplica
    from kvorum.client.values.reassignment import Assignment
    from kvorum.protocol.errors import KafkaError
    from kvorum.protocol.topic_partition import TopicPartition

LIST_COLUMNS = ("topic", "partition", "replicas", "adding", "removing")


@click.command()
@click.option(
    "--topics-to-move-json-file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help='{"version": 1, "topics": [{"topic": "orders"}]}',
)
@click.option("--broker-list", required=True, metavar="ID,ID,...", help="Target brokers.")
@click.option("--disable-rack-aware", is_flag=True, help="Do not spread replicas over racks.")
@click.option("--keep", "kept", is_flag=True, help="Keep replicas that are on these brokers already.")
@bootstrap_option
@output_option
def generate(path: Path, broker_list: str, disable_rack_aware: bool, kept: bool, bootstrap: str, output: str) -> None:
    """Propose replicas for all partitions of some topics on some brokers, assigned as for new topics.

    -o json (or yaml) prints the proposal only, for `execute`.

    \b
    kvorum reassign generate --topics-to-move-json-file topics.json --broker-list 2,3,4
    """
    from kvorum.client.reassignments.assignment_file import assignment_json, read_topics
    from kvorum.client.reassignments.proposals import check_racks, keep
    from kvorum.protocol.errors import ErrorCode, KafkaError

    try:
        wanted = [int(each) for each in broker_list.split(",")]
        topics = read_topics(path.read_text())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if len(set(wanted)) != len(wanted):
        raise click.BadParameter("duplicate broker", param_hint="--broker-list")

    async def work(found: "Reassignments") -> "tuple[Assignment, dict[int, str | None]]":
        return await found.assignments(topics), await found.live_brokers()

    current, racks = with_reassignments(bootstrap, work)
    for missing in sorted(set(topics) - {place.topic for place in current}):
        fail(f"topic {missing!r} does not exist", Exit.NOT_FOUND)
    unknown = [broker for broker in wanted if broker not in racks]
    if unknown:
        fail(f"there is no broker {unknown[0]}", Exit.NOT_FOUND)
    chosen = {broker: None if disable_rack_aware else racks[broker] for broker in wanted}
    try:
        check_racks(chosen)
        proposed = keep(current, chosen) if kept else place_replicas(current, chosen)
    except KafkaError as error:
        aside = error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        fail(f"{error.message}{'; --disable-rack-aware ignores racks' if aside else ''}")
    if output != "table":
        if output == "json":
            click.echo(json.dumps(assignment_json(proposed)))  # on one line, as Kafka's tool writes files
        else:
            show(assignment_json(proposed), output)
        return
    click.echo(f"Current partition replica assignment\n{json.dumps(assignment_json(current))}\n")
    click.echo(f"Proposed partition reassignment configuration\n{json.dumps(assignment_json(proposed))}")


def place_replicas(current: "Assignment", racks: dict[int, str | None]) -> "Assignment":
    """Return new replicas for these partitions on these brokers, by the rule that new topics are placed with."""
    from kvorum.client.reassignments.proposals import spread
    from kvorum.protocol.errors import KafkaError
    from kvorum.runtime.chance import new_random

    try:
        return spread(current, racks, new_random())
    except KafkaError as error:
        fail(error.message or error.code.name)


@click.command()
@file_option
@click.option("--throttle", type=click.IntRange(1), help="Maximum bytes per second that each broker moves.")
@click.option(
    *("--replica-alter-log-dirs-throttle", "log_dirs_throttle"),
    type=click.IntRange(1),
    help="Maximum bytes per second that each broker copies between its log directories.",
)
@click.option(
    "--additional", is_flag=True, help="Also while other reassignments are in progress; or to change the throttle."
)
@click.option(
    "--disallow-replication-factor-change", "same_size", is_flag=True, help="Reject a change of the replication factor."
)
@timeout_option
@bootstrap_option
@output_option
def execute(path: Path, additional: bool, timeout_ms: int, bootstrap: str, output: str, **options: Any) -> None:
    """Start moving partitions to the replicas, and replicas to the log directories, in a file.

    First prints the current assignment, as a file that reverts the change.

    \b
    kvorum reassign execute --reassignment-json-file plan.json
    kvorum reassign execute --reassignment-json-file plan.json --throttle 100000000 --additional
    """
    from kvorum.client.reassignments.assignment_file import assignment_json

    wanted, moves = assignment_in(path), moves_in(path)
    throttle, log_dirs_throttle = options["throttle"], options["log_dirs_throttle"]
    say = partial(tell, {}, "table") if output == "table" else report_no_change

    async def work(found: "Reassignments") -> "tuple[dict[str, Any], dict[TopicPartition, KafkaError]]":
        if await found.list() and not additional:
            fail(
                "reassignments are in progress; --additional starts this one in addition (or, with the file of those "
                "in progress, changes their throttle)"
            )
        before = await current_of(found, wanted)
        now = assignment_json(before, await found.replica_log_dirs(before))
        say(f"Current partition replica assignment\n\n{json.dumps(now)}\n")
        say("Save this to use as the --reassignment-json-file option during rollback")
        if throttle is not None or log_dirs_throttle is not None:
            say("Warning: run `kvorum reassign verify` until all is completed, or the throttle stays.")
        if throttle is not None:
            await found.throttle(throttle, wanted)
            say(f"The inter-broker throttle limit was set to {throttle} B/s")
        if log_dirs_throttle is not None:
            await found.moves.throttle({replica.broker for replica in moves}, log_dirs_throttle)
            say(f"The replica-alter-dir throttle limit was set to {log_dirs_throttle} B/s")
        errors = await found.alter(
            wanted, timeout_ms=timeout_ms, allow_replication_factor_change=not options["same_size"]
        )
        return now, errors

    now, errors = with_reassignments(bootstrap, work)
    fail_if_refused(errors, "Error reassigning partition(s)")
    say(f"Successfully started partition reassignment{plural(wanted)} for {join_places(wanted)}")
    begun = begin_moves(moves, timeout_ms, bootstrap, say) if moves else []
    if output != "table":
        show({"before": now, "started": list(map(str, sorted(wanted))), "log_dir_moves": begun}, output)


def report_no_change(*lines: str) -> None:
    """Print nothing: a program reads the result at the end."""


async def current_of(found: "Reassignments", wanted: "Assignment") -> "Assignment":
    """Return the current replicas of partitions; a missing partition or broker ends the command."""
    unknown = {broker for replicas in wanted.values() for broker in replicas}.difference(await found.live_brokers())
    if unknown:
        fail(f"there is no broker {min(unknown)}", Exit.NOT_FOUND)
    current = await found.assignments({place.topic for place in wanted})
    for place in wanted:
        if place not in current:
            fail(f"there is no partition {place}", Exit.NOT_FOUND)
    return {place: current[place] for place in wanted}


def begin_moves(
    moves: "dict[TopicPartitionReplica, str]", timeout_ms: int, bootstrap: str, say: Callable[..., None]
) -> list[dict[str, Any]]:
    """Start moves of replicas between log directories, of new ones once they exist; return those started."""
    started = with_reassignments(bootstrap, lambda found: found.moves.begin(moves, timeout_ms))
    for each in started.replicas:
        place = f"{each.topic}-{each.partition}"
        say(f"Successfully started moving log directory to {moves[each]} for replica {place} with broker {each.broker}")
    fail_if_refused(started.reasons, "Failed to alter dir")
    if started.absent:
        absent = started.absent
        fail(f"Timed out before log directory move{plural(absent)} could be started for: {join_places(absent)}")
    return [{**each._asdict(), "log_dir": moves[each]} for each in started.replicas]


@click.command()
@file_option
@preserve_option
@timeout_option
@bootstrap_option
@output_option
def cancel(path: Path, preserve_throttles: bool, timeout_ms: int, bootstrap: str, output: str) -> None:
    """Cancel reassignments of the partitions in a file and restore the original replicas.

    \b
    kvorum reassign cancel --reassignment-json-file plan.json
    """
    wanted, moves = assignment_in(path), moves_in(path)

    async def work(
        found: "Reassignments",
    ) -> "tuple[list[TopicPartition], dict[TopicPartition, KafkaError], MoveStart]":
        results = await found.cancel(wanted, timeout_ms=timeout_ms)
        errors = {place: error for place, error in results.items() if error is not None}
        stopped = await found.moves.cancel(moves)
        if not errors and not preserve_throttles:
            await remove_throttles(found, wanted)
        return [*results], errors, stopped

    active, errors, stopped = with_reassignments(bootstrap, work)
    fail_if_refused(errors, "Error cancelling partition reassignment(s)")
    lines = ["None of the specified partition reassignments are active."]
    if active:
        lines = [f"Successfully cancelled partition reassignment{plural(active)} for: {join_places(active)}"]
    if stopped.replicas:
        lines.append(
            f"Successfully cancelled log directory move{plural(stopped.replicas)} for: {join_places(stopped.replicas)}"
        )
    elif moves:
        lines.append("None of the specified partition moves are active.")
    gone = {"cancelled": list(map(str, active)), "log_dir_moves": list(map(str, stopped.replicas))}
    tell(gone, output, *lines)
    fail_if_refused(stopped.reasons, "Failed to alter dir")
