"""From the start of a formatted cluster to its first acknowledged record; the same after kill -9 with a long log."""

import os
import time
from functools import partial

from bench.asker import Asker, acknowledge, create_topic
from bench.beds import Bed
from bench.child import Child
from bench.measures.produce import LARGE, THREE
from bench.rows import Case, Figures, Measure, less

MUST, AIM = 0.25, 0.1
LOG_BYTES, LOG_PARTITIONS = 5_000_000_000, 6
READY_SECONDS, FILLED_SECONDS = 60.0, 600.0
RESTART = "kill -9 with 5 GB of log, start to a record acknowledged in each of 6 partitions"


def start(bed: Bed, title: str) -> Figures:
    """Start all nodes; see when a record with acks=all is acknowledged in a new topic."""
    began = time.perf_counter()
    bed.system.start()
    asker = Asker(bed.system, 1)
    create_topic(asker, "first", min(3, bed.nodes))
    asker.close()
    acknowledge(bed.system, "first")
    return {title: time.perf_counter() - began}


def restart(bed: Bed) -> Figures:
    """Fill a node's log, kill it, and start it again; the records are on the disk before, on both systems."""
    bed.system.start()
    bed.system.wait_ready()
    topic = bed.make_topic(LOG_PARTITIONS)
    writer = Child(
        "bench.clients.writer", bed.system.bootstrap, topic, str(bed.scale.count(LOG_BYTES // LARGE, 1_000)), str(LARGE)
    )
    try:
        writer.expect(READY_SECONDS)
        writer.tell()
        writer.expect(FILLED_SECONDS)
    finally:
        writer.close()
    os.sync()
    bed.system.kill(1)
    began = time.perf_counter()
    bed.system.start()
    acknowledge(bed.system, topic, LOG_PARTITIONS)
    return {RESTART: time.perf_counter() - began}


def case(title: str) -> Case:
    """Return the case of a cluster's first start."""
    return Case(name=title, rows=(less(title, "s", MUST, AIM),), run=partial(start, title=title))


ONE_NODE = Measure(
    name="start", settings={}, fresh=True, cases=(case("start to first acknowledged record, 1 node, empty"),)
)
THREE_NODES = Measure(
    name="start-replicated",
    nodes=3,
    settings=THREE,
    fresh=True,
    cases=(case("start to first acknowledged record, 3 nodes, RF 3, empty"),),
)
AFTER_KILL = Measure(
    name="restart",
    settings={},
    fresh=True,
    rounds_max=3,
    cases=(Case(name=RESTART, rows=(less(RESTART, "s", MUST, AIM),), run=restart),),
)
