"""Draws an operator's requests during a seed: entries of its schedule beside the faults. Sans-IO."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import msgspec

from sim.plan import QUIET_START_S, Fault, Options

AGAIN: Final = 0.3
"""Probability that the same is requested again before it can have ended."""


def add_entries(
    rng: Random,
    options: Options,
    faults: list[Fault],
    seconds: float,
    every_s: Sequence[float],
    draw: Callable[[float], list[Fault]],
) -> tuple[Options, list[Fault]]:
    """Return a seed's options and faults with entries about every so many seconds; `draw` gets their times."""
    mean_s = rng.choice(every_s)
    drawn: list[Fault] = []
    at = QUIET_START_S * rng.random()
    while (at := at + mean_s * (0.2 + 1.6 * rng.random())) < seconds:
        drawn += draw(at)
    return merge_entries(options, faults, drawn, seconds)


def merge_entries(
    options: Options, faults: list[Fault], drawn: list[Fault], seconds: float
) -> tuple[Options, list[Fault]]:
    """Return a seed's options and faults with more entries: those that come before its end."""
    drawn = [each for each in drawn if each.at < seconds]
    kinds = sorted({*options.fault_kinds, *(each.kind for each in drawn)})
    return msgspec.structs.replace(options, fault_kinds=kinds), sorted([*faults, *drawn], key=lambda fault: fault.at)


def perhaps_twice(rng: Random, at: float, soon_s: Sequence[float], draw: Callable[[float], Fault]) -> list[Fault]:
    """Draw one, and perhaps another of the same target soon after."""
    found = [draw(round(at, 3))]
    if rng.random() < AGAIN:
        soon = round(at + rng.choice(soon_s) * (0.2 + rng.random()), 3)
        found.append(msgspec.structs.replace(draw(soon), target=found[0].target))
    return found
