"""Draws a whole run of a simulated cluster from its seed: options, faults, perhaps dramas, changes, more. Sans-IO."""

from random import Random

from sim.changes import changing
from sim.coordinated import coordinated
from sim.dramas import dramatised
from sim.duties import dutiful
from sim.interrupted_starts import interrupting
from sim.levels import releveled
from sim.losing import losing
from sim.moving import moved, throttled
from sim.plan import Plan, draw_faults, draw_options
from sim.quotas import limited
from sim.racks import racked
from sim.reassigning import reassigned, reduced
from sim.throttling import throttled_departures, throttled_reassignments


def drawn(
    seed: int,
    seconds: float = 60.0,
    *,
    coordinators: bool = True,
    reassignments: bool = True,
    duties: bool = True,
    moves: bool = True,
    losses: bool = True,
    quotas: bool = True,
    racks: bool = True,
    throttles: bool = True,
    levels: bool = True,
    starts: bool = True,
) -> Plan:
    """Draw a whole run from its seed. Dramas, changes, coordinators and later additions have their own generators.

    Without them a seed stays the same; `coordinators` to `starts`: whether they are permitted.
    """
    rng = Random(f"kvorum cluster {seed}")
    options = draw_options(rng)
    faults = draw_faults(rng, options, seconds)
    options, faults = dramatised(Random(f"kvorum drama {seed}"), options, faults, seconds)
    options, faults = changing(Random(f"kvorum changes {seed}"), options, faults, seconds)
    if coordinators:
        options, faults = coordinated(Random(f"kvorum coordinators {seed}"), options, faults, seconds)
    if reassignments:
        options, faults = reassigned(Random(f"kvorum reassignments {seed}"), options, faults, seconds)
        options, faults = reduced(Random(f"kvorum reductions {seed}"), options, faults, seconds)
    if duties:
        options, faults = dutiful(Random(f"kvorum duties {seed}"), options, faults, seconds)
    if moves:
        options, faults = moved(Random(f"kvorum moves {seed}"), options, faults, seconds)
        options, faults = throttled(Random(f"kvorum throttled moves {seed}"), options, faults, seconds)
    if losses:
        options, faults = losing(Random(f"kvorum lost directories {seed}"), options, faults, seconds)
    if quotas:
        options, faults = limited(Random(f"kvorum quotas {seed}"), options, faults, seconds)
    if racks:
        options, faults = racked(Random(f"kvorum racks {seed}"), options, faults, seconds)
    if throttles:
        rng = Random(f"kvorum throttled reassignments {seed}")
        options, faults = throttled_reassignments(rng, options, faults, seconds)
        options, faults = throttled_departures(Random(f"kvorum departures {seed}"), options, faults, seconds)
    if levels:
        options, faults = releveled(Random(f"kvorum levels {seed}"), options, faults, seconds)
    if starts:
        options, faults = interrupting(Random(f"kvorum interrupted starts {seed}"), options, faults, seconds)
    return Plan(seed=seed, seconds=seconds, options=options, faults=faults)
