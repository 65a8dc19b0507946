"""Adds groups and transactions to a seed's load, and aims some faults at their coordinators.

Sans-IO.

It has its own random generator: seeds without these stay the same, and saved plans replay unchanged.
"""

from random import Random
from typing import Final

import msgspec

from sim.plan import LEADER, QUIET_START_S, Coordination, Fault, Options

SHARE: Final = 0.4
"""Share of seeds with groups and transactions."""
SOURCE: Final = "source"
SINK: Final = "sink"
WORKERS: Final = "workers"
"""The group that makes SINK of SOURCE."""
WATCHERS: Final = "watchers"
OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
AIMED: Final = 0.6
"""Share of faults whose target is a coordinator, or a leader of SOURCE or SINK that must write markers."""
MOMENTS: Final = 0.4
"""Share of these kills that wait for a moment."""
PLACES: Final = ("transaction.prepared", "transaction.markers.answered", "transaction.marked")
TARGETED: Final = frozenset({"kill", "terminate", "power", "pause", "isolate", "cut", "slow", "reset"})
HEARTBEATS_PER_SESSION: Final = 5


def add_coordination(rng: Random, options: Options, faults: list[Fault], seconds: float) -> tuple[Options, list[Fault]]:
    """Add them to a seed, or not."""
    if rng.random() >= SHARE:
        return options, faults
    drawn = draw_coordination(rng)
    there = [aim_fault(rng, drawn, fault) for fault in faults]
    kinds = sorted({*options.fault_kinds, *(fault.kind for fault in there)})
    return msgspec.structs.replace(options, coordination=drawn, fault_kinds=kinds), there


def draw_coordination(rng: Random) -> Coordination:
    """Draw the clients and their options."""
    workers = rng.choice((0, 1, 2, 2, 3))
    return Coordination(
        partitions=rng.choice((1, 2, 3)),
        offsets_partitions=rng.choice((1, 1, 2)),
        transactions_partitions=rng.choice((1, 1, 2)),
        feeders=rng.choice((1, 1, 2)),
        workers=workers,
        watchers=rng.choice((1, 2, 3)) if workers == 0 else rng.choice((0, 0, 1, 2)),
        consumer_protocol=rng.random() < 0.5,
        second_version=rng.random() < 0.6,
        session_ms=rng.choice((1_000, 2_000, 4_000)),
        transaction_timeout_ms=rng.choice((1_500, 4_000, 10_000)),
        abort_share=rng.choice((0.1, 0.1, 0.4)),
        life_s=rng.choice((3.0, 8.0, 1000.0)),
        every_s=rng.choice((0.05, 0.1, 0.3)),
    )


def aim_fault(rng: Random, drawn: Coordination, fault: Fault) -> Fault:
    """Set a fault's target to a coordinator or a marker's leader; or delay it until a moment of a transaction's end."""
    if fault.kind not in TARGETED or fault.at < QUIET_START_S or rng.random() >= AIMED:
        return fault
    if fault.kind == "kill" and rng.random() < MOMENTS:
        return Fault(at=fault.at, kind="moment", length=fault.length, detail=rng.choice(PLACES))
    target = rng.choice(
        (
            f"{LEADER}:{OFFSETS}-{rng.randrange(drawn.offsets_partitions)}",
            f"{LEADER}:{TRANSACTIONS}-{rng.randrange(drawn.transactions_partitions)}",
            f"{LEADER}:{rng.choice((SOURCE, SINK))}-{rng.randrange(drawn.partitions)}",
        )
    )
    return msgspec.structs.replace(fault, target=target, role="broker" if fault.role == "controller" else fault.role)


def configs_of(options: Options) -> dict[str, object]:
    """Return the brokers' configs if there are groups and transactions; empty otherwise."""
    drawn = options.coordination
    if drawn is None:
        return {}
    heartbeat = drawn.session_ms // HEARTBEATS_PER_SESSION
    return {
        "offsets.topic.num.partitions": drawn.offsets_partitions,
        "offsets.topic.replication.factor": options.replication_factor,
        "transaction.state.log.num.partitions": drawn.transactions_partitions,
        "transaction.state.log.replication.factor": options.replication_factor,
        "transaction.state.log.min.isr": options.min_isr,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        "group.initial.rebalance.delay.ms": 100,
        "group.min.session.timeout.ms": 100,
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.session.timeout.ms": drawn.session_ms,
        "group.consumer.min.heartbeat.interval.ms": 10,
        "group.consumer.heartbeat.interval.ms": heartbeat,
        "group.consumer.assignment.interval.ms": 0,
        "log.cleaner.enable": False,
    }
