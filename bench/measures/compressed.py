"""Compressed records: a broker processes whole batches."""

from bench.measures import consume, produce
from bench.rows import Case, Measure

CODECS = ("lz4", "zstd")


def producing(codec: str) -> Case:
    """Return the case that produces."""
    title = f"produce, 1 node, 1 KiB, {codec}, acks=all, 6 partitions, batch.size 262144, linger.ms 5"
    properties = {"acks": "all", "compression.type": codec} | produce.BATCHED
    return produce.case(title, produce.LARGE, 6, properties, 1.0, 1.5)


MEASURE = Measure(
    name="compressed",
    settings=consume.NO_DELAY,
    cases=(
        *map(producing, CODECS),
        *(consume.case(f"consume, one consumer, 1 KiB, {codec}", produce.LARGE, codec) for codec in CODECS),
    ),
)
