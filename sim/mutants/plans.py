"""Plans that provoke what drawn ones rarely do: options fixed, all else drawn from the seed. Sans-IO."""

from collections.abc import Sequence
from random import Random
from typing import Final, Protocol

import msgspec

from sim.admin_states import add_admin_states
from sim.coordination import OFFSETS, aim_fault
from sim.directory_moves import add_directory_moves, add_move_throttles
from sim.plan import BROKERS, LEADER, Coordination, Fault, Load, Options, Plan, draw_faults, draw_options
from sim.reassignments import add_reassignments
from sim.scripted_faults import add_fault_script

SECONDS: Final = 20.0
"""Virtual seconds of load and faults."""


class PlanExtras(Protocol):
    """Additional modules of a seed besides load and faults: modules of sim each draw one."""

    def __call__(
        self, rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool
    ) -> tuple[Options, list[Fault]]:
        """Add it to a seed (`certain`: always)."""
        ...


def draw_directed(
    seed: int,
    fixed: dict[str, object],
    load: dict[str, object],
    every_fault: dict[str, object],
    script: str | None = None,
    *,
    seconds: float = SECONDS,
    reassigns: bool = False,
    duties: bool = False,
    moves: bool = False,
    throttles: bool = False,
    extras: Sequence[PlanExtras] = (),
) -> Plan:
    """Draw a plan from its seed with fixed options, load, and parts of every fault.

    With a script (see sim.scripted_faults) there are no other faults; `reassigns`: the topic is reassigned meanwhile;
    `duties`: brokers are in maintenance and decommissioned; `moves`: its replicas move between log
    directories; `throttles`: with throttles; `extras`: other optional parts of a seed, in order.
    """
    rng = Random(f"kvorum mutant {seed}")
    options = draw_options(rng)
    busy: Load = msgspec.structs.replace(options.load, **load)
    options = msgspec.structs.replace(options, **fixed, load=busy)
    faults = draw_faults(rng, options, seconds)
    if options.coordination is not None:
        faults = [aim_fault(rng, options.coordination, fault) for fault in faults]
    faults = [msgspec.structs.replace(fault, **every_fault) for fault in faults]
    if script is not None:
        options, faults = add_fault_script(rng, options, faults, seconds, only=script)
    if reassigns:
        options, faults = add_reassignments(rng, options, faults, seconds, certain=True)
    if duties:
        options, faults = add_admin_states(rng, options, faults, seconds, certain=True)
    if moves:
        options, faults = add_directory_moves(rng, options, faults, seconds, certain=True)
    if throttles:
        options, faults = add_move_throttles(rng, options, faults, seconds, certain=True)
    for extra in extras:
        options, faults = extra(rng, options, faults, seconds, certain=True)
    return Plan(seed=seed, seconds=seconds, options=options, faults=faults)


THREE: Final[dict[str, object]] = {
    "brokers": 3,
    "controllers": 3,
    "combined": False,
    "replication_factor": 3,
    "log_dirs": 1,
    "unclean": False,
}
"""Three brokers that have every partition, apart from the controllers."""

COORDINATED: Final[dict[str, object]] = {
    **THREE,
    "min_isr": 2,
    "partitions": 1,
    "delay_max_s": 0.005,
    "session_timeout_ms": 1_000,
    "heartbeat_interval_ms": 200,
    "fault_kinds": ["kill", "pause", "isolate"],
    "fault_every_s": 1.5,
    "chase": 0.0,
}
"""Three brokers; one at a time, a coordinator or leader, is killed, stopped or cut off; nothing is lost."""

DEPOSED_UNAWARES: Final[dict[str, object]] = {
    "kind": "isolate",
    "target": f"{LEADER}:{OFFSETS}-0",
    "role": "broker",
    "other": BROKERS,
    "ways": "both",
    "length": 1.8,
}
"""A group coordinator is replaced, and notices before its clients time out; they reach it all the time."""


def coordination(**fixed: object) -> Coordination:
    """Return the clients with groups and transactions, except the fixed ones."""
    drawn = Coordination(
        partitions=2,
        offsets_partitions=1,
        transactions_partitions=1,
        feeders=1,
        workers=2,
        watchers=0,
        consumer_protocol=False,
        second_version=True,
        session_ms=1_000,
        transaction_timeout_ms=4_000,
        abort_share=0.2,
        life_s=4.0,
        every_s=0.05,
    )
    return msgspec.structs.replace(drawn, **fixed)
