"""Operator's changes of a running cluster, drawn separately from the faults of a seed. Sans-IO.

A change is an entry of the plan's schedule like a fault, so it is reported, counted, saved, replayed and shrunk like
one. Kinds and parameters have their own random generator: seeds without changes stay the same.

    min_isr, unclean     of the topic or of all brokers: `detail` is the value
    retention, segment   of the topic: `detail` is key=value
    delete_records       `target` is the partition; `amount` is the share of the existing records, or HIGH_WATERMARK
    grow                 one more partition
    elr                  `detail` is the level of eligible.leader.replicas.version
    quota                of every client id, or of the one user: `detail` is key=value, key= removes it
    unregister           of a broker that a preceding fault has stopped, and that returns; or of one that is ALIVE
"""

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from sim.plan import LOSSY_KINDS, QUIET_START_S, Fault, Options

SHARE: Final = 0.5
"""Share of seeds with changes."""
KINDS: Final = (
    *("min_isr", "min_isr", "unclean", "retention", "retention", "segment", "delete_records", "delete_records"),
    *("grow", "elr", "unregister", "unregister", "quota"),
)
"""The kinds from which a seed draws; repeated kinds are more likely."""
DEATHS: Final = ("kill", "kill", "terminate", "power", "wipe", "wipe")
ALIVE: Final = "alive"
"""An operator's mistake: the broker runs."""
HIGH_WATERMARK: Final = -1.0
"""DeleteRecords' offset -1."""
EVERY_S: Final = (1.0, 3.0, 6.0)
RETENTION_CHECK_MS: Final = (500, 2_000)
RETENTIONS: Final = (
    *("retention.ms=300", "retention.ms=2000", "retention.ms=8000", "retention.ms=-1"),
    *("retention.bytes=0", "retention.bytes=2000", "retention.bytes=10000", "retention.bytes=-1"),
)
SEGMENTS: Final = (
    *("segment.ms=200", "segment.ms=2000", "segment.ms=1000000"),
    *("internal.segment.bytes=200", "internal.segment.bytes=2000", "internal.segment.bytes=1000000"),
)
QUOTAS: Final = (
    *("producer_byte_rate=5000", "producer_byte_rate=50000", "producer_byte_rate="),
    *("consumer_byte_rate=50000", "consumer_byte_rate="),
)
"""Bytes per second: even with the smallest, delayed data are written in time."""


def add_changes(rng: Random, options: Options, faults: list[Fault], seconds: float) -> tuple[Options, list[Fault]]:
    """Add changes to a seed, or none."""
    if rng.random() >= SHARE:
        return options, faults
    kinds = sorted(set(rng.sample(KINDS, rng.randint(1, 5))))
    if "retention" in kinds or "delete_records" in kinds:
        # Retention deletes only rolled segments.
        kinds = sorted({*kinds, "segment"})
    every_s = rng.choice(EVERY_S)
    changes: list[Fault] = []
    at = QUIET_START_S * rng.random()
    while (at := at + every_s * (0.2 + 1.6 * rng.random())) < seconds:
        changes += DRAWN[rng.choice(kinds)](rng, options, round(at, 3))
    changes = [change for change in changes if change.at < seconds]
    options = msgspec.structs.replace(
        options,
        fault_kinds=sorted({*options.fault_kinds, *(change.kind for change in changes)}),
        retention_check_ms=rng.choice(RETENTION_CHECK_MS),
        checkpoint_starts_ms=rng.choice((500, 60_000)),
    )
    return options, sorted([*faults, *changes], key=lambda fault: fault.at)


def _scope(rng: Random) -> str:
    return rng.choice(("topic", "topic", "cluster"))


def _min_isr(rng: Random, options: Options, at: float) -> list[Fault]:
    value = rng.randint(1, min(3, options.replication_factor))
    return [Fault(at=at, kind="min_isr", target=_scope(rng), detail=str(value))]


def _unclean(rng: Random, options: Options, at: float) -> list[Fault]:
    return [Fault(at=at, kind="unclean", target=_scope(rng), detail=rng.choice(("true", "false", "false")))]


def _retention(rng: Random, options: Options, at: float) -> list[Fault]:
    return [Fault(at=at, kind="retention", detail=rng.choice(RETENTIONS))]


def _segment(rng: Random, options: Options, at: float) -> list[Fault]:
    return [Fault(at=at, kind="segment", detail=rng.choice(SEGMENTS))]


def _delete_records(rng: Random, options: Options, at: float) -> list[Fault]:
    share = round(rng.choice((0.5, 0.5, 1.0)) * rng.random(), 3)
    up_to = rng.choice((share, share, HIGH_WATERMARK))
    return [Fault(at=at, kind="delete_records", target=str(rng.randrange(options.partitions)), amount=up_to)]


def _grow(rng: Random, options: Options, at: float) -> list[Fault]:
    return [Fault(at=at, kind="grow")]


def _elr(rng: Random, options: Options, at: float) -> list[Fault]:
    return [Fault(at=at, kind="elr", detail=rng.choice(("0", "1")))]


def _quota(rng: Random, options: Options, at: float) -> list[Fault]:
    return [Fault(at=at, kind="quota", target=rng.choice(("client-id", "user")), detail=rng.choice(QUOTAS))]


def _unregister(rng: Random, options: Options, at: float) -> list[Fault]:
    """Mostly after its session is over, sometimes while the cluster still takes it for alive."""
    node, session_s = str(rng.randint(1, options.brokers)), options.session_timeout_ms / 1000
    if rng.random() < 0.15:
        return [Fault(at=at, kind="unregister", target=node, detail=ALIVE)]
    kind = rng.choice([kind for kind in DEATHS if kind not in LOSSY_KINDS or LOSSY_KINDS & {*options.fault_kinds}])
    after = round(rng.choice((0.05, session_s + 0.2, session_s + 1.0)) * (0.5 + rng.random()), 3)
    away = round(after + 0.02 + rng.choice((0.05, 0.5, 3.0)) * rng.random(), 3)
    return [
        Fault(at=at, kind=kind, target=node, role="broker", length=away, detail="loud"),
        Fault(at=round(at + after, 3), kind="unregister", target=node),
    ]


DRAWN: Final[dict[str, Callable[[Random, Options, float], list[Fault]]]] = {
    "min_isr": _min_isr,
    "unclean": _unclean,
    "retention": _retention,
    "segment": _segment,
    "delete_records": _delete_records,
    "grow": _grow,
    "elr": _elr,
    "quota": _quota,
    "unregister": _unregister,
}
"""(chance, options, when) -> one change of each kind, with the death that comes before it."""
