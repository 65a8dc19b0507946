"""Draws a whole run of a simulated cluster from its seed: options, faults, perhaps scripts, changes, more. Sans-IO."""

from random import Random

from sim.admin_states import add_admin_states
from sim.changes import add_changes
from sim.coordination import add_coordination
from sim.directory_moves import add_directory_moves, add_move_throttles
from sim.interrupted_starts import add_interrupted_starts
from sim.levels import add_feature_levels
from sim.log_dir_failures import add_log_dir_failures
from sim.plan import Plan, draw_faults, draw_options
from sim.quotas import add_quotas
from sim.racks import add_racks
from sim.reassignment_throttles import add_departure_throttles, add_reassignment_throttles
from sim.reassignments import add_reassignments, add_reductions
from sim.scripted_faults import add_fault_script


def draw_plan(
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
    options, faults = add_fault_script(Random(f"kvorum drama {seed}"), options, faults, seconds)
    options, faults = add_changes(Random(f"kvorum changes {seed}"), options, faults, seconds)
    if coordinators:
        options, faults = add_coordination(Random(f"kvorum coordinators {seed}"), options, faults, seconds)
    if reassignments:
        options, faults = add_reassignments(Random(f"kvorum reassignments {seed}"), options, faults, seconds)
        options, faults = add_reductions(Random(f"kvorum reductions {seed}"), options, faults, seconds)
    if duties:
        options, faults = add_admin_states(Random(f"kvorum duties {seed}"), options, faults, seconds)
    if moves:
        options, faults = add_directory_moves(Random(f"kvorum moves {seed}"), options, faults, seconds)
        options, faults = add_move_throttles(Random(f"kvorum throttled moves {seed}"), options, faults, seconds)
    if losses:
        options, faults = add_log_dir_failures(Random(f"kvorum lost directories {seed}"), options, faults, seconds)
    if quotas:
        options, faults = add_quotas(Random(f"kvorum quotas {seed}"), options, faults, seconds)
    if racks:
        options, faults = add_racks(Random(f"kvorum racks {seed}"), options, faults, seconds)
    if throttles:
        rng = Random(f"kvorum throttled reassignments {seed}")
        options, faults = add_reassignment_throttles(rng, options, faults, seconds)
        options, faults = add_departure_throttles(Random(f"kvorum departures {seed}"), options, faults, seconds)
    if levels:
        options, faults = add_feature_levels(Random(f"kvorum levels {seed}"), options, faults, seconds)
    if starts:
        options, faults = add_interrupted_starts(Random(f"kvorum interrupted starts {seed}"), options, faults, seconds)
    return Plan(seed=seed, seconds=seconds, options=options, faults=faults)
