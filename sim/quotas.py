"""Quotas of every kind set, changed and removed during a seed (KIP-124, 599, 612).

Sans-IO.

It has its own random generator: seeds without these stay the same, and saved plans replay unchanged. A quota is an
entry of the schedule, `quota`, like those of bytes (see changes): `target` is client-id, user or ip, `other` its name
(empty: the default; there is one user), `detail` key=value, and key= removes it.

A handler takes no virtual time, so a request's loop time is simulated: see throttles.Costs. Invariants:
see throttles and quota_probe.
"""

from random import Random
from typing import Final

import msgspec

from kvorum.network.ip_rates import CONNECTION_CREATION_RATE
from kvorum.network.quota_entities import CLIENT_ID, IP, USER
from kvorum.network.quotas import CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from sim.plan import Fault, Options
from sim.schedule_entries import add_entries

KIND: Final = "quota"
SHARE: Final = 0.25
"""Share of seeds with them."""
EVERY_S: Final = (1.0, 3.0, 6.0)
TIMED: Final = 0.5
"""Share of these whose requests cost loop time."""
COSTS_MS: Final = (0.5, 2.0, 8.0)
OLDER: Final = 0.5
"""Share with an admin that does not support THROTTLING_QUOTA_EXCEEDED: its requests are executed and throttled."""
REMOVED: Final = 0.25
CLIENTS: Final = ("", "", "admin", "producer-1", "consumer-1")
ADDRESSES: Final = ("", "10.0.1.2", "10.0.1.3", "10.0.1.4")
"""Machines of clients; the brokers among themselves use "", as in Kafka."""
VALUES: Final = {
    PRODUCER_BYTE_RATE: ("5000", "50000"),
    CONSUMER_BYTE_RATE: ("50000",),
    REQUEST_PERCENTAGE: ("0.5", "2", "10"),
    CONTROLLER_MUTATION_RATE: ("0.2", "1", "5"),
    CONNECTION_CREATION_RATE: ("1", "3", "20"),
}
"""A value that throttles, and one that hardly ever does; even with the smallest all delayed requests end in time."""


def add_quotas(
    rng: Random, options: Options, faults: list[Fault], seconds: float, *, certain: bool = False
) -> tuple[Options, list[Fault]]:
    """Add them to a seed (`certain`: always, with loop time), or none."""
    if not certain and rng.random() >= SHARE:
        return options, faults
    options = msgspec.structs.replace(
        options,
        request_cost_ms=rng.choice(COSTS_MS) if certain or rng.random() < TIMED else 0.0,
        older_admin=rng.random() < OLDER,
        probes_quotas=True,
    )
    return add_entries(rng, options, faults, seconds, EVERY_S, lambda at: [draw(rng, options, round(at, 3))])


def draw(rng: Random, options: Options, at: float) -> Fault:
    """Draw one."""
    target = rng.choice((CLIENT_ID, CLIENT_ID, USER, IP))
    key, other = CONNECTION_CREATION_RATE, ""
    if target != IP:
        timed = (REQUEST_PERCENTAGE,) * 3 if options.request_cost_ms else ()
        key = rng.choice((*timed, CONTROLLER_MUTATION_RATE, CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE))
        key = CONSUMER_BYTE_RATE if key == PRODUCER_BYTE_RATE and rng.random() < 0.5 else key
    if target != USER:
        other = rng.choice(ADDRESSES if target == IP else CLIENTS)
    value = "" if rng.random() < REMOVED else rng.choice(VALUES[key])
    return Fault(at=at, kind=KIND, target=target, other=other, detail=f"{key}={value}")
