"""Throughput and CPU against partitions, connections, sizes, consumers, replicas and brokers."""

import asyncio
import contextlib
import time

import uvloop

from bench.beds import Bed
from bench.child import Child
from bench.curves.curve import Curve, Series
from bench.curves.load import ALL_SECONDS, RATES, READY_SECONDS, child, make_topics, rates, written
from bench.measures.requests import PARTITIONS as REQUEST_PARTITIONS
from bench.measures.requests import request_rate
from bench.processes import cpu_seconds
from bench.topics import make_topic

SMALL, LARGE = 100, 1024
PARTITIONS = 6
BYTES = 200_000_000
RECORDS_MAX = 2_000_000
LARGE_RECORDS = {"message.max.bytes": "2097152", "replica.fetch.max.bytes": "4194304"}
REPLICAS_MAX = 3
WRITERS = 2
REQUESTS = (Series(name="requests", unit="requests/s"), Series(name="CPU of all processes", unit="us/request"))


def records_of(bed: Bed, size: int) -> int:
    """Return the number of records of a size: the same total bytes for each size, at most 2,000,000 records."""
    return bed.scale.count(min(BYTES // size, RECORDS_MAX), 200)


def against_partitions(bed: Bed, place: int) -> dict[str, float]:
    """Write to so many partitions, each by turns."""
    topics = make_topics(bed, place)
    found = written(bed, topics, records_of(bed, SMALL), SMALL)
    for topic in topics:
        bed.drop_topic(topic)
    return found


def against_connections(bed: Bed, place: int) -> dict[str, float]:
    """Make each of the connections send requests of one record, one after the other."""
    with bed.topic(REQUEST_PARTITIONS) as topic, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rate, cost = runner.run(request_rate(bed, topic, place, 1))
    return {REQUESTS[0].name: rate, REQUESTS[1].name: cost * 1e6}


def against_record_size(bed: Bed, place: int) -> dict[str, float]:
    """Write records of a size."""
    with bed.topic(PARTITIONS) as topic:
        return written(bed, [topic], records_of(bed, place), place, {"message.max.bytes": "2097152"})


def against_batch_size(bed: Bed, place: int) -> dict[str, float]:
    """Write records of 100 bytes in batches of at most a size."""
    with bed.topic(PARTITIONS) as topic:
        return written(bed, [topic], records_of(bed, SMALL), SMALL, {"batch.size": str(place)})


def against_consumers(bed: Bed, place: int) -> dict[str, float]:
    """Make each of the consumers read all records of one concurrent writer; the bytes of all of them count."""
    records = bed.scale.count(200_000, 200)
    with bed.topic(PARTITIONS) as topic, contextlib.ExitStack() as stack:
        start = (bed.system.bootstrap, topic)
        readers = [
            stack.enter_context(child("bench.clients.reader", *start, PARTITIONS, records)) for _ in range(place)
        ]
        writer = stack.enter_context(child("bench.clients.writer", *start, records, LARGE))
        for each in (*readers, writer):
            each.expect(READY_SECONDS)
        used, began = cpu_seconds(bed.system.pids()), time.perf_counter()
        writer.tell()
        size = sum(int(reader.expect(ALL_SECONDS)[1]) for reader in readers)
        return rates(size, time.perf_counter() - began, cpu_seconds(bed.system.pids()) - used)


def against_replication_factor(bed: Bed, place: int) -> dict[str, float]:
    """Write to a topic of so many replicas."""
    topic = bed.new_name()
    make_topic(bed.system, topic, PARTITIONS, place)
    found = written(bed, [topic], records_of(bed, LARGE), LARGE)
    bed.drop_topic(topic)
    return found


def against_brokers(bed: Bed, place: int) -> dict[str, float]:
    """Make two writers write to a topic of six partitions per broker, on a cluster of this number of brokers."""
    records = records_of(bed, LARGE)
    topic = bed.new_name()
    make_topic(bed.system, topic, PARTITIONS * place, min(REPLICAS_MAX, place))
    with contextlib.ExitStack() as stack:
        arguments = (bed.system.bootstrap, topic, records, LARGE)
        writers = [stack.enter_context(child("bench.clients.writer", *arguments)) for _ in range(WRITERS)]
        return together(bed, writers, WRITERS * records * LARGE)


def together(bed: Bed, writers: list[Child], size: int) -> dict[str, float]:
    """Let writers go at the same moment, and wait for all."""
    for writer in writers:
        writer.expect(READY_SECONDS)
    used, began = cpu_seconds(bed.system.pids()), time.perf_counter()
    for writer in writers:
        writer.tell()
    for writer in writers:
        writer.expect(ALL_SECONDS)
    return rates(size, time.perf_counter() - began, cpu_seconds(bed.system.pids()) - used)


CURVES = (
    Curve(
        name="partitions",
        title="One writer, 100 B, acks=all, 1 node",
        x="partitions of the broker",
        places=(1, 10, 100, 1_000, 3_000, 10_000),
        series=RATES,
        run=against_partitions,
        scaled=True,
        fresh=True,
    ),
    Curve(
        name="connections",
        title="Requests of one record, acks=1, one in flight on each connection, 1 node",
        x="connections",
        places=(1, 10, 100, 1_000, 5_000),
        series=REQUESTS,
        run=against_connections,
        scaled=True,
    ),
    Curve(
        name="record-size",
        title="One writer, acks=all, 6 partitions, 1 node",
        x="bytes of a record",
        places=(10, 100, 1_024, 10_240, 102_400, 1_048_576),
        series=RATES,
        run=against_record_size,
        settings=LARGE_RECORDS,
    ),
    Curve(
        name="batch-size",
        title="One writer, 100 B, acks=all, 6 partitions, 1 node",
        x="bytes of a batch at most",
        places=(256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_000_000),
        series=RATES,
        run=against_batch_size,
    ),
    Curve(
        name="consumers",
        title="One writer, 1 KiB, each consumer reads all, 1 node",
        x="consumers",
        places=(1, 2, 4, 8, 16),
        series=RATES,
        run=against_consumers,
    ),
    Curve(
        name="replication-factor",
        title="One writer, 1 KiB, acks=all, 6 partitions, 3 nodes",
        x="replicas",
        places=(1, 2, 3),
        series=RATES,
        run=against_replication_factor,
        nodes=lambda place: 3,
    ),
    Curve(
        name="brokers",
        title="Two writers, 1 KiB, acks=all, 6 partitions a broker, up to 3 replicas",
        x="brokers",
        places=(1, 2, 3, 4, 6, 8),
        series=RATES,
        run=against_brokers,
        nodes=lambda place: place,
    ),
)
