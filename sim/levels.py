"""Changes the feature levels of groups and transactions during a seed (KIP-584).

Sans-IO.

It has its own random generator: seeds without these stay the same, and saved plans replay unchanged. A change is an
entry of the schedule, `feature`: `target` is the feature, `detail` its level. Each goes down and, mostly, up again.
Producers check the level before each transaction, as clients do; members retry an unsupported protocol until it is
available again.
"""

from random import Random
from typing import Final

import msgspec

from kvorum.quorum.controller.features import SUPPORTED
from kvorum.quorum.image.features import GROUP_VERSION, TRANSACTION_VERSION
from sim.plan import Fault, Options
from sim.schedule_entries import add_entries

KIND: Final = "feature"
SHARE: Final = 0.4
"""Share of these among seeds with groups and transactions."""
FEATURES: Final = (TRANSACTION_VERSION, TRANSACTION_VERSION, GROUP_VERSION)
EVERY_S: Final = (3.0, 6.0)
LENGTHS_S: Final = (0.05, 0.5, 3.0)
FOR_GOOD: Final = 0.1
"""Probability that it stays lowered."""


def add_feature_levels(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add it to a seed with groups and transactions (`certain`: always), or not."""
    if options.coordination is None or (not certain and rng.random() >= SHARE):
        return options, faults
    coordination = msgspec.structs.replace(options.coordination, heeds_levels=True)
    options = msgspec.structs.replace(options, coordination=coordination)
    return add_entries(rng, options, faults, seconds, EVERY_S, lambda at: draw(rng, round(at, 3)))


def draw(rng: Random, at: float) -> list[Fault]:
    """Draw how one goes down and up again."""
    feature = rng.choice(FEATURES)
    highest = SUPPORTED[feature].max_supported
    down = Fault(at=at, kind=KIND, target=feature, detail=str(rng.randrange(highest)))
    if rng.random() < FOR_GOOD:
        return [down]
    after = rng.choice(LENGTHS_S) * (0.3 + 1.4 * rng.random())
    return [down, Fault(at=round(at + after, 3), kind=KIND, target=feature, detail=str(highest))]
