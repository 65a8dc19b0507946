"""Throughput of one ConsumerPerformance from a topic in the page cache."""

from functools import partial

from bench import tools
from bench.beds import Bed
from bench.measures.produce import BATCHED, LARGE, RECORDS_LEAST, SMALL, cpu_title
from bench.processes import cpu_seconds
from bench.rows import Case, Figures, Measure, less, more

PARTITIONS = 6
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
"""The consumer waits for its group before it counts; this only shortens the wait."""


def topic_of(bed: Bed, note: str, records: int, size: int, properties: dict[str, str]) -> str:
    """Return a topic with so many records, filled the first time; its number is kept in the bed's notes."""
    if note not in bed.notes:
        name = bed.make_topic(PARTITIONS)
        tools.produce(
            bed.system.bootstrap, name, records, size, {**bed.system.client, "acks": "all", **BATCHED, **properties}
        )
        bed.notes[note] = float(name.rpartition("-")[2])
    return f"bench-{bed.notes[note]:.0f}"


def consumed(bed: Bed, title: str, size: int, codec: str = "none") -> Figures:
    """Read all of it, as a new group."""
    records = bed.scale.count(4_000_000 if size <= SMALL else 1_000_000, RECORDS_LEAST)
    topic = topic_of(bed, f"filled-{codec}-{size}", records, size, {"compression.type": codec})
    run = bed.notes["groups"] = bed.notes.get("groups", 0) + 1
    used = cpu_seconds(bed.system.pids())
    found = tools.consume(bed.system.bootstrap, topic, records, f"bench-{run:.0f}", bed.system.client)
    used = cpu_seconds(bed.system.pids()) - used
    return {title: found.records_per_second, cpu_title(title): used / (records * size / 1e9)}


def case(title: str, size: int, codec: str = "none") -> Case:
    """Return a case of two rows: the rate, and the CPU."""
    rows = (more(title, "records/s", 1.0, 1.5), less(cpu_title(title), "s/GB"))
    return Case(name=title, rows=rows, run=partial(consumed, title=title, size=size, codec=codec), java=True)


MEASURE = Measure(
    name="consume",
    settings=NO_DELAY,
    cases=(
        case("consume, one consumer, 100 B, from the page cache", SMALL),
        case("consume, one consumer, 1 KiB, from the page cache", LARGE),
    ),
)
