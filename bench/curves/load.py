"""Common parts of the data path's curves: one writer's throughput, and the CPU time of the cluster."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence

from bench.beds import Bed
from bench.child import Child
from bench.curves.curve import Series
from bench.processes import cpu_seconds

READY_SECONDS, ALL_SECONDS = 120.0, 300.0
TOPIC_PARTITIONS_MAX = 1_000
THROUGHPUT, CPU = "throughput", "CPU of all processes"
RATES = (Series(name=THROUGHPUT, unit="MiB/s"), Series(name=CPU, unit="s/GB"))
NO_PROPERTIES: Mapping[str, str] = {}


@contextlib.contextmanager
def child(module: str, *arguments: object) -> Iterator[Child]:
    """A client, killed at the end."""
    found = Child(module, *map(str, arguments))
    try:
        yield found
    finally:
        found.close()


def rates(size: float, elapsed: float, used: float) -> dict[str, float]:
    """Return the figures of RATES for so many bytes."""
    return {THROUGHPUT: size / elapsed / 2**20, CPU: used / (size / 1e9)}


def written(
    bed: Bed, topics: Sequence[str], records: int, size: int, properties: Mapping[str, str] = NO_PROPERTIES
) -> dict[str, float]:
    """Make one writer with acks=all send this number of records to topics in turn."""
    arguments = [f"{key}={value}" for key, value in properties.items()]
    with child("bench.clients.writer", bed.system.bootstrap, ",".join(topics), records, size, *arguments) as writer:
        writer.expect(READY_SECONDS)
        pids = bed.system.pids()
        used, began = cpu_seconds(pids), time.perf_counter()
        writer.tell()
        writer.expect(ALL_SECONDS)
        elapsed, used = time.perf_counter() - began, cpu_seconds(pids) - used
    return rates(records * size, elapsed, used)


def make_topics(bed: Bed, partitions: int) -> list[str]:
    """Create topics with this total number of partitions, at most a thousand each."""
    counts = [TOPIC_PARTITIONS_MAX] * (partitions // TOPIC_PARTITIONS_MAX)
    counts += [partitions % TOPIC_PARTITIONS_MAX] if partitions % TOPIC_PARTITIONS_MAX else []
    return [bed.make_topic(count) for count in counts]
