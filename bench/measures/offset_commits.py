"""Offset commits per second: by a driver with pipelined requests, and by confluent-kafka one after the other."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial

import uvloop
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.beds import Bed
from bench.links import Good, Link, Window
from bench.measures.consume import NO_DELAY
from bench.members import Member, find_coordinator, form
from bench.processes import cpu_seconds
from bench.rows import Case, Figures, Measure, less, more
from bench.stalled import StalledError
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kvorum.protocol.schema import Message
from tests.cluster.wire.raw import request

PARTITIONS = 12
VERSION = 9
DEPTH = 16
READY_SECONDS = 60.0
WARM_UP_SECONDS, SECONDS = 5.0, 10.0
ONE_BY_ONE = "offset commits, confluent-kafka, one at a time"


def cpu_title(title: str) -> str:
    """Return the name of the row with the corresponding CPU time."""
    return f"{title}: CPU of all processes"


def frames(member: Member, topic: str) -> list[bytes]:
    """Return a commit of each partition."""
    found = []
    for partition in range(PARTITIONS):
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1000 + partition)
        commit = OffsetCommitRequest(
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        found.append(request(commit, VERSION))
    return found


def codes(answer: Message) -> Iterator[int]:
    """Return the error codes of an OffsetCommit's answer."""
    for topic in answer.topics:  # type: ignore[attr-defined]
        for partition in topic.partitions:
            yield partition.error_code


async def committed(bed: Bed, topic: str, connections: int) -> tuple[float, float]:
    """Create a group of one member for each connection, which commits one partition after the other.

    Return commits per second, and CPU seconds per commit. Raises StalledError.
    """
    links = [await Link.to(bed.system.address(1)) for _ in range(connections)]
    await find_coordinator(links[0], f"{topic}-0")
    members = [Member(f"{topic}-{number}", link, (topic,), PARTITIONS) for number, link in enumerate(links)]
    await asyncio.gather(*(form([member]) for member in members))
    is_good = Good(ApiKey.OFFSET_COMMIT, VERSION, codes)
    windows = [Window(member.link, frames(member, topic), DEPTH, is_good) for member in members]
    await asyncio.sleep(bed.scale.seconds(WARM_UP_SECONDS))
    pids = bed.system.pids()
    answered, used, began = sum(window.answered for window in windows), cpu_seconds(pids), time.perf_counter()
    await asyncio.sleep(bed.scale.seconds(SECONDS))
    count = sum(window.answered for window in windows) - answered
    elapsed, used = time.perf_counter() - began, cpu_seconds(pids) - used
    await asyncio.gather(*(window.stop() for window in windows))
    await asyncio.gather(*(member.leave() for member in members))
    for link in links:
        link.close()
    if not count or any(window.failed for window in windows):
        raise StalledError(f"{count} commits were answered, {sum(window.failed for window in windows)} with an error")
    return count / elapsed, used / count


def pipelined(bed: Bed, title: str, connections: int) -> Figures:
    """Commit offsets of a new topic."""
    with bed.topic(PARTITIONS) as topic, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rate, cost = runner.run(committed(bed, topic, connections))
    return {title: rate, cpu_title(title): cost * 1e6}


def one_by_one(bed: Bed) -> Figures:
    """Commit with confluent-kafka, each when the one before is answered."""
    with bed.topic() as topic:
        consumer = Consumer(
            {
                "bootstrap.servers": bed.system.bootstrap,
                "group.id": topic,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        commit_first(consumer, topic)
        commit_for(consumer, topic, bed.scale.seconds(WARM_UP_SECONDS))
        pids = bed.system.pids()
        before = cpu_seconds(pids)
        count, elapsed = commit_for(consumer, topic, bed.scale.seconds(SECONDS))
        used = cpu_seconds(pids) - before
        consumer.close()
    return {ONE_BY_ONE: count / elapsed, cpu_title(ONE_BY_ONE): used / count * 1e6}


def commit_for(consumer: Consumer, topic: str, seconds: float) -> tuple[int, float]:
    """Continue for this time; return the number of commits, and the seconds."""
    count, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        consumer.commit(offsets=[TopicPartition(topic, 0, count)], asynchronous=False)
        count += 1
    return count, elapsed


def commit_first(consumer: Consumer, topic: str) -> None:
    """Commit as soon as there is a coordinator that is ready. Raises StalledError."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise StalledError(str(error)) from error
        else:
            return


def case(connections: int) -> Case:
    """Return the case of so many connections."""
    title = f"offset commits, {DEPTH} in flight, {connections} connection{'s' * (connections > 1)}"
    rows = (more(title, "commits/s"), less(cpu_title(title), "us/commit"))
    return Case(name=title, rows=rows, run=partial(pipelined, title=title, connections=connections))


MEASURE = Measure(
    name="offset-commits",
    settings=NO_DELAY,
    cases=(
        case(1),
        case(32),
        Case(
            name=ONE_BY_ONE,
            rows=(more(ONE_BY_ONE, "commits/s"), less(cpu_title(ONE_BY_ONE), "us/commit")),
            run=one_by_one,
        ),
    ),
)
