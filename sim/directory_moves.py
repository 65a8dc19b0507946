"""Moves of replicas between log directories of their brokers during a seed (KIP-113).

Sans-IO.

It has its own random generator: seeds without these stay the same, and saved plans replay unchanged. A move is an entry
of the schedule, `move`: `target` is a node and a partition of the topic, NODE:PARTITION; `detail` is the number of the
directory. If the replica is already there, the request cancels a move in progress.

Moves may also be throttled, with another random generator: `move_rate`, of all brokers; `detail` is the limit in bytes
per second, REMOVED removes it. A copy then waits so long that its log is truncated, gets another leader, or is deleted.
"""

from random import Random
from typing import Final

import msgspec

from sim.plan import BROKERS, LEADER, Fault, Options
from sim.schedule_entries import add_entries, perhaps_twice

KIND: Final = "move"
RATE_KIND: Final = "move_rate"
SHARE: Final = 0.6
"""Share of these among seeds with two directories per broker."""
EVERY_S: Final = (0.3, 1.0, 3.0)
SOON_S: Final = (0.005, 0.02, 0.1)
"""After which another for the same replica may follow."""
RATES_SHARE: Final = 0.5
"""Share of throttled ones among seeds with moves."""
RATES_EVERY_S: Final = (3.0, 6.0)
FILES_SHARE: Final = 0.5
"""Share of these that read only files: most logs here are so small that all of them would stay in memory."""
CUTS: Final = 0.6
"""Probability that the rate is part of a scene."""
REMOVED: Final = ""
LOW_RATES: Final = ("2000", "8000", "15000")
RATES: Final = ("0", *LOW_RATES, REMOVED)
"""Below the write rate, about equal, and above: only a copy that completes replaces its log."""


def add_directory_moves(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add them to a seed (`certain`: always), or none."""
    if options.log_dirs < 2 or (not certain and rng.random() >= SHARE):
        return options, faults

    def draw_at(at: float) -> list[Fault]:
        return perhaps_twice(rng, at, SOON_S, lambda when: draw(rng, options, when))

    return add_entries(rng, options, faults, seconds, EVERY_S, draw_at)


def draw(rng: Random, options: Options, at: float) -> Fault:
    """Draw one: any replica, any directory."""
    target = f"{rng.randint(1, options.brokers)}:{rng.randrange(options.partitions)}"
    return Fault(at=at, kind=KIND, target=target, detail=str(rng.randint(1, options.log_dirs)))


def add_move_throttles(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Throttle the moves of a seed that has some (`certain`: always), or not."""
    if not any(fault.kind == KIND for fault in faults) or (not certain and rng.random() >= RATES_SHARE):
        return options, faults

    def draw_at(at: float) -> list[Fault]:
        if rng.random() < CUTS:
            return cut_while_it_waits(rng, options, at)
        return [Fault(at=round(at, 3), kind=RATE_KIND, detail=rng.choice(RATES))]

    options = msgspec.structs.replace(options, reads_files=certain or rng.random() < FILES_SHARE)
    return add_entries(rng, options, faults, seconds, RATES_EVERY_S, draw_at)


def cut_while_it_waits(rng: Random, options: Options, at: float) -> list[Fault]:
    """Draw a leader that is cut off, with a copy of its own records; the copy waits until others have led for a while.

    The leader at that time is unknown here: all replicas of the partition move.
    """
    number = rng.randrange(options.partitions)
    isolated_at = at + 0.1 + 0.2 * rng.random()
    length = options.session_timeout_ms / 1000 + 0.7 + rng.random()
    moved_at = isolated_at + length - 0.1 - 0.6 * rng.random()
    leader, directory = f"{LEADER}:orders-{number}", str(rng.randint(1, options.log_dirs))
    moves = [
        Fault(at=round(moved_at, 3), kind=KIND, target=f"{node}:{number}", detail=directory)
        for node in range(1, options.brokers + 1)
    ]
    freed_at = isolated_at + length + 1.0 + 4.0 * rng.random()
    return [
        Fault(at=round(at, 3), kind=RATE_KIND, detail=rng.choice(LOW_RATES)),
        Fault(at=round(isolated_at, 3), kind="isolate", target=leader, other=BROKERS, length=round(length, 3)),
        *moves,
        Fault(at=round(freed_at, 3), kind=RATE_KIND, detail=REMOVED),
    ]
