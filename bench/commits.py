"""Offset commits a second: by a driver that keeps requests on their way, and by confluent-kafka one after the other."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.links import Good, Link, Window
from bench.members import Member, find_coordinator, form
from bench.processes import cpu_seconds
from bench.report import Report
from bench.stalled import StalledError
from bench.systems import System, formatted
from bench.topics import make_topic
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kvorum.protocol.schema import Message
from tests.wire.raw import request

TOPIC = "load"
PARTITIONS = 12
VERSION = 9
DEPTH = 16
READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """How long each is measured, in seconds."""

    warm_up: float = 10.0
    seconds: float = 10.0


def measure_commits(kind: str, commits: Commits, report: Report) -> None:
    """Commit to a fresh node in each way."""
    with formatted(kind, 1) as system:
        system.start()
        system.wait_ready()
        make_topic(system, TOPIC, PARTITIONS)
        for connections in (1, 32):
            asyncio.run(pipelined(system, kind, connections, commits, report))
        one_by_one(system, kind, commits, report)


async def pipelined(system: System, kind: str, connections: int, commits: Commits, report: Report) -> None:
    """Have a group of one member for each connection, which commits one partition after the other."""
    address = system.address(1)
    links = [await Link.to(address) for _ in range(connections)]
    await find_coordinator(links[0], "commits-0")
    members = [
        Member(f"commits-{connections}-{number}", link, (TOPIC,), PARTITIONS) for number, link in enumerate(links)
    ]
    await asyncio.gather(*(form([member]) for member in members))
    is_good = Good(ApiKey.OFFSET_COMMIT, VERSION, codes)
    windows = [Window(member.link, frames(member), DEPTH, is_good) for member in members]
    await asyncio.sleep(commits.warm_up)
    pids = system.pids()
    answered, used, began = sum(window.answered for window in windows), cpu_seconds(pids), time.perf_counter()
    await asyncio.sleep(commits.seconds)
    count = sum(window.answered for window in windows) - answered
    elapsed, used = time.perf_counter() - began, cpu_seconds(pids) - used
    await asyncio.gather(*(window.stop() for window in windows))
    for link in links:
        link.close()
    if any(window.failed for window in windows):
        raise StalledError("commits were answered with an error")
    title = f"offset commits, {connections} connection{'s' * (connections > 1)}, {DEPTH} on their way on each"
    report.add(f"{title}: commits a second", kind, count / elapsed)
    report.add(f"{title}: CPU of all processes, us a commit", kind, used / count * 1e6)


def frames(member: Member) -> list[bytes]:
    """Return a commit of each partition."""
    found = []
    for partition in range(PARTITIONS):
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1000 + partition)
        asked = OffsetCommitRequest(
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[row])],
        )
        found.append(request(asked, VERSION))
    return found


def codes(answer: Message) -> Iterator[int]:
    """Return the error codes of an OffsetCommit's answer."""
    for topic in answer.topics:  # type: ignore[attr-defined]
        for partition in topic.partitions:
            yield partition.error_code


def one_by_one(system: System, kind: str, commits: Commits, report: Report) -> None:
    """Commit with confluent-kafka, each when the one before is answered."""
    consumer = Consumer(
        {"bootstrap.servers": system.bootstrap, "group.id": "one-by-one", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    commit_first(consumer)

    def commit_for(seconds: float) -> tuple[int, float]:
        count, began = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, count)], asynchronous=False)
            count += 1
        return count, elapsed

    commit_for(commits.warm_up)
    pids = system.pids()
    before = cpu_seconds(pids)
    count, elapsed = commit_for(commits.seconds)
    used = cpu_seconds(pids) - before
    consumer.close()
    report.add("offset commits, confluent-kafka, one at a time: commits a second", kind, count / elapsed)
    report.add(
        "offset commits, confluent-kafka, one at a time: CPU of all processes, us a commit", kind, used / count * 1e6
    )


def commit_first(consumer: Consumer) -> None:
    """Commit as soon as there is a coordinator that is ready. Raises StalledError."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise StalledError(str(error)) from error
        else:
            return
