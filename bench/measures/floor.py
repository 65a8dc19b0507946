"""The operating system's share of the cost measured by `cpu` and `produce`: no broker costs less (bench/floor.py).

It does not use the measured systems: the difference of their figures shows the machine's variation.
"""

from functools import partial

from bench.beds import Bed
from bench.floor import FOLLOWERS, REQUEST_BATCHES, floor
from bench.rows import Case, Figures, Measure, less

TOTAL = 1_000_000_000
SMALL_BATCH, LARGE_BATCH = 16 * 1024, 256 * 1024
"""batch.size by default, and in the measure of large batches."""
KINDS = {"streamed": False, "asked": True}


def taken(bed: Bed, title: str, batch_size: int, followers: int, is_consumed: bool) -> Figures:
    """Return the CPU seconds per GB of the processes that replace brokers."""
    total = bed.scale.count(TOTAL, 2 * batch_size * REQUEST_BATCHES)
    run = partial(floor, total, batch_size, followers=followers, is_consumed=is_consumed)
    return {f"{title}, {kind}": run(by_requests=by_requests).total for kind, by_requests in KINDS.items()}


def case(what: str, batch_size: int, followers: int, is_consumed: bool) -> Case:
    """Return a case of two rows: with and without requests and answers."""
    title = f"the machine's own floor, {what}, batches of {batch_size // 1024} KiB: CPU"
    run = partial(taken, title=title, batch_size=batch_size, followers=followers, is_consumed=is_consumed)
    return Case(name=title, rows=tuple(less(f"{title}, {kind}", "s/GB") for kind in KINDS), run=run)


MEASURE = Measure(
    name="floor",
    settings={},
    cases=(
        case("3 nodes, produced + replicated + consumed", SMALL_BATCH, FOLLOWERS, is_consumed=True),
        case("1 node, produced", LARGE_BATCH, 0, is_consumed=False),
    ),
)
