"""Sequences of faults that provoke one kind of mistake, which single faults, drawn separately, hardly ever compose.

Each script is a few faults one after another, with drawn times, and the options it needs (brokers, timeouts). A seed
plays at most one of them, again and again, alone or among its ordinary faults. Sans-IO.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from sim.plan import (
    ACTIVE_CONTROLLER,
    BROKERS,
    CLIENTS,
    FOLLOWER,
    LEADER,
    QUIET_START_S,
    Fault,
    Options,
)

SHARE: Final = 0.4
"""Share of seeds with a script."""
ALONE: Final = 0.6
"""Share of these without other faults."""
RECOVERY_S: Final = 2.0
"""Between the end of a play and the next."""

Stage = dict[str, object]
"""Options that a script needs; all others stay as drawn."""


class FaultScript(msgspec.Struct, frozen=True, kw_only=True):
    """The options that a script needs, and its function: (chance, options, begin) -> faults."""

    stage: Callable[[Random, Options], Stage]
    play: Callable[[Random, Options, float], list[Fault]]


def add_fault_script(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, only: str | None = None
) -> tuple[Options, list[Fault]]:
    """Add a script to a seed, or none; `only` is the name of the only script, which is certain."""
    if only is None and rng.random() >= SHARE:
        return options, faults
    name = rng.choice(sorted(FAULT_SCRIPTS)) if only is None else only
    script = FAULT_SCRIPTS[name]
    options = msgspec.structs.replace(options, **script.stage(rng, options))
    others = [] if only is not None or rng.random() < ALONE else faults
    plays: list[Fault] = []
    at = QUIET_START_S * (0.5 + rng.random())
    while at < seconds:
        play = script.play(rng, options, at)
        plays += play
        at = max(fault.at + fault.length for fault in play) + RECOVERY_S * (0.5 + rng.random())
    plays = [msgspec.structs.replace(fault, at=round(fault.at, 3), length=round(fault.length, 3)) for fault in plays]
    plays = [fault for fault in plays if fault.at < seconds]
    kinds = sorted({*(options.fault_kinds if others else ()), *(fault.kind for fault in plays)})
    options = msgspec.structs.replace(options, fault_kinds=kinds)
    return options, sorted([*others, *plays], key=lambda fault: fault.at)


def _replicas(rng: Random, options: Options, least: int) -> Stage:
    """At least this number of replicas, and one of them more than the minimum needs."""
    brokers = max(options.brokers, least)
    replication_factor = max(options.replication_factor, least)
    return {
        "brokers": brokers,
        "replication_factor": replication_factor,
        "min_isr": min(options.min_isr, replication_factor - 1, rng.choice((1, 2))),
    }


def _roles(rng: Random, options: Options) -> tuple[str, str]:
    """Return a partition's leader and one of its followers."""
    partition = f"orders-{rng.randrange(options.partitions)}"
    return f"{LEADER}:{partition}", f"{FOLLOWER}{rng.randint(1, options.replication_factor - 1)}:{partition}"


def _apart(rng: Random, options: Options, least: int) -> Stage:
    """The same, with controllers mostly on their own machines: behind a cut broker there is a controller."""
    return {**_replicas(rng, options, least), "combined": options.combined and rng.random() < 0.2}


# A request of an earlier life.


def _earlier_life(rng: Random, options: Options, at: float) -> list[Fault]:
    """A follower's fetch hangs in the network; it restarts with fewer records, is unfenced; then the old fetch arrives.

    There are no writes meanwhile: otherwise the old fetch would be outdated anyway.
    """
    leader, follower = _roles(rng, options)
    cut_at = at + 0.2 + 0.2 * rng.random()
    dies_at = cut_at + options.fetch_wait_ms / 1000 + 0.3 * rng.random()
    down = 0.1 + 0.2 * rng.random()
    # Without probes it may register only when its earlier session has expired.
    fenced = 0.0 if options.fast_fencing else options.session_timeout_ms / 1000
    until = dies_at + down + fenced + 0.5 + options.heartbeat_interval_ms / 500 + 0.5 * rng.random()
    dies = rng.choice(("wipe", "wipe", "power", "kill"))
    return [
        Fault(at=at, kind="cut", target=leader, other=CLIENTS, length=until + 0.5 - at),
        Fault(at=cut_at, kind="cut", target=follower, other=leader, ways="out", length=until - cut_at),
        Fault(at=dies_at, kind=dies, target=follower, role="broker", length=down, detail="loud"),
    ]


# A proposal arrives twice.


def _late_copy(rng: Random, options: Options, at: float) -> list[Fault]:
    """A leader's ISR change is delayed; it retries, gets an answer, reverts the ISR; then the first copy arrives."""
    leader, follower = _roles(rng, options)
    lag = options.lag_time_ms / 1000
    back_at = at + 1.6 * lag + 0.4
    frozen_at = back_at - 0.02 - 0.1 * rng.random()
    breaks_after = 0.2 + 0.5 * rng.random()
    away_at = frozen_at + breaks_after + 0.2 + 0.4 * rng.random()
    thaw_at = away_at + (1.6 * lag + 0.2) * (0.7 + 0.6 * rng.random())
    away = rng.choice(("cut", "cut", "pause"))
    return [
        Fault(at=at, kind="cut", target=follower, other=leader, ways="out", length=back_at - at),
        Fault(
            at=frozen_at,
            kind="freeze",
            target=leader,
            other=ACTIVE_CONTROLLER,
            ways="out",
            amount=round(breaks_after, 3),
            length=thaw_at - frozen_at,
        ),
        Fault(at=away_at, kind=away, target=follower, other=leader, ways="out", role="broker", length=2.5 * lag + 1.0),
    ]


# A replica that is behind joins a new leader with little state.


def _laggards_stage(rng: Random, options: Options) -> Stage:
    session_ms = rng.choice((600, 1000))
    return {
        **_apart(rng, options, 4),
        "partitions": rng.choice((1, 1, 2)),
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": session_ms // rng.choice((3, 5)),
        "delay_max_s": min(options.delay_max_s, 0.005),
    }


def _laggard(rng: Random, options: Options, at: float) -> list[Fault]:
    """A follower is fenced although it fetches, and misses only the last record before its leader falls silent.

    It is unfenced when another leads, and fetches first: then the new leader does not know yet that the others, which
    know nothing newer, had committed this record.
    """
    partition = f"orders-{rng.randrange(options.partitions)}"
    leader, places = f"{LEADER}:{partition}", list(range(1, options.replication_factor))
    rng.shuffle(places)
    follower, *others = [f"{FOLLOWER}{place}:{partition}" for place in places]
    session = options.session_timeout_ms / 1000
    misses_at = at + session + options.heartbeat_interval_ms / 1000 + 0.3 * rng.random()
    silent_at = misses_at + options.load.every_s * options.partitions * (0.1 + rng.random()) / len(
        options.load.producers
    )
    knows_at = silent_at + 0.3 * session * rng.random()
    away = session + 1.0 + rng.random()
    unfenced = Fault(at=at, kind="cut", target=follower, other=ACTIVE_CONTROLLER, ways="out", length=knows_at - at)
    return [
        unfenced,
        Fault(at=misses_at, kind="cut", target=follower, other=leader, ways="in", length=away),
        *(
            Fault(at=silent_at - 0.001, kind="slow", target=other, other=BROKERS, ways="out", amount=0.2, length=away)
            for other in others
            if rng.random() < 0.8
        ),
        Fault(
            at=silent_at, kind=rng.choice(("isolate", "isolate", "pause")), target=leader, role="broker", length=away
        ),
    ]


# Two leaders, two tails.


def _tails(rng: Random, options: Options, at: float) -> list[Fault]:
    """Leaders append unreplicated records in turn, and each is replaced: several tails to truncate."""
    leader, _ = _roles(rng, options)
    faults: list[Fault] = []
    session = options.session_timeout_ms / 1000
    for _ in range(rng.choice((2, 2, 3))):
        alone = 0.1 + 0.4 * rng.random()
        silence = rng.choice(("isolate", "pause", "kill"))
        length = session + rng.choice((0.5, 1.0, 3.0)) * (0.5 + rng.random())
        faults += [
            Fault(at=at, kind="cut", target=leader, other=BROKERS, ways="in", length=alone + length),
            Fault(at=at + alone, kind=silence, target=leader, role="broker", length=length),
        ]
        at += alone + session + rng.choice((0.1, 0.5, 1.0)) * (0.5 + rng.random())
    return faults


# Anything hangs.


def _stalled_connections(rng: Random, options: Options, at: float) -> list[Fault]:
    """Connections stall and may be closed, on any node; their senders may die meanwhile."""
    leader, follower = _roles(rng, options)
    target = rng.choice((leader, leader, follower, ACTIVE_CONTROLLER))
    other = rng.choice((ACTIVE_CONTROLLER, ACTIVE_CONTROLLER, leader, follower, BROKERS, CLIENTS))
    length = rng.choice((0.5, 1.5, 4.0)) * (0.5 + rng.random())
    faults = [
        Fault(
            at=at,
            kind="freeze",
            target=target,
            other=other,
            ways=rng.choice(("in", "out", "out", "both")),
            amount=round(rng.choice((0.0, 0.1, 0.6)) * (0.5 + rng.random()), 3),
            length=length,
        )
    ]
    if rng.random() < 0.6:
        kind = rng.choice(("kill", "kill", "pause", "cut", "reset", "terminate"))
        when = at + length * 0.6 * rng.random()
        down = 0.1 + 0.4 * rng.random()
        faults.append(Fault(at=when, kind=kind, target=target, other=other, role="broker", length=down))
    return faults


FAULT_SCRIPTS: Final[dict[str, FaultScript]] = {
    "earlier life": FaultScript(stage=lambda rng, options: _apart(rng, options, 3), play=_earlier_life),
    "late copy": FaultScript(
        stage=lambda rng, options: {**_apart(rng, options, 3), "lag_time_ms": rng.choice((500, 500, 1000))},
        play=_late_copy,
    ),
    "laggard": FaultScript(stage=_laggards_stage, play=_laggard),
    "tails": FaultScript(stage=lambda rng, options: _replicas(rng, options, 3), play=_tails),
    "hanging": FaultScript(stage=lambda rng, options: _replicas(rng, options, 2), play=_stalled_connections),
}
