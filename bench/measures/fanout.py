"""One producer, eight consumers of the same topic: total bytes per second, until all eight have all records.

Clients are confluent-kafka, each in its own process: eight JVMs would leave the cluster no core.
"""

import contextlib
import time

from bench.beds import Bed
from bench.child import Child
from bench.measures.produce import LARGE
from bench.processes import cpu_seconds
from bench.rows import Case, Figures, Measure, less, more

CONSUMERS = 8
PARTITIONS = 6
RECORDS = 300_000
READY_SECONDS, ALL_SECONDS = 60.0, 300.0
TITLE = f"fan-out, 1 producer, {CONSUMERS} consumers, 1 KiB"
CPU = f"{TITLE}: CPU of all processes"


def fan_out(bed: Bed) -> Figures:
    """Make all consumers read from the first record."""
    records = bed.scale.count(RECORDS, 1_000)
    with bed.topic(PARTITIONS) as topic, contextlib.ExitStack() as stack:
        start = [bed.system.bootstrap, topic]
        readers = [Child("bench.clients.reader", *start, str(PARTITIONS), str(records)) for _ in range(CONSUMERS)]
        writer = Child("bench.clients.writer", *start, str(records), str(LARGE))
        for child in (*readers, writer):
            stack.callback(child.close)
        for child in (*readers, writer):
            child.expect(READY_SECONDS)
        used, began = cpu_seconds(bed.system.pids()), time.perf_counter()
        writer.tell()
        size = sum(int(reader.expect(ALL_SECONDS)[1]) for reader in readers)
        elapsed, used = time.perf_counter() - began, cpu_seconds(bed.system.pids()) - used
    assert size == CONSUMERS * records * LARGE, f"{size} bytes were consumed"
    return {TITLE: size / elapsed / 2**20, CPU: used / (size / 1e9)}


MEASURE = Measure(
    name="fan-out",
    settings={},
    cases=(Case(name=TITLE, rows=(more(TITLE, "MiB/s", 1.2, 2.0), less(CPU, "s/GB consumed")), run=fan_out),),
)
