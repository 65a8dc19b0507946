"""`kvorum reassign verify`: the progress of a reassignment, and waiting for its end."""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.connection.client import bootstrap_option
from kvorum.cli.output import Exit, output_option, show
from kvorum.cli.progress import bar
from kvorum.cli.reassign.plans import (
    assignment_in,
    file_option,
    moves_in,
    preserve_option,
    say_throttle_removed,
    with_reassignments,
)

if TYPE_CHECKING:
    from kvorum.client.namespaces.reassignments import Reassignments
    from kvorum.client.values.log_dir import TopicPartitionReplica
    from kvorum.client.values.reassignment import Assignment

WAIT_PAUSE_SECONDS = 1.0
VERIFY_COLUMNS = ("topic", "partition", "state", "replicas", "target")


@click.command()
@file_option
@preserve_option
@click.option(
    "--wait", "seconds", type=click.FloatRange(0), default=0, help="Wait until completed, at most this many seconds."
)
@bootstrap_option
@output_option
def verify(path: Path, preserve_throttles: bool, seconds: float, bootstrap: str, output: str) -> None:
    """Print the progress of the partitions in a file; remove the throttles once nothing is in progress.

    Exit code 1 while some are not completed.

    \b
    kvorum reassign verify --reassignment-json-file plan.json
    kvorum reassign verify --reassignment-json-file plan.json --wait 3600
    """
    wanted, moves = assignment_in(path), moves_in(path)

    async def work(found: "Reassignments") -> list[dict[str, Any]]:
        if seconds:
            await wait_for(found, wanted, moves, seconds)
        progress = await found.verify(wanted, moves, preserve_throttles=preserve_throttles)
        rows: list[dict[str, Any]] = []
        for each in progress.partitions:
            row = {"topic": each.topic, "partition": each.partition, "state": each.state.value}
            rows.append({**row, "replicas": [*each.replicas], "target": [*each.target]})
        for replica, move in progress.log_dirs.items():
            row = {"topic": replica.topic, "partition": replica.partition, "state": move.state}
            rows.append({**row, "replicas": f"{replica.broker}: {move.current}", "target": move.target})
        if progress.unthrottled_brokers is not None:
            say_throttle_removed(progress.unthrottled_brokers, progress.unthrottled_topics or ())
        return rows

    rows = with_reassignments(bootstrap, work)
    show(rows, output, VERIFY_COLUMNS)
    if any(row["state"] != "completed" for row in rows):
        raise SystemExit(Exit.FAILED)


async def wait_for(
    found: "Reassignments", wanted: "Assignment", moves: "dict[TopicPartitionReplica, str]", seconds: float
) -> None:
    """Return once nothing of the file is under way, on other brokers or in other directories, or the time is over."""
    deadline = time.monotonic() + seconds
    left = now_left = await bytes_left(found, wanted, moves)
    with bar(left or 0, "bytes moved") as moved:
        while now_left is not None and time.monotonic() < deadline:
            await asyncio.sleep(WAIT_PAUSE_SECONDS)  # the cluster sends no notification
            now_left = await bytes_left(found, wanted, moves)
            assert left is not None
            done = left if now_left is None else max(0, left - now_left)
            moved(done)
            left -= done


async def bytes_left(
    found: "Reassignments", wanted: "Assignment", moves: "dict[TopicPartitionReplica, str]"
) -> int | None:
    """Return the number of bytes left to copy, according to the brokers; None after the end."""
    from kvorum.client.values.reassignment import ReplicaFile
    from kvorum.protocol.topic_partition import TopicPartition

    under_way = {place: each for place, each in (await found.list()).items() if place in wanted}
    moving = [replica for replica, state in (await found.moves.states(moves)).items() if state.future is not None]
    if not under_way and not moving:
        return None
    brokers = {broker for each in under_way.values() for broker in each.replicas}
    sizes = await found.replica_sizes(brokers | {replica.broker for replica in moving})
    left = 0
    for place, each in under_way.items():
        whole = max(sizes.get(ReplicaFile(place, broker, False), 0) for broker in each.replicas)
        left += sum(whole - sizes.get(ReplicaFile(place, broker, False), 0) for broker in each.adding)
    for replica in moving:
        place = TopicPartition(replica.topic, replica.partition)
        copied = sizes.get(ReplicaFile(place, replica.broker, True), 0)
        left += max(0, sizes.get(ReplicaFile(place, replica.broker, False), 0) - copied)
    return left
