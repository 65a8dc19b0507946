"""Every measure of `make bench`, in the order of the table; a module each in bench/measures."""

from bench.measures import (
    compressed,
    consume,
    cpu,
    failover,
    fanout,
    floor,
    heartbeats,
    latency,
    many_topics,
    memory,
    metadata,
    offset_commits,
    own_limit,
    produce,
    rebalances,
    requests,
    start,
    tls,
    transactions,
)
from bench.rows import Measure

MEASURES: tuple[Measure, ...] = (
    produce.ONE_NODE,
    own_limit.MEASURE,
    produce.THREE_NODES,
    consume.MEASURE,
    fanout.MEASURE,
    requests.MEASURE,
    latency.ONE_NODE,
    latency.THREE_NODES,
    latency.WITH_CLEANER,
    compressed.MEASURE,
    cpu.MEASURE,
    floor.MEASURE,
    memory.MEASURE,
    start.ONE_NODE,
    start.THREE_NODES,
    start.AFTER_KILL,
    failover.MEASURE,
    many_topics.MEASURE,
    metadata.MEASURE,
    offset_commits.MEASURE,
    heartbeats.MEASURE,
    rebalances.MEASURE,
    transactions.MEASURE,
    tls.ONE_NODE,
    tls.THREE_NODES,
)


def chosen(names: str | None) -> list[Measure]:
    """Return the measures named, comma-separated, in the order of the table; all, if none is. Raises ValueError."""
    if not names:
        return list(MEASURES)
    wanted = set(names.split(","))
    unknown = wanted - {measure.name for measure in MEASURES}
    if unknown:
        known = ", ".join(measure.name for measure in MEASURES)
        raise ValueError(f"there is no measure {', '.join(sorted(unknown))}; there are {known}")
    return [measure for measure in MEASURES if measure.name in wanted]
