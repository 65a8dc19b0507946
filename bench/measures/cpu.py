"""CPU seconds of a cluster of three for each GB that is produced, replicated and consumed."""

from functools import partial

from bench import tools
from bench.beds import Bed
from bench.measures.consume import NO_DELAY
from bench.measures.produce import LARGE, SMALL, THREE, records_of
from bench.processes import cpu_seconds
from bench.rows import Case, Figures, Measure, less

PARTITIONS = 6


def used(bed: Bed, title: str, size: int) -> Figures:
    """Produce with acks=all, consume all records, and measure the processes' CPU time over both."""
    records = records_of(bed, size)
    run = bed.notes["groups"] = bed.notes.get("groups", 0) + 1
    with bed.topic(PARTITIONS) as topic:
        before = cpu_seconds(bed.system.pids())
        tools.produce(bed.system.bootstrap, topic, records, size, {"acks": "all", **bed.system.client})
        tools.consume(bed.system.bootstrap, topic, records, f"bench-{run:.0f}", bed.system.client)
        seconds = cpu_seconds(bed.system.pids()) - before
    return {title: seconds / (records * size / 1e9)}


def case(name: str, size: int, must: float = 0.4, aim: float = 0.15) -> Case:
    """Return the case of one size."""
    title = f"CPU of 3 nodes, produced + replicated + consumed, {name}"
    return Case(
        name=title, rows=(less(title, "s/GB", must, aim),), run=partial(used, title=title, size=size), java=True
    )


MEASURE = Measure(name="cpu", nodes=3, settings=THREE | NO_DELAY, cases=(case("100 B", SMALL), case("1 KiB", LARGE)))
