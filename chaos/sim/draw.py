"""Draws a whole run of a simulated cluster from its seed: options, faults, perhaps a drama and changes. Sans-IO."""

from random import Random

from kvorum.chaos.sim.changes import changing
from kvorum.chaos.sim.dramas import dramatised
from kvorum.chaos.sim.plan import Plan, draw_faults, draw_options


def drawn(seed: int, seconds: float = 60.0) -> Plan:
    """Draw a whole run from its seed. Dramas and changes have chances of their own: without, a seed stays as it was."""
    rng = Random(f"kvorum cluster {seed}")
    options = draw_options(rng)
    faults = draw_faults(rng, options, seconds)
    options, faults = dramatised(Random(f"kvorum drama {seed}"), options, faults, seconds)
    options, faults = changing(Random(f"kvorum changes {seed}"), options, faults, seconds)
    return Plan(seed=seed, seconds=seconds, options=options, faults=faults)
