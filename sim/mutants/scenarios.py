"""Short scenarios that detect mutants on real processes. The unmodified code passes them.

Times are those of the `fast` profile: sessions of 3 s, replica lag of 2 s, immediate fencing on refused connections.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from kvorum.chaos.scenario.files import find
from kvorum.chaos.scenario.models import Scenario
from kvorum.runtime.config_checks import RACK_AWARE_SELECTOR

BASE: Final[Mapping[str, Any]] = {
    "cluster": {"combined": False, "brokers": 3, "controllers": 1, "network": "plain"},
    "topics": {"orders": {"replication_factor": 3, "configs": {"min.insync.replicas": 2}}},
    "workload": [{"kind": "send", "count": 2, "rate": 60, "in_flight": 3000}],
    "quiet_start": 1,
    "quiet_end": 0.5,
    "duration": 8,
    "expect": {"loss": "none", "acked_min": 20},
}
PATIENT: Final[Mapping[str, str]] = {"broker.session.timeout.ms": "9000", "replica.lag.time.max.ms": "10000"}
"""No replica leaves an ISR by silence while a busy machine reaches the next step."""
PROXIES: Final[Mapping[str, Any]] = {**BASE["cluster"], "network": "proxies", "configs": PATIENT}
MIN_ISR_1: Final[Mapping[str, Any]] = {"orders": {"replication_factor": 3, "configs": {"min.insync.replicas": 1}}}
ALONE: Final[Mapping[str, Any]] = {"do": "wait", "until": {"isr": {"orders-0": 1}}}

CELLS_OF_REPLICATION: Final[Mapping[str, Mapping[str, Any]]] = {
    "acknowledge-before-isr": {
        "title": "The follower is paused for a second, less than the lag limit; then the leader is killed",
        "cluster": {**BASE["cluster"], "brokers": 2, "configs": PATIENT},
        "topics": {"orders": {"replication_factor": 2, "configs": {"min.insync.replicas": 1}}},
        "steps": [
            {"at": 1, "do": "pause", "target": "followers orders-0", "as": "asleep"},
            {"after": 1, "do": "kill", "target": "leader orders-0", "as": "old"},
            {"do": "resume", "target": "asleep"},
            {"after": 1, "do": "start", "target": "old"},
        ],
    },
    "ignore-min-isr": {
        "title": "The followers are paused until the leader is alone in the ISR; it is killed; they resume, eligible",
        "steps": [
            {"at": 1, "do": "pause", "target": "followers orders-0", "as": "asleep"},
            ALONE,
            {"after": 1, "do": "kill", "target": "leader orders-0", "as": "old"},
            {"do": "resume", "target": "asleep"},
            {"do": "wait", "until": {"leader": {"orders-0": "some"}}},
            {"after": 1, "do": "start", "target": "old"},
        ],
    },
    "unclean-always-on": {
        "title": "The followers are paused until the leader is alone in the ISR (min ISR 1); it is killed, they resume",
        "topics": MIN_ISR_1,
        "steps": [
            {"at": 1, "do": "pause", "target": "followers orders-0", "as": "asleep"},
            ALONE,
            {"after": 1, "do": "kill", "target": "leader orders-0", "as": "old"},
            {"do": "resume", "target": "asleep"},
            {"after": 2, "do": "start", "target": "old"},
        ],
    },
    "drop-before-in-sync": {
        "title": "The partition moves to two other brokers; the old replicas leave once the new ones have all records",
        "cluster": {**BASE["cluster"], "combined": True, "brokers": 4, "configs": PATIENT},
        "topics": {"orders": {"replication_factor": 2, "configs": {"min.insync.replicas": 1}}},
        "steps": [
            {"at": 1, "do": "reassign", "partition": "orders-0", "replicas": ["not in-sync orders-0"]},
            {"do": "wait", "until": {"reassigned": ["orders-0"]}},
            {"do": "window", "for": 1, "as": "moved", "acked": "some"},
        ],
    },
    "truncate-to-high-watermark": {
        "title": "One follower fetches from the other, is cut off from it, and becomes leader right after",
        "cluster": PROXIES,
        "workload": [{"kind": "send", "count": 2, "rate": 15, "in_flight": 3000}],
        "steps": [
            {"at": 2, "do": "cut", "target": "follower 1 orders-0/broker", "to": "follower 2 orders-0/broker"},
            {"after": 0.5, "do": "kill", "target": "leader orders-0", "as": "first"},
            {"do": "wait", "until": {"leader": {"orders-0": "not first"}}},
            {"do": "kill", "target": "leader orders-0", "as": "second"},
            {"do": "wait", "until": {"leader": {"orders-0": "not second"}}},
            {"after": 1, "do": "heal"},
            {"do": "start"},
        ],
    },
    "journal-without-sync": {
        "title": "The only controller is killed right after an election: its metadata log still has the election",
        "recovery": 20,
        "steps": [
            {"at": 1, "do": "kill", "target": "leader orders-0", "as": "first"},
            {"do": "wait", "until": {"leader": {"orders-0": "not first"}}},
            {"do": "kill", "target": "controller-1"},
            {"after": 1, "do": "start", "target": "controller-1"},
        ],
    },
    "forget-producer-state": {
        "title": "Acknowledgements are lost, the leader is killed; producers send the records to the next leader again",
        "cluster": PROXIES,
        "steps": [
            {"at": 1, "do": "lose-responses", "target": "clients", "to": "leader orders-0/broker"},
            {"after": 1, "do": "kill", "target": "leader orders-0", "as": "old"},
            {"after": 0.5, "do": "heal"},
            {"after": 1, "do": "start", "target": "old"},
        ],
    },
}

CELLS_OF_CLIENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "show-above-high-watermark": {
        "title": "A follower is cut off, readers use the other; this one and the leader are killed; the first leads",
        "cluster": {
            **PROXIES,
            "configs": {**PATIENT, "replica.selector.class": RACK_AWARE_SELECTOR},
            "node_configs": {f"broker-{number}": {"broker.rack": f"rack-{number}"} for number in (1, 2, 3)},
        },
        "workload": [
            {"kind": "send", "count": 3, "rate": 60, "in_flight": 3000},
            *({"kind": "assign", "rack": f"rack-{number}", "crash_every": None} for number in (1, 2, 3)),
        ],
        "steps": [
            {"at": 2, "do": "cut", "target": "leader orders-0/broker", "to": "follower 2 orders-0/broker"},
            {"after": 1.5, "do": "kill", "target": ["leader orders-0", "follower 1 orders-0"], "as": "dead"},
            {"do": "heal"},
            {"after": 1, "do": "start", "target": "dead"},
        ],
    },
}

COORDINATED: Final[Mapping[str, Any]] = {
    "cluster": {
        **BASE["cluster"],
        "configs": {
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "group.initial.rebalance.delay.ms": "300",
        },
    },
    "steps": [{"at": 1, "do": "wait", "until": {"healthy": True}}],
}
BANK: Final[Mapping[str, Any]] = {
    **COORDINATED,
    "topics": {"accounts": {"partitions": 3, "replication_factor": 3}},
    "workload": [
        {"kind": "bank", "count": 2, "rate": 20, "abort": 0.4, "timeout": 6},
        {"kind": "assign", "count": 2, "crash_every": None},
    ],
}

CELLS_OF_COORDINATORS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ignore-last-stable-offset": {"title": "Transactions, many of them aborted, with concurrent readers", **BANK},
    "forget-aborted": {"title": "Transactions, many of them aborted, with concurrent readers", **BANK},
    "rebalance-without-waiting": {
        **COORDINATED,
        "title": "Members join and leave a group",
        "topics": {"orders": {"partitions": 6, "replication_factor": 3}},
        "workload": [
            {"kind": "send", "rate": 60},
            {"kind": "subscribe", "group_id": "readers", "count": 3, "leave_every": 4},
        ],
    },
}
CELLS: Final[Mapping[str, Mapping[str, Any]]] = {
    **CELLS_OF_REPLICATION,
    **CELLS_OF_CLIENTS,
    **CELLS_OF_COORDINATORS,
}

SHIPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "ignore-broker-epoch": ("regressions/replaced-disk",),
    "ignore-min-isr": ("regressions/shrunk-to-leader", "secure-n-minus-one/rf3-min3"),
    "unclean-always-on": ("regressions/zombie-alone",),
    "keep-high-watermark-at-shrink": ("regressions/acks-after-shrink",),
    "join-below-min-isr": ("regressions/flap-below-min",),
    "truncate-to-high-watermark": ("regressions/silent-elections",),
    "forget-epoch-start-offset": ("regressions/late-watermark",),
    "forget-producer-state": ("regressions/late-requests",),
    "duplicate-at-log-end": ("regressions/lost-acks",),
    "disk-error-unknown": ("regressions/failing-disk",),
    "unreadable-above-high-watermark": ("regressions/known-places",),
    "isolated-leader-stays": ("controller-partition",),
    "vouch-for-a-lost-directory": ("lost-directory",),
    "stay-in-a-failed-directory": ("failing-directory",),
    "tell-without-holding": ("quotas",),
    "accept-expired-certificates": ("expired-cert/running",),
    "forget-keys-of-issuers": ("jwks-unreachable/running",),
}
"""{mutant: shipped scenarios that have to fail with it}: a regression that holds with its bug shows nothing."""
SHOWN: Final = tuple(dict.fromkeys([*CELLS, *SHIPPED]))
"""All mutants that some scenario shows."""


def scenarios_of(name: str) -> list[Scenario]:
    """Return every scenario for a mutant: its own, and the shipped ones. Raises KeyError: there is none."""
    own = [scenario_of(name)] if name in CELLS or name not in SHIPPED else []
    return own + [cell for shipped in SHIPPED.get(name, ()) for cell in find(shipped)]


def scenario_of(name: str) -> Scenario:
    """Return a mutant's own scenario. Raises KeyError: it has none."""
    content = {"name": f"mutants/{name}", **BASE, **CELLS[name]}
    # As JSON: strict, and yet lists are tuples there; texts as Kafka spells them.
    return Scenario.model_validate_json(json.dumps(content))
