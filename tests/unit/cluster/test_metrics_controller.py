"""What a controller process tells of its quorum, over a log and links that are not there."""

from types import SimpleNamespace

import pytest

from kvorum.cluster.metrics.controller_metrics import WINDOW_SECONDS, follow_quorum, state_of
from kvorum.network.traffic import Traffic
from kvorum.protocol.records import Record, build_batch
from kvorum.quorum.raft.core import CANDIDATE, FOLLOWER, LEADER
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics


class FakeClock:
    def __init__(self) -> None:
        self.now_ms = 5_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_000_000_000_000


class FakeCore:
    def __init__(self) -> None:
        self.at: tuple[int, int | None, int | None] = (FOLLOWER, None, None)

    def role(self) -> int:
        return self.at[0]

    def is_leader(self) -> bool:
        return self.at[0] == LEADER

    def leader_id(self) -> int | None:
        return self.at[1]

    def voted_for(self) -> int | None:
        return self.at[2]


class Quorum:
    """All that follow_quorum looks at."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.core = FakeCore()
        self.snapshotting = SimpleNamespace(written_bytes=0, age_s=12.5)
        self.node = SimpleNamespace(
            replica=SimpleNamespace(core=self.core), observer=None, snapshotting=self.snapshotting
        )
        self.listeners: list[object] = []
        self.traffic = Traffic()
        self.metrics = Metrics()
        voters = [SimpleNamespace(node_id=node_id) for node_id in (1, 2, 3)]
        log = SimpleNamespace(node=self.node, add_listener=self.listeners.append, voters=lambda: voters)
        transport = SimpleNamespace(traffic=self.traffic, is_known=lambda node_id: node_id != 3)
        follow_quorum(self.metrics, log, transport, self.clock)  # type: ignore[arg-type]

    def lines(self) -> set[str]:
        return set(self.metrics.render().decode().splitlines())

    def gauge(self, name: str) -> float:
        return self.metrics.gauge(name).labels().read()

    def apply(self, *values: bytes) -> None:
        batch = bytes(build_batch([Record(value=value) for value in values]))
        for listener in self.listeners:
            listener.on_batch_applied(0, 1, 0, batch)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("role", "leader_id", "state"),
    [
        (FOLLOWER, 2, "follower"),
        (FOLLOWER, None, "prospective"),
        (CANDIDATE, None, "candidate"),
        (LEADER, 1, "leader"),
    ],
)
def test_a_voter_has_kafkas_name_for_its_state(role: int, leader_id: int | None, state: str) -> None:
    assert state_of(role, leader_id) == state


def test_state_vote_and_traffic_are_read_at_the_scrape() -> None:
    quorum = Quorum()
    assert f"{names.RAFT_CURRENT_VOTE} -1.0" in quorum.lines()
    quorum.core.at = (LEADER, 1, 1)
    quorum.traffic.sent(100)
    quorum.traffic.sent(20)
    quorum.traffic.received(7)
    assert quorum.lines() >= {
        f'{names.RAFT_CURRENT_STATE}{{state="leader"}} 1.0',
        f'{names.RAFT_STATE}{{current_state="leader"}} 1.0',
        f"{names.RAFT_CURRENT_VOTE} 1.0",
        f"{names.RAFT_REQUESTS} 2.0",
        f"{names.RAFT_OUTGOING_BYTES} 120.0",
        f"{names.RAFT_RESPONSES} 1.0",
        f"{names.RAFT_INCOMING_BYTES} 7.0",
    }
    assert not [line for line in quorum.lines() if 'state="prospective"' in line]
    assert f"{names.RAFT_UNKNOWN_VOTERS} 1.0" in quorum.lines()


def test_the_last_snapshot_of_the_metadata_is_reported() -> None:
    quorum = Quorum()
    assert quorum.lines() >= {f"{names.SNAPSHOT_BYTES} 0.0", f"{names.SNAPSHOT_AGE_MS} 12500.0"}
    quorum.snapshotting.written_bytes, quorum.snapshotting.age_s = 4_000, 0.25
    assert quorum.lines() >= {f"{names.SNAPSHOT_BYTES} 4000.0", f"{names.SNAPSHOT_AGE_MS} 250.0"}


def test_commit_latency_is_that_of_the_last_minute() -> None:
    quorum = Quorum()
    quorum.node.observer.committed(0.002)
    quorum.node.observer.committed(0.004)
    assert quorum.gauge(names.RAFT_COMMIT_LATENCY_AVG) == pytest.approx(3)
    assert quorum.gauge(names.RAFT_COMMIT_LATENCY_MAX) == pytest.approx(4)
    quorum.clock.now_ms += (WINDOW_SECONDS + 1) * 1000
    assert quorum.gauge(names.RAFT_COMMIT_LATENCY_AVG) == 0
    assert quorum.gauge(names.RAFT_COMMIT_LATENCY_MAX) == 0


def test_elections_are_counted_and_timed_from_candidate_to_leader() -> None:
    quorum = Quorum()
    quorum.node.observer.role_changed(FOLLOWER, CANDIDATE)
    quorum.clock.now_ms += 30
    quorum.node.observer.role_changed(CANDIDATE, LEADER)
    quorum.node.observer.role_changed(LEADER, FOLLOWER)
    quorum.node.observer.role_changed(FOLLOWER, CANDIDATE)
    assert quorum.metrics.counter(names.RAFT_ELECTIONS).labels().value == 2
    assert quorum.gauge(names.RAFT_ELECTION_LATENCY_AVG) == quorum.gauge(names.RAFT_ELECTION_LATENCY_MAX) == 30


def test_changes_to_an_active_controller_count_and_to_none_do_not() -> None:
    quorum = Quorum()
    for leader_id in (2, None, 2, 3):
        for listener in quorum.listeners:
            listener.on_leader_changed(leader_id, 5)  # type: ignore[attr-defined]
    assert quorum.gauge(names.NEW_ACTIVE_CONTROLLERS) == 3


def test_records_are_appended_by_the_leader_and_fetched_by_the_others() -> None:
    quorum = Quorum()
    quorum.core.at = (LEADER, 1, 1)
    quorum.apply(b"a", b"b", b"c")
    quorum.core.at = (FOLLOWER, 2, 2)
    quorum.apply(b"d")
    assert quorum.gauge(names.RAFT_APPEND_RECORDS_RATE) == pytest.approx(3 / WINDOW_SECONDS)
    assert quorum.gauge(names.RAFT_FETCH_RECORDS_RATE) == pytest.approx(1 / WINDOW_SECONDS)


def test_the_last_applied_record_has_a_time_and_a_leader_has_no_lag() -> None:
    quorum = Quorum()
    assert quorum.gauge(names.LAST_APPLIED_RECORD_TIMESTAMP) == quorum.gauge(names.LAST_APPLIED_RECORD_LAG_MS) == 0
    for listener in quorum.listeners:
        batch = bytes(build_batch([Record(value=b"a")]))
        listener.on_batch_applied(0, 1, quorum.clock.wall_ms() - 300, batch)  # type: ignore[attr-defined]
    assert quorum.gauge(names.LAST_APPLIED_RECORD_TIMESTAMP) == quorum.clock.wall_ms() - 300
    assert quorum.gauge(names.LAST_APPLIED_RECORD_LAG_MS) == 300
    quorum.core.at = (LEADER, 1, 1)
    assert quorum.gauge(names.LAST_APPLIED_RECORD_LAG_MS) == 0


def test_journal_syncs_are_observed() -> None:
    quorum = Quorum()
    quorum.node.observer.synced(0.003)
    histogram = quorum.metrics.histogram(names.JOURNAL_SYNC_SECONDS).labels()
    assert sum(histogram.counts) == 1
    assert histogram.sum == pytest.approx(0.003)
