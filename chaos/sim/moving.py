"""Lets a seed have replicas move between the log directories of their brokers while it runs (KIP-113). Sans-IO.

What is drawn here has a chance of its own: a seed without is as it was, and plans that were saved replay as they are.
A move is an entry of the schedule, `move`: `target` is a node and a partition of the topic, NODE:PARTITION; `detail` is
the number of the directory. Where the replica lies there already the request takes back a move that is under way.
"""

from random import Random
from typing import Final

from kvorum.chaos.sim.entries import perhaps_twice, with_entries
from kvorum.chaos.sim.plan import Fault, Options

KIND: Final = "move"
SHARE: Final = 0.6
"""How many seeds with two directories a broker have them."""
EVERY_S: Final = (0.3, 1.0, 3.0)
SOON_S: Final = (0.005, 0.02, 0.1)
"""After which another for the same replica may follow."""


def moved(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Let a seed have them (`certain`ly), or none."""
    if options.log_dirs < 2 or (not certain and rng.random() >= SHARE):
        return options, faults

    def drawn(at: float) -> list[Fault]:
        return perhaps_twice(rng, at, SOON_S, lambda when: draw(rng, options, when))

    return with_entries(rng, options, faults, seconds, EVERY_S, drawn)


def draw(rng: Random, options: Options, at: float) -> Fault:
    """Draw one: any replica, any directory."""
    target = f"{rng.randint(1, options.brokers)}:{rng.randrange(options.partitions)}"
    return Fault(at=at, kind=KIND, target=target, detail=str(rng.randint(1, options.log_dirs)))
