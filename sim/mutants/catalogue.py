"""All mutants by name: the mistake of each, how to apply it, and the tests that look for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from sim.log_dir_failures import add_log_dir_failures
from sim.mutants import (
    broker,
    controller,
    coordinators,
    directories,
    duties,
    quotas,
    racks,
    secure_lab,
    security,
    voters,
)
from sim.mutants.patches import Patches
from sim.mutants.plans import COORDINATED, DEPOSED_UNAWARES, SECONDS, THREE, PlanExtras, coordination
from sim.quorum_options import address_change_options, membership_options, upgrade_options
from sim.quotas import add_quotas
from sim.racks import add_racks
from sim.reassignment_throttles import add_departure_throttles, add_reassignment_throttles
from sim.reassignments import add_reductions

CLUSTER: Final = "cluster"
"""Whole clusters, everything drawn."""
DIRECTED: Final = "directed cluster"
"""Whole clusters, some options fixed: drawn ones rarely or never show it."""
QUORUM: Final = "quorum"
"""The metadata quorum alone."""
PROCESSES: Final = "real processes"
"""Only scenarios on real processes: no simulation detects it."""
UNIT: Final = "unit test"
"""A unit test, `witness`: simulated clusters have no such part."""

COORDINATED_S: Final = 10.0
"""Virtual seconds of a run with groups and transactions: they make far more requests than plain producers."""
READERS: Final[dict[str, object]] = {"workers": 0, "watchers": 3}
CONSUMER: Final[dict[str, object]] = {"consumer_protocol": True}
REPLACED: Final[dict[str, object]] = {
    "workers": 0,
    "feeders": 2,
    "partitions": 3,
    "second_version": False,
    "life_s": 1.0,
}
"""Producers that another replaces all the time, and whose epoch no end of a transaction changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A known mistake. `options`, `load`, `every_fault` and `script` are the fixed parts of a directed plan."""

    name: str
    apply: Callable[[Patches], None]
    means: str = CLUSTER
    options: dict[str, object] = field(default_factory=dict)
    load: dict[str, object] = field(default_factory=dict)
    every_fault: dict[str, object] = field(default_factory=dict)
    script: str | None = None
    """The one that is played, without other faults: drawn plans play it in a seed of twelve."""
    reassigns: bool = False
    """Whether replicas move to other brokers in the directed run."""
    duties: bool = False
    """Whether brokers go into maintenance and are decommissioned in the directed run."""
    moves: bool = False
    """Whether replicas move between the log directories of their brokers."""
    throttles: bool = False
    """Whether these moves are throttled."""
    extras: tuple[PlanExtras, ...] = ()
    """Additional parts of the directed run."""
    seconds: float = SECONDS
    """Virtual, of a directed run."""
    quorum: Callable[[int], dict[str, object]] = lambda seed: {}
    """Fixed options of the quorum alone, for the seed."""
    beyond: int = 0
    """Number of seeds of the quorum that are skipped: it shows once in hundreds, and a search starts near there."""
    apply_real: Callable[[Patches], None] | None = None
    """Replaces `apply` in a real process if a process cannot do what the simulation does to a machine."""
    first: int = 1
    """A seed that finds it quickly; the command starts at 1."""
    witness: str = ""
    """The unit test that finds it: a path below tests/unit with the name of the test."""

    @property
    def wrong(self) -> str:
        """The mistake, in a sentence."""
        return (self.apply.__doc__ or "").split("\n")[0]


ALL: Final = (
    Mutant(name="acknowledge-before-isr", apply=broker.acknowledge_before_isr, first=2),
    Mutant(name="truncate-to-high-watermark", apply=broker.truncate_to_high_watermark, first=2),
    Mutant(
        name="forget-epoch-start-offset",
        apply=broker.forget_epoch_start_offset,
        means=DIRECTED,
        script="laggard",
        first=2,
    ),
    Mutant(name="no-maximal-isr", apply=broker.no_maximal_isr, first=3),
    Mutant(name="ignore-broker-epoch", apply=broker.ignore_broker_epoch, means=DIRECTED, script="earlier life"),
    Mutant(
        name="forget-producer-state",
        apply=broker.forget_producer_state,
        means=DIRECTED,
        options={**THREE, "min_isr": 1, "fault_kinds": ["kill", "reset", "cut", "pause"], "fault_every_s": 0.7},
        load={"producers": [(-1, True), (-1, True)], "every_s": 0.05, "burst_s": 0.0, "in_flight": 4},
        first=4,
    ),
    Mutant(name="answer-before-published", apply=broker.answer_before_published, first=11),
    Mutant(name="ignore-min-isr", apply=broker.ignore_min_isr, first=6),
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
        script="late copy",
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
    Mutant(
        name="drop-before-in-sync",
        apply=controller.drop_before_in_sync,
        means=DIRECTED,
        options={**THREE, "brokers": 4, "replication_factor": 2, "min_isr": 1, "fault_kinds": ["kill", "cut"]},
        reassigns=True,
    ),
    Mutant(
        name="reduce-before-in-sync",
        apply=controller.reduce_before_in_sync,
        means=DIRECTED,
        options={**THREE, "brokers": 4, "min_isr": 1, "fault_kinds": ["kill", "pause"]},
        reassigns=True,
        extras=(add_reductions,),
        first=2,
    ),
    *(
        Mutant(
            name=name,
            apply=apply,
            means=DIRECTED,
            options={
                **THREE,
                **{"brokers": 4, "replication_factor": 3, "min_isr": 1, "partitions": 4},
                **{"fault_kinds": ["kill"], "fault_every_s": 1.5},
            },
            duties=True,
            first=first,
        )
        for name, apply, first in (
            ("elect-who-rests", duties.elect_who_rests, 2),
            ("place-on-who-leaves", duties.place_on_who_leaves, 2),
            ("look-once", duties.look_once, 4),
        )
    ),
    Mutant(
        name="end-every-throttle",
        apply=duties.end_every_throttle,
        means=DIRECTED,
        options={
            **THREE,
            **{"brokers": 4, "min_isr": 1, "partitions": 2, "replication_factor": 2},
            **{"fault_kinds": ["kill"], "fault_every_s": 3.0},
        },
        duties=True,
        extras=(add_departure_throttles,),
    ),
    Mutant(
        name="hold-back-who-is-in-sync",
        apply=broker.hold_back_who_is_in_sync,
        means=DIRECTED,
        options={
            **THREE,
            **{"brokers": 4, "min_isr": 1, "partitions": 1, "replication_factor": 2, "lag_time_ms": 500},
            **{"session_timeout_ms": 600, "heartbeat_interval_ms": 120, "fault_kinds": ["resign"]},
            **{"fault_every_s": 20.0, "chase": 0.0},
        },
        load={"producers": [(-1, True), (-1, False)], "every_s": 0.05, "burst_s": 0.0},
        reassigns=True,
        extras=(add_reassignment_throttles,),
    ),
    Mutant(
        name="promote-too-early",
        apply=broker.promote_too_early,
        means=DIRECTED,
        options={**THREE, "log_dirs": 2, "fault_kinds": ["kill", "cut"]},
        load={"every_s": 0.05, "burst_s": 0.0},
        moves=True,
    ),
    Mutant(
        name="read-before-quota",
        apply=broker.read_before_quota,
        means=DIRECTED,
        options={
            **THREE,
            **{"log_dirs": 2, "partitions": 1, "min_isr": 1, "session_timeout_ms": 600, "heartbeat_interval_ms": 120},
            **{"roll_ms": 1_000_000, "fault_kinds": ["reset"], "fault_every_s": 3.0, "chase": 0.0},
        },
        load={"producers": [(1, False), (-1, False), (-1, False)], "every_s": 0.05, "burst_s": 0.0},
        moves=True,
        throttles=True,
        first=11,
    ),
    *(
        Mutant(
            name=name,
            apply=apply,
            means=DIRECTED,
            options={
                **THREE,
                **{"log_dirs": 2, "partitions": 1, "flush": False, "session_timeout_ms": 600, "delay_max_s": 0.001},
                **{"heartbeat_interval_ms": 120, "fault_kinds": ["kill"], "fault_every_s": 3.0, "chase": 0.0},
                **drawn,
            },
            load={"producers": [(-1, True)], "every_s": 0.05, "burst_s": 0.0},
            extras=(add_log_dir_failures,),
            first=first,
        )
        for name, apply, drawn, first in (
            ("stay-in-a-failed-directory", directories.stay_in_a_failed_directory, {}, 1),
            ("vouch-for-a-lost-directory", directories.vouch_for_a_lost_directory, {"elr": True, "min_isr": 2}, 1),
            ("elect-another-log", directories.elect_another_log, {"elr": True, "min_isr": 1}, 1),
            ("make-an-empty-log", directories.make_an_empty_log, {"elr": False}, 3),
        )
    ),
    *(
        Mutant(
            name=name,
            apply=apply,
            means=DIRECTED,
            options={**THREE, "fault_kinds": ["kill", "reset"], "fault_every_s": 1.5},
            extras=(add_quotas,),
            first=first,
        )
        for name, apply, first in (
            ("tell-without-holding", quotas.tell_without_holding, 1),
            ("hold-for-ever", quotas.hold_for_ever, 1),
            ("keep-new-quotas-alone", quotas.keep_new_quotas_alone, 2),
        )
    ),
    *(
        Mutant(
            name=name,
            apply=apply,
            means=DIRECTED,
            options={**THREE, "fault_kinds": ["kill", "cut"], "fault_every_s": 1.5},
            extras=(add_racks,),
        )
        for name, apply in (
            ("show-above-high-watermark", racks.show_above_high_watermark),
            ("send-anywhere", racks.send_anywhere),
        )
    ),
    Mutant(name="acknowledge-metadata-before-commit", apply=controller.acknowledge_metadata_before_commit, first=6),
    Mutant(
        name="journal-without-sync",
        apply=controller.journal_without_sync,
        apply_real=controller.journal_withheld,
        means=QUORUM,
    ),
    Mutant(name="answer-before-durable", apply=controller.answer_before_durable, means=QUORUM),
    Mutant(name="keep-high-watermark-at-shrink", apply=broker.keep_high_watermark_at_shrink, means=PROCESSES),
    Mutant(name="join-below-min-isr", apply=broker.join_below_min_isr, means=PROCESSES),
    Mutant(name="unreadable-above-high-watermark", apply=broker.unreadable_above_high_watermark, means=PROCESSES),
    Mutant(name="duplicate-at-log-end", apply=broker.duplicate_at_log_end, means=PROCESSES),
    Mutant(name="disk-error-unknown", apply=broker.disk_error_unknown, means=PROCESSES),
    Mutant(name="guard-off", apply=controller.guard_off, means=QUORUM),
    Mutant(name="accept-expired-certificates", apply=secure_lab.accept_expired_certificates, means=PROCESSES),
    Mutant(name="forget-keys-of-issuers", apply=secure_lab.forget_keys_of_issuers, means=PROCESSES),
    Mutant(name="isolated-leader-stays", apply=controller.isolated_leader_stays, means=PROCESSES),
    Mutant(name="read-without-round", apply=controller.read_without_round, means=QUORUM, first=54),
    *(
        Mutant(name=name, apply=apply, means=QUORUM, quorum=quorum, beyond=beyond, first=first)
        for name, apply, quorum, beyond, first in (
            ("change-before-committed", voters.change_before_committed, membership_options, 0, 1),
            ("count-a-removed-leader", voters.count_a_removed_leader, membership_options, 0, 80),
            ("count-a-lost-voter", voters.count_a_lost_voter, membership_options, 0, 5),
            ("use-a-set-when-committed", voters.use_a_set_when_committed, membership_options, 0, 0),
            ("forget-the-upgrade", voters.forget_the_upgrade, upgrade_options, 0, 7),
            ("upgrade-at-once", voters.upgrade_at_once, upgrade_options, 0, 0),
            ("upgrade-whoever-is-there", voters.upgrade_whoever_is_there, upgrade_options, 272, 1),
            ("take-lost-voters-in", voters.take_lost_voters_in, upgrade_options, 0, 29),
            ("look-for-itself-once", voters.look_for_itself_once, address_change_options, 0, 5),
        )
    ),
    *(
        Mutant(
            name=name,
            apply=apply,
            means=DIRECTED,
            options=COORDINATED | {"coordination": coordination(**drawn)},
            every_fault=every_fault,
            seconds=COORDINATED_S,
            first=first,
        )
        for name, apply, drawn, every_fault, first in (
            ("answer-before-committed", coordinators.answer_before_committed, READERS, DEPOSED_UNAWARES, 1),
            ("answer-of-former-epoch", coordinators.answer_of_former_epoch, READERS, DEPOSED_UNAWARES, 1),
            ("fence-nobody", coordinators.fence_nobody, {"feeders": 2, "workers": 0}, {}, 3),
            ("keep-epoch", coordinators.keep_epoch, REPLACED, {}, 1),
            ("forget-a-marker", coordinators.forget_a_marker, {}, {}, 1),
            ("ignore-last-stable-offset", coordinators.ignore_last_stable_offset, {}, {}, 1),
            ("forget-aborted", coordinators.forget_aborted, {}, {}, 1),
            ("show-open-offsets", coordinators.show_open_offsets, {"workers": 3}, {}, 1),
            ("serve-unstable-offsets", coordinators.serve_unstable_offsets, {"workers": 3}, {}, 1),
            ("accept-old-generation", coordinators.accept_old_generation, READERS, {}, 2),
            ("accept-old-member-epoch", coordinators.accept_old_member_epoch, READERS | CONSUMER, {}, 3),
            ("rebalance-without-waiting", coordinators.rebalance_without_waiting, READERS, {}, 1),
            ("assign-before-revoked", coordinators.assign_before_revoked, READERS | CONSUMER, {}, 1),
        )
    ),
    *(
        Mutant(name=name, apply=apply, means=UNIT, witness=witness)
        for name, apply, witness in (
            (
                "leave-proofs-unchecked",
                security.leave_proofs_unchecked,
                "security/sasl/test_scram.py::test_a_proof_with_any_other_byte_is_rejected",
            ),
            (
                "send-constant-signatures",
                security.send_constant_signatures,
                "security/sasl/test_scram.py::test_signatures_of_two_exchanges_differ",
            ),
            (
                "leave-signatures-unchecked",
                security.leave_signatures_unchecked,
                "security/sasl/test_scram.py::test_a_server_that_does_not_know_the_password_is_rejected",
            ),
            (
                "accept-expired-tokens",
                security.accept_expired_tokens,
                "security/oauth/test_signed.py::test_invalid_claims_are_rejected",
            ),
            (
                "forget-expiry-of-tokens",
                security.forget_expiry_of_tokens,
                "security/sasl/test_authenticator.py::test_a_session_ends_with_the_token",
            ),
            (
                "require-no-certificate",
                security.require_no_certificate,
                "network/test_tls.py::test_a_client_without_a_valid_certificate_receives_the_alert",
            ),
            (
                "keep-context-at-reload",
                security.keep_context_at_reload,
                "network/test_tls.py::test_a_reload_replaces_the_certificate_for_new_connections_only",
            ),
            (
                "trust-any-envelope",
                security.trust_any_envelope,
                "quorum/runtime/test_forwarding.py::test_an_envelope_of_a_client_is_refused",
            ),
            (
                "serve-unauthenticated-requests",
                security.serve_unauthenticated_requests,
                "security/sasl/test_authenticator.py::test_each_request_in_each_state",
            ),
            (
                "ignore-lifetime-of-sessions",
                security.ignore_lifetime_of_sessions,
                "security/sasl/test_authenticator.py::test_a_session_ends_with_the_configured_time",
            ),
            (
                "change-principals-of-sessions",
                security.change_principals_of_sessions,
                "security/sasl/test_authenticator.py::test_a_renewal_must_not_change_the_principal",
            ),
        )
    ),
)
MUTANTS: Final = {mutant.name: mutant for mutant in ALL}
HUNTED: Final = tuple(mutant.name for mutant in ALL if mutant.means != PROCESSES)
"""Those that a simulation or a unit test is to find."""
SIMULATED: Final = tuple(name for name in HUNTED if MUTANTS[name].means != UNIT)
"""Those that a simulation is to find."""


@contextmanager
def apply_mutant(name: str, *, real: bool = False) -> Iterator[None]:
    """Apply a mutant in this process; `real`: this is a node's process, not a simulation.

    Raises KeyError: unknown; PatchError: its target does not exist.
    """
    mutant = MUTANTS[name]
    with Patches() as patches:
        (mutant.apply_real if real and mutant.apply_real is not None else mutant.apply)(patches)
        yield
