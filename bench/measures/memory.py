"""Memory of all processes of a node: idle, after 2 GB, with 10,000 partitions.

Pages shared by several processes count once (PSS): this is the memory that the machine must have. The plain sum of
all processes is also reported.
"""

import time

from bench import tools
from bench.beds import Bed
from bench.measures.produce import LARGE
from bench.processes import memory_mib
from bench.rows import Case, Figures, Measure, Row, less

IDLE_SECONDS = 10.0
BYTES = 2_000_000_000
TOPICS, PARTITIONS = 10, 1_000
MUST, AIM = 0.2, 0.1
IDLE = "memory, 1 node, idle"
LOADED = "memory, 1 node, after 2 GB"
CROWDED = "memory, 1 node, 10,000 partitions"


def rows(title: str) -> tuple[Row, Row]:
    """Return the two rows of a state."""
    return less(title, "MiB", MUST, AIM), less(f"{title}, sum of RSS", "MiB")


def seen(bed: Bed, title: str) -> Figures:
    """Look."""
    resident, proportional = memory_mib(bed.system.pids())
    return {title: proportional, f"{title}, sum of RSS": resident}


def started(bed: Bed) -> None:
    """Start the node and let it come to rest."""
    bed.system.start()
    bed.system.wait_ready()
    time.sleep(bed.scale.seconds(IDLE_SECONDS))


def idle(bed: Bed) -> Figures:
    """Look at a node that was started."""
    started(bed)
    return seen(bed, IDLE)


def loaded(bed: Bed) -> Figures:
    """Measure after producing and consuming this amount."""
    started(bed)
    records = bed.scale.count(BYTES // LARGE, 1_000)
    with bed.topic(6) as topic:
        tools.produce(bed.system.bootstrap, topic, records, LARGE, {"acks": "all"})
        tools.consume(bed.system.bootstrap, topic, records, "memory")
        time.sleep(bed.scale.seconds(IDLE_SECONDS))
        return seen(bed, LOADED)


def crowded(bed: Bed) -> Figures:
    """Measure with this number of partitions."""
    started(bed)
    for _ in range(bed.scale.count(TOPICS)):
        bed.make_topic(bed.scale.count(PARTITIONS, 10))
    time.sleep(bed.scale.seconds(IDLE_SECONDS))
    return seen(bed, CROWDED)


MEASURE = Measure(
    name="memory",
    settings={},
    fresh=True,
    rounds_max=2,
    cases=(
        Case(name=IDLE, rows=rows(IDLE), run=idle),
        Case(name=LOADED, rows=rows(LOADED), run=loaded, java=True),
        Case(name=CROWDED, rows=rows(CROWDED), run=crowded),
    ),
)
