"""Metrics of the controller process: role, vote, latencies, and traffic between voters.

The controller's own gauges (topics, brokers, offsets) are in `quorum.controller_metrics`; these are known to the
composition root only: the Raft log and its links.
"""

from collections.abc import Callable
from typing import Final

from kvorum.protocol.batch_header import parse_header
from kvorum.quorum.raft.core import CANDIDATE, LEADER
from kvorum.quorum.raft.log import SnapshotView
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.transport import RaftTransport
from kvorum.runtime import metric_names as names
from kvorum.runtime.clock import Clock
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.recent import Recent

WINDOW_SECONDS: Final = 60


def follow_quorum(metrics: Metrics, metadata_log: RaftMetadataLog, transport: RaftTransport, clock: Clock) -> None:
    """Register metrics of a voter, and start sampling. Before `metadata_log.start`, after the server's."""
    core = metadata_log.node.replica.core

    def state() -> str:
        return state_of(core.role(), core.leader_id())

    def vote() -> int:
        voted_for = core.voted_for()
        return -1 if voted_for is None else voted_for

    for name in (names.RAFT_STATE, names.RAFT_CURRENT_STATE):
        metrics.gauge(name).sample(lambda: [((state(),), 1)])
    metrics.gauge(names.RAFT_CURRENT_VOTE).labels().follow(vote)
    metrics.gauge(names.RAFT_UNKNOWN_VOTERS).labels().follow(
        lambda: sum(not transport.is_known(voter.node_id) for voter in metadata_log.voters())
    )
    snapshotting = metadata_log.node.snapshotting
    metrics.gauge(names.SNAPSHOT_BYTES).labels().follow(lambda: snapshotting.written_bytes)
    metrics.gauge(names.SNAPSHOT_AGE_MS).labels().follow(lambda: round(snapshotting.age_s * 1000))
    traffic = transport.traffic
    counters: dict[str, Callable[[], int]] = {
        names.RAFT_REQUESTS: lambda: traffic.frames_sent,
        names.RAFT_OUTGOING_BYTES: lambda: traffic.bytes_sent,
        names.RAFT_RESPONSES: lambda: traffic.frames_received,
        names.RAFT_INCOMING_BYTES: lambda: traffic.bytes_received,
    }
    for name, value in counters.items():
        metrics.counter(name).sample(lambda value=value: [((), value())])  # type: ignore[misc]  # bound now
    quorum = QuorumMetrics(metrics, clock, leads=core.is_leader)
    metadata_log.node.observer = quorum
    metadata_log.add_listener(quorum)


def state_of(role: int, leader_id: int | None) -> str:
    """Return Kafka's name of a voter's state. Prospective: no leader known, and no candidate either (KIP-996)."""
    if role == LEADER:
        return "leader"
    if role == CANDIDATE:
        return "candidate"
    return "prospective" if leader_id is None else "follower"


class QuorumMetrics:
    """Latencies and rates: a RaftObserver and a MetadataLogListener."""

    def __init__(self, metrics: Metrics, clock: Clock, *, leads: Callable[[], bool]) -> None:
        """Register the gauges; `leads` returns whether this node leads now."""
        self._clock = clock
        self._leads = leads
        self._commits_ms = Recent(WINDOW_SECONDS)
        self._elections_ms = Recent(WINDOW_SECONDS)
        self._append_rate = Recent(WINDOW_SECONDS)
        self._fetch_rate = Recent(WINDOW_SECONDS)
        self._candidate_since_ms: int | None = None
        self._applied_ms = 0
        """The timestamp of the last batch applied; 0 before the first."""
        self._elections = metrics.counter(names.RAFT_ELECTIONS).labels()
        self._active_controllers = metrics.gauge(names.NEW_ACTIVE_CONTROLLERS).labels()
        self._syncs = metrics.histogram(names.JOURNAL_SYNC_SECONDS).labels()
        gauges: dict[str, Callable[[int], float]] = {
            names.RAFT_COMMIT_LATENCY_AVG: self._commits_ms.mean,
            names.RAFT_COMMIT_LATENCY_MAX: self._commits_ms.largest,
            names.RAFT_ELECTION_LATENCY_AVG: self._elections_ms.mean,
            names.RAFT_ELECTION_LATENCY_MAX: self._elections_ms.largest,
            names.RAFT_APPEND_RECORDS_RATE: self._append_rate.rate,
            names.RAFT_FETCH_RECORDS_RATE: self._fetch_rate.rate,
        }
        for name, value in gauges.items():
            metrics.gauge(name).labels().follow(lambda value=value: value(clock.monotonic_ms()))  # type: ignore[misc]

        metrics.gauge(names.LAST_APPLIED_RECORD_TIMESTAMP).labels().follow(lambda: self._applied_ms)
        metrics.gauge(names.LAST_APPLIED_RECORD_LAG_MS).labels().follow(self._lag_ms)

    def _lag_ms(self) -> float:
        """Return how old the last record is that was applied; of the leader it is never behind (Kafka's way)."""
        return 0 if self._leads() or not self._applied_ms else max(0, self._clock.wall_ms() - self._applied_ms)

    # RaftObserver

    def role_changed(self, old: int, new: int) -> None:
        """See RaftObserver."""
        now_ms = self._clock.monotonic_ms()
        if new == CANDIDATE:
            self._elections.add()
            self._candidate_since_ms = now_ms
        elif new == LEADER and self._candidate_since_ms is not None:
            self._elections_ms.add(now_ms - self._candidate_since_ms, now_ms)

    def synced(self, seconds: float) -> None:
        """See RaftObserver."""
        self._syncs.observe(seconds)

    def committed(self, seconds: float) -> None:
        """See RaftObserver."""
        self._commits_ms.add(seconds * 1000, self._clock.monotonic_ms())

    # MetadataLogListener

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        """Count its records: appended by this leader, or replicated from another."""
        count = parse_header(batch).records_count
        (self._append_rate if self._leads() else self._fetch_rate).add(count, self._clock.monotonic_ms())
        self._applied_ms = timestamp_ms

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """See MetadataLogListener."""

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Count each new active controller, also the same one again; its absence does not count."""
        if leader_id is not None:
            self._active_controllers.add()

    def on_active(self, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_inactive(self) -> None:
        """See MetadataLogListener."""
