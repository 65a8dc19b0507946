"""All mutants by name: what each does wrong, how to put it in place, by which means it is looked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kvorum.chaos.mutants import broker, controller
from kvorum.chaos.mutants.patches import Patches
from kvorum.chaos.mutants.plans import THREE

CLUSTER: Final = "cluster"
"""Whole clusters, everything drawn."""
DIRECTED: Final = "directed cluster"
"""Whole clusters, some options fixed: drawn ones rarely or never show it."""
QUORUM: Final = "quorum"
"""The metadata quorum alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A known mistake. `options`, `load` and `every_fault` are what a directed plan fixes."""

    name: str
    apply: Callable[[Patches], None]
    means: str = CLUSTER
    options: dict[str, object] = field(default_factory=dict)
    load: dict[str, object] = field(default_factory=dict)
    every_fault: dict[str, object] = field(default_factory=dict)
    first: int = 1
    """A seed that finds it, for those who have no time to look; the command begins at 1."""

    @property
    def wrong(self) -> str:
        """What the mistake is, in a sentence."""
        return (self.apply.__doc__ or "").split("\n")[0]


ALL: Final = (
    Mutant(name="acknowledge-before-isr", apply=broker.acknowledge_before_isr, first=2),
    Mutant(name="truncate-to-high-watermark", apply=broker.truncate_to_high_watermark, first=2),
    Mutant(
        name="forget-epoch-start-offset",
        apply=broker.forget_epoch_start_offset,
        means=DIRECTED,
        options={
            **THREE,
            "brokers": 4,
            "replication_factor": 4,
            "controllers": 1,
            "partitions": 3,
            "min_isr": 2,
            "elr": False,
            "delay_max_s": 0.1,
            "fast_fencing": True,
            "session_timeout_ms": 1000,
            "heartbeat_interval_ms": 300,
            "lag_time_ms": 500,
            "fetch_wait_ms": 50,
            "fault_kinds": ["pause", "kill", "cut"],
            "fault_every_s": 0.7,
            "chase": 0.1,
        },
        load={"producers": [(-1, False), (-1, True), (-1, False)], "every_s": 0.05, "burst_s": 0.0, "in_flight": 4},
        every_fault={"role": "broker", "length": 0.7},
    ),
    Mutant(name="no-maximal-isr", apply=broker.no_maximal_isr, first=3),
    Mutant(
        name="ignore-broker-epoch",
        apply=broker.ignore_broker_epoch,
        means=DIRECTED,
        options={
            **THREE,
            "min_isr": 1,
            "flush": False,
            "delay_max_s": 0.03,
            "fault_kinds": ["power", "wipe", "slow"],
            "fault_every_s": 0.7,
            "chase": 0.5,
        },
        load={"producers": [(-1, False), (-1, True)], "every_s": 0.05},
    ),
    Mutant(
        name="forget-producer-state",
        apply=broker.forget_producer_state,
        means=DIRECTED,
        options={**THREE, "min_isr": 1, "fault_kinds": ["kill", "reset", "cut", "pause"], "fault_every_s": 0.7},
        load={"producers": [(-1, True), (-1, True)], "every_s": 0.05, "burst_s": 0.0, "in_flight": 4},
        first=4,
    ),
    Mutant(name="ignore-min-isr", apply=broker.ignore_min_isr, first=2),
    Mutant(
        name="unclean-always-on",
        apply=controller.unclean_always_on,
        means=DIRECTED,
        options={
            **THREE,
            "min_isr": 1,
            "elr": False,
            "fault_kinds": ["kill", "cut"],
            "fault_every_s": 0.7,
            "chase": 0.5,
        },
        load={"producers": [(-1, False), (-1, True)], "every_s": 0.05},
        first=4,
    ),
    Mutant(
        name="accept-stale-partition-epoch",
        apply=controller.accept_stale_partition_epoch,
        means=DIRECTED,
        options={
            **THREE,
            "controllers": 1,
            "partitions": 1,
            "min_isr": 1,
            "elr": False,
            "fast_fencing": False,
            "session_timeout_ms": 600,
            "heartbeat_interval_ms": 200,
            "lag_time_ms": 500,
            "delay_max_s": 0.001,
            "fault_kinds": ["pause", "slow"],
            "fault_every_s": 0.7,
            "chase": 0.0,
        },
        load={"producers": [(-1, False), (-1, True)], "every_s": 0.05, "burst_s": 0.0},
        every_fault={"length": 1.0, "role": "broker", "ways": "out", "other": "4", "amount": 0.4},
    ),
    Mutant(
        name="keep-who-fell-eligible",
        apply=controller.keep_who_fell_eligible,
        means=DIRECTED,
        options={
            **THREE,
            "min_isr": 2,
            "elr": True,
            "flush": False,
            "fault_kinds": ["power", "kill"],
            "fault_every_s": 0.7,
            "chase": 0.5,
        },
        load={"producers": [(-1, False), (-1, True)], "every_s": 0.05},
        first=4,
    ),
    Mutant(name="acknowledge-metadata-before-commit", apply=controller.acknowledge_metadata_before_commit, first=6),
    Mutant(name="journal-without-sync", apply=controller.journal_without_sync, means=QUORUM),
    Mutant(name="answer-before-durable", apply=controller.answer_before_durable, means=QUORUM),
    Mutant(name="guard-off", apply=controller.guard_off, means=QUORUM),
    Mutant(name="read-without-round", apply=controller.read_without_round, means=QUORUM, first=54),
)
MUTANTS: Final = {mutant.name: mutant for mutant in ALL}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Have a mutant in place in this process. Raises KeyError: unknown; TargetGone: its target is not there."""
    with Patches() as patches:
        MUTANTS[name].apply(patches)
        yield
