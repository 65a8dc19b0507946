"""Produce requests of one record of 100 bytes, as many a second as five in flight on each connection allow."""

import asyncio
import time
from functools import partial

import uvloop

from bench.beds import Bed
from bench.links import Link, Window
from bench.processes import cpu_seconds
from bench.rows import Case, Figures, Measure, less, more
from bench.stalled import StalledError
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from tests.cluster.wire.raw import request

VERSION = 9
DEPTH = 5
PARTITIONS = 8
VALUE = b"x" * 100
WARM_UP_SECONDS, SECONDS = 2.0, 6.0
DEADLINE_SECONDS, RETRY_SECONDS = 60.0, 0.01
ERROR_CODE_BEHIND_NAME = 5
"""In a response of version 9, the count of partitions and the index are between the topic's name and the error code."""
NAME_POSITION = 7
"""Behind correlation id, tagged fields, count of topics, length of the name."""


def frame_of(topic: str, partition: int) -> bytes:
    """Return the request."""
    batch = bytes(build_batch([Record(VALUE, None, time.time_ns() // 1_000_000)]))
    data = PartitionProduceData(index=partition, records=batch)
    message = ProduceRequest(acks=1, timeout=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    return request(message, VERSION)


class GoodProduce:
    """Recognises successful responses by the error code at its position: base offsets differ, and none is decoded."""

    def __init__(self, topic: str) -> None:
        self._position = NAME_POSITION + len(topic) + ERROR_CODE_BEHIND_NAME

    def __call__(self, body: bytes) -> bool:
        """Return whether an answer has no error in it."""
        return body[self._position : self._position + 2] == b"\0\0"


async def wait_led(link: Link, frame: bytes, is_good: GoodProduce) -> None:
    """Produce until it is taken: a leader is in the metadata before it knows that it leads. Raises StalledError."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        answers: list[bytes] = []
        link.send(frame, [answers.append])
        await link.idle()
        if is_good(answers[0]):
            return
        await asyncio.sleep(RETRY_SECONDS)
    raise StalledError("a partition takes no record")


async def request_rate(
    bed: Bed, topic: str, connections: int, depth: int = DEPTH, address: tuple[str, int] | None = None
) -> tuple[float, float]:
    """Return requests per second, and CPU seconds per request. Raises StalledError.

    `address`: another broker's, by default the system's first.
    """
    links = [await Link.to(address or bed.system.address(1)) for _ in range(connections)]
    is_good = GoodProduce(topic)
    for partition in range(PARTITIONS):
        await wait_led(links[0], frame_of(topic, partition), is_good)
    windows = [
        Window(link, [frame_of(topic, number % PARTITIONS)], depth, is_good) for number, link in enumerate(links)
    ]
    await asyncio.sleep(bed.scale.seconds(WARM_UP_SECONDS))
    pids = bed.system.pids()
    answered, used, began = sum(window.answered for window in windows), cpu_seconds(pids), time.perf_counter()
    await asyncio.sleep(bed.scale.seconds(SECONDS))
    count = sum(window.answered for window in windows) - answered
    elapsed, used = time.perf_counter() - began, cpu_seconds(pids) - used
    await asyncio.gather(*(window.stop() for window in windows))
    for link in links:
        link.close()
    if not count or any(window.failed for window in windows):
        raise StalledError(f"{count} requests were answered, {sum(window.failed for window in windows)} with an error")
    return count / elapsed, used / count


def requests(bed: Bed, title: str, connections: int) -> Figures:
    """Send them to a new topic."""
    with bed.topic(PARTITIONS) as topic, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rate, cost = runner.run(request_rate(bed, topic, connections))
    return {title: rate, f"{title}: CPU of all processes": cost * 1e6}


def case(connections: int) -> Case:
    """Return the case of so many connections."""
    title = f"requests of one record, acks=1, {DEPTH} in flight, {connections} connection{'s' * (connections > 1)}"
    rows = (more(title, "requests/s", 1.2, 1.6), less(f"{title}: CPU of all processes", "us/request"))
    return Case(name=title, rows=rows, run=partial(requests, title=title, connections=connections))


MEASURE = Measure(name="requests", settings={}, cases=(case(1), case(32)))
