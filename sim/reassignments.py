"""Reassignments during a seed: replicas move, join, leave, and cancels.

Sans-IO.

It has its own random generator: seeds without these stay the same, and saved plans replay unchanged. A reassignment is
an entry of the schedule, `reassign`: `target` is a partition of the topic by its number, or another one, where groups
and transactions live, by its name; `detail` are its replicas as ID,ID,... or CANCEL. By another random generator some
have fewer replicas than the topic was created with (`reduced`), down to one: fewer may fail then before data are lost.
"""

from random import Random
from typing import Final

import msgspec

from sim.coordination import OFFSETS, SINK, SOURCE, TRANSACTIONS
from sim.plan import Fault, Options
from sim.schedule_entries import add_entries, perhaps_twice

KIND: Final = "reassign"
SHARE: Final = 0.3
"""Share of these among seeds with a spare broker."""
CANCEL: Final = "cancel"
CANCELS: Final = 0.2
EVERY_S: Final = (1.0, 3.0, 6.0)
SOON_S: Final = (0.02, 0.1, 0.4)
"""After which another for the same partition may follow."""
REDUCED_SHARE: Final = 0.5
"""Share of these seeds with fewer replicas than the replication factor."""
REDUCTIONS: Final = 0.4
"""Share of such reassignments in these seeds."""


def add_reassignments(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add them to a seed (`certain`: always), or none."""
    if not certain and (rng.random() >= SHARE or options.brokers < 2):
        return options, faults

    def draw_at(at: float) -> list[Fault]:
        return perhaps_twice(rng, at, SOON_S, lambda when: draw(rng, options, when))

    return add_entries(rng, options, faults, seconds, EVERY_S, draw_at)


def draw(rng: Random, options: Options, at: float) -> Fault:
    """Draw one: the topic's number of replicas, or one more, in any order; or a cancel."""
    target = rng.choice(partitions_of(options))
    if rng.random() < CANCELS:
        return Fault(at=at, kind=KIND, target=target, detail=CANCEL)
    most = min(options.brokers, options.replication_factor + 1)
    replicas = rng.sample(range(1, options.brokers + 1), rng.choice((options.replication_factor, most)))
    return Fault(at=at, kind=KIND, target=target, detail=",".join(map(str, replicas)))


def add_reductions(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add reassignments to fewer replicas to a seed that has some (`certain`: always), or none."""
    if not any(fault.kind == KIND for fault in faults) or (not certain and rng.random() >= REDUCED_SHARE):
        return options, faults
    return options, [_fewer(rng, options, fault) if fault.kind == KIND else fault for fault in faults]


def _fewer(rng: Random, options: Options, fault: Fault) -> Fault:
    """Leave a reassignment the first of its replicas, now and then: fewer than the topic was made with."""
    replicas = fault.detail.split(",")
    if fault.detail == CANCEL or options.replication_factor < 2 or rng.random() >= REDUCTIONS:
        return fault
    kept = replicas[: rng.randint(1, options.replication_factor - 1)]
    return msgspec.structs.replace(fault, detail=",".join(kept))


def partitions_of(options: Options) -> list[str]:
    """Return the partitions that may be reassigned, as targets."""
    found = [str(number) for number in range(options.partitions)]
    drawn = options.coordination
    if drawn is not None:
        counts = {SOURCE: drawn.partitions, SINK: drawn.partitions}
        counts |= {OFFSETS: drawn.offsets_partitions, TRANSACTIONS: drawn.transactions_partitions}
        found += [f"{topic}-{number}" for topic, count in counts.items() for number in range(count)]
    return found
