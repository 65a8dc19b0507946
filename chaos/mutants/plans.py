"""Plans that provoke what drawn ones rarely do: options fixed, all else drawn from the seed. Sans-IO."""

from random import Random
from typing import Final

import msgspec

from kvorum.chaos.sim.dramas import dramatised
from kvorum.chaos.sim.plan import Load, Plan, draw_faults, draw_options

SECONDS: Final = 20.0
"""Virtual seconds of load and faults."""


def directed(
    seed: int,
    fixed: dict[str, object],
    load: dict[str, object],
    every_fault: dict[str, object],
    drama: str | None = None,
) -> Plan:
    """Draw a plan from its seed with some options, some of its load, and some of every fault fixed.

    With a drama (see chaos.sim.dramas) its faults are all there are.
    """
    rng = Random(f"kvorum mutant {seed}")
    options = draw_options(rng)
    busy: Load = msgspec.structs.replace(options.load, **load)
    options = msgspec.structs.replace(options, **fixed, load=busy)
    faults = [msgspec.structs.replace(fault, **every_fault) for fault in draw_faults(rng, options, SECONDS)]
    if drama is not None:
        options, faults = dramatised(rng, options, faults, SECONDS, only=drama)
    return Plan(seed=seed, seconds=SECONDS, options=options, faults=faults)


THREE: Final[dict[str, object]] = {
    "brokers": 3,
    "controllers": 3,
    "combined": False,
    "replication_factor": 3,
    "log_dirs": 1,
    "unclean": False,
}
"""Three brokers that have every partition, apart from the controllers."""
