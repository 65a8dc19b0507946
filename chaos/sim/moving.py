"""Lets a seed have replicas move between the log directories of their brokers while it runs (KIP-113). Sans-IO.

What is drawn here has a chance of its own: a seed without is as it was, and plans that were saved replay as they are.
A move is an entry of the schedule, `move`: `target` is a node and a partition of the topic, NODE:PARTITION; `detail` is
the number of the directory. Where the replica lies there already the request takes back a move that is under way.
"""

from random import Random
from typing import Final

import msgspec

from kvorum.chaos.sim.plan import QUIET_START_S, Fault, Options

KIND: Final = "move"
SHARE: Final = 0.6
"""How many seeds with two directories a broker have them."""
AGAIN: Final = 0.3
"""How likely another for the same replica follows before the first can be over."""
EVERY_S: Final = (0.3, 1.0, 3.0)


def moved(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Let a seed have them (`certain`ly), or none."""
    if options.log_dirs < 2 or (not certain and rng.random() >= SHARE):
        return options, faults
    every_s = rng.choice(EVERY_S)
    drawn: list[Fault] = []
    at = QUIET_START_S * rng.random()
    while (at := at + every_s * (0.2 + 1.6 * rng.random())) < seconds:
        drawn.append(draw(rng, options, round(at, 3)))
        if rng.random() < AGAIN:
            soon = round(at + rng.choice((0.005, 0.02, 0.1)) * (0.2 + rng.random()), 3)
            drawn.append(msgspec.structs.replace(draw(rng, options, soon), target=drawn[-1].target))
    drawn = [each for each in drawn if each.at < seconds]
    kinds = sorted({*options.fault_kinds, KIND}) if drawn else options.fault_kinds
    return msgspec.structs.replace(options, fault_kinds=kinds), sorted([*faults, *drawn], key=lambda fault: fault.at)


def draw(rng: Random, options: Options, at: float) -> Fault:
    """Draw one: any replica, any directory."""
    target = f"{rng.randint(1, options.brokers)}:{rng.randrange(options.partitions)}"
    return Fault(at=at, kind=KIND, target=target, detail=str(rng.randint(1, options.log_dirs)))
