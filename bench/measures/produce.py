"""Throughput of ProducerPerformance, and the CPU time of the cluster."""

from functools import partial

from bench import tools
from bench.beds import Bed
from bench.processes import cpu_seconds
from bench.rows import Case, Figures, Measure, less, more

SMALL, LARGE = 100, 1024
BATCHED = {"batch.size": "262144", "linger.ms": "5"}
WARM_UP_SHARE = 4
"""One record of so many is sent before it counts: the client's own warm-up."""
RECORDS_LEAST = 1_000
THREE = {"min.insync.replicas": "2"}


def records_of(bed: Bed, size: int) -> int:
    """Return how many records of a size a run has: some 8 seconds on two cores."""
    return bed.scale.count((2_000_000 if size <= SMALL else 800_000) // (1 if bed.nodes == 1 else 2), RECORDS_LEAST)


def produced(bed: Bed, title: str, size: int, partitions: int, properties: dict[str, str]) -> Figures:
    """Produce to a new topic."""
    records = records_of(bed, size)
    with bed.topic(partitions) as topic:
        used = cpu_seconds(bed.system.pids())
        client = {**bed.system.client, **properties}
        found = tools.produce(bed.system.bootstrap, topic, records, size, client, warm_up=records // WARM_UP_SHARE)
        used = cpu_seconds(bed.system.pids()) - used
    return {title: found.records_per_second, cpu_title(title): used / (records * size / 1e9)}


def cpu_title(title: str) -> str:
    """Return the name of the row with the corresponding CPU time."""
    return f"{title}: CPU of all processes"


def case(title: str, size: int, partitions: int, properties: dict[str, str], must: float, aim: float) -> Case:
    """Return a case of two rows: the rate, and the CPU."""
    rows = (more(title, "records/s", must, aim), less(cpu_title(title), "s/GB"))
    run = partial(produced, title=title, size=size, partitions=partitions, properties=properties)
    return Case(name=title, rows=rows, run=run, java=True)


def partitions_of(count: int) -> str:
    """Say how many partitions."""
    return f"{count} partition{'s' * (count > 1)}"


ONE_NODE = Measure(
    name="produce",
    settings={},
    cases=(
        *(
            case(f"produce, 1 node, 100 B, acks={acks}, {partitions_of(count)}", SMALL, count, {"acks": acks}, 1.3, 2.0)
            for acks in ("1", "all")
            for count in (1, 6)
        ),
        case(
            "produce, 1 node, 1 KiB, acks=all, 6 partitions, batch.size 262144, linger.ms 5",
            LARGE,
            6,
            {"acks": "all"} | BATCHED,
            1.1,
            1.4,
        ),
    ),
)
THREE_NODES = Measure(
    name="produce-replicated",
    nodes=3,
    settings=THREE,
    cases=tuple(
        case(f"produce, 3 nodes, RF 3, {name}, acks=all, 6 partitions", size, 6, {"acks": "all"}, 2.0, 4.0)
        for name, size in (("100 B", SMALL), ("1 KiB", LARGE))
    ),
)
