"""Single stories of the quorum, told under the simulator: production classes, no faults but those of the story."""

import asyncio
import errno
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.follower import LogDiverged
from kvorum.quorum.raft.guard import AckFilter
from kvorum.quorum.raft.journal import DurableJournal
from kvorum.quorum.raft.journal_format import JournalCorrupt
from kvorum.quorum.raft.log import (
    COMMAND_BYTES_MAX,
    Dropped,
    NotController,
    ReadmissionRefused,
    SnapshotId,
    UnknownOutcome,
)
from kvorum.quorum.raft.messages import Ack, Append, Vote, VoteAnswer, decode, encode
from kvorum.quorum.raft.opening import check_identity, open_raft
from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import RaftSettings
from kvorum.quorum.raft.snapshot import SnapshotCorrupt
from sim.loop import SimLoop
from sim.network import NetworkOptions
from sim.quorum import QuorumSimulation
from sim.quorum_options import SEGMENT_BYTES, Options
from sim.quorum_voter import PATH, SimVoter


def world(voters: int = 3, *, known: bool = True, seed: int = 1, **settings: object) -> QuorumSimulation:
    figures = {"election_timeout_min_s": 0.3, "election_timeout_max_s": 0.6, "heartbeat_s": 0.09, **settings}
    options = Options(
        voters=voters,
        known_directories=known,
        network=NetworkOptions(slow=0.0),
        settings=RaftSettings(segment_bytes=SEGMENT_BYTES, **figures),  # type: ignore[arg-type]
    )
    made = QuorumSimulation(seed, options)
    made.boot(load=False)
    return made


def batch(value: bytes = b"x", count: int = 1) -> bytearray:
    return build_batch([Record(value=value, timestamp=5)] * count)


def append(made: QuorumSimulation, voter: SimVoter, value: bytes = b"x") -> asyncio.Future[int]:
    return made.do(voter, lambda log: log.append(batch(value), log.log_end_offset, log.epoch))


def appended(made: QuorumSimulation, voter: SimVoter, count: int = 1) -> None:
    for _ in range(count):
        future = append(made, voter)
        assert made.loop.run_until(future.done, limit_s=5.0)
        future.result()


def others(made: QuorumSimulation, voter: SimVoter) -> list[SimVoter]:
    return [one for one in made.voters.values() if one is not voter]


def settle(made: QuorumSimulation, until: Callable[[], bool], limit_s: float = 10.0) -> None:
    assert made.loop.run_until(until, limit_s=limit_s)
    made.check_errors()


class Overdue:
    """What uvloop returns for a time that is over: a handle that can be cancelled, and no more."""

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self.cancel = handle.cancel


@pytest.mark.parametrize("voters", [1, 3])
def test_a_node_with_a_late_timer_continues(voters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    call_at = SimLoop.call_at

    def overdue(loop: SimLoop, when: float, callback: Callable[..., object], *args: object, **others: Any) -> Overdue:
        return Overdue(call_at(loop, when, callback, *args, **others))

    monkeypatch.setattr(SimLoop, "call_at", overdue)
    made = world(voters)
    appended(made, made.leader(), 3)
    settle(made, made.is_at_rest)
    made.checker.final()


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_batches_are_applied_everywhere_with_offset_and_epoch_filled_in(voters: int) -> None:
    made = world(voters)
    leader = made.leader()
    future = made.do(leader, lambda log: log.append(batch(count=3), 0, log.epoch))
    settle(made, lambda: future.done() and made.is_at_rest())
    assert future.result() == 0
    assert {voter.high_watermark for voter in made.voters.values()} == {3}
    made.checker.final()


def test_an_append_for_another_offset_or_epoch_or_at_a_follower_is_certainly_not_done() -> None:
    made = world()
    leader = made.leader()
    follower = others(made, leader)[0]
    wrong = [
        (leader, 7, 0, Dropped),
        (leader, 0, -1, NotController),
        (follower, 0, 0, NotController),
    ]
    for voter, offset, delta, error in wrong:

        def attempt(log: RaftMetadataLog, offset: int = offset, delta: int = delta) -> asyncio.Future[int]:
            return log.append(batch(), offset, log.epoch + delta)

        future = made.do(voter, attempt)
        assert isinstance(future.exception(), error)
    appended(made, leader)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"x" * 60,
        bytes(batch()) + b"more",
        bytes(batch())[:-1],
        bytes(batch())[:30] + b"\xff" + bytes(batch())[31:],
        bytes(COMMAND_BYTES_MAX + 1),
        bytes(build_batch([Record(value=b"", timestamp=1)] * 10_001)),
    ],
    ids=["empty", "short", "long", "cut", "damaged", "too large", "too many records"],
)
def test_invalid_or_oversized_batches_are_dropped(bad: bytes) -> None:
    made = world(1)
    leader = made.leader()
    future = made.do(leader, lambda log: log.append(bad, 0, log.epoch))
    assert isinstance(future.exception(), Dropped)
    appended(made, leader)


def test_a_deposed_leader_reports_unknown_for_pending_appends() -> None:
    made = world()
    leader = made.leader()
    appended(made, leader, 3)
    for other in others(made, leader):
        made.network.cut(leader.node_id, other.node_id)
        made.network.cut(other.node_id, leader.node_id)
    lost = append(made, leader)
    settle(made, lost.done)
    assert isinstance(lost.exception(), UnknownOutcome)
    assert leader.log is not None and not leader.log.is_active()
    assert isinstance(append(made, leader).exception(), NotController)
    successor = made.leader()
    appended(made, successor, 2)
    made.network.heal_all()
    settle(made, made.is_at_rest)
    assert {voter.high_watermark for voter in made.voters.values()} == {5}


def test_an_isolated_leader_resigns_within_the_check_quorum_timeout() -> None:
    made = world(check_quorum_timeout_s=0.5)
    leader = made.leader()
    for other in others(made, leader):
        made.network.cut(other.node_id, leader.node_id)
    log = leader.log
    assert log is not None
    began = made.loop.time()
    settle(made, lambda: not log.is_active(), limit_s=2.0)
    assert made.loop.time() - began <= 0.5 + 0.1


def test_a_paused_leader_is_not_active_when_it_wakes() -> None:
    made = world()
    leader = made.leader()
    leader.host.paused = True
    made.loop.run_for(3.0)
    assert made.leader() is not leader
    assert leader.log is not None and not made.do(leader, lambda log: log.is_active())
    read = made.do(leader, lambda log: log.read_index())
    made.loop.resume(leader.host)
    settle(made, read.done)
    assert isinstance(read.exception(), NotController)


def test_a_follower_that_was_cut_off_does_not_disturb_when_it_is_back() -> None:
    """Pre-vote: the term is the same before and after, and so is the leader."""
    made = world()
    leader = made.leader()
    appended(made, leader)
    victim = others(made, leader)[0]
    for other in others(made, victim):
        made.network.cut(victim.node_id, other.node_id)
        made.network.cut(other.node_id, victim.node_id)
    assert leader.log is not None
    term = leader.log.epoch
    made.loop.run_for(5.0)
    appended(made, leader)
    made.network.heal_all()
    settle(made, made.is_at_rest)
    assert made.leader() is leader and leader.log.epoch == term


def test_a_refused_connection_lets_the_others_elect_at_once() -> None:
    times = []
    for seed in range(20):
        made = world(seed=seed)
        leader = made.leader()
        appended(made, leader)
        began = made.loop.time()
        leader.kill()
        successor = made.leader()
        appended(made, successor)
        times.append(made.loop.time() - began)
    times.sort()
    assert times[len(times) // 2] < 0.08 and times[-1] < 0.3, times


def test_leadership_is_handed_over_on_request() -> None:
    made = world()
    leader = made.leader()
    appended(made, leader, 3)
    began = made.loop.time()
    handed = made.do(leader, lambda log: log.resign())
    assert isinstance(append(made, leader).exception(), NotController), "no appends while handing over"
    settle(made, handed.done)
    successor = made.leader()
    assert handed.result() == successor.node_id != leader.node_id
    assert made.loop.time() - began < 0.1
    appended(made, successor)


def test_a_read_index_covers_acknowledged_appends_and_costs_one_round() -> None:
    made = world()
    leader = made.leader()
    appended(made, leader, 4)
    reads = made.do(leader, lambda log: [log.read_index() for _ in range(10)])
    before = made.network.delivered
    settle(made, lambda: all(read.done() for read in reads))
    assert [read.result() for read in reads] == [4] * 10
    assert made.network.delivered - before <= 6, "one Append to each follower, one answer from each, shared by all"


def test_a_wiped_voter_does_not_vote_and_nothing_is_lost() -> None:
    """A commits with B while C is away; B is wiped, A is killed: no quorum until A is back, and then all is there."""
    made = world()
    first = made.leader()
    appended(made, first, 2)
    settle(made, made.is_at_rest)
    second, third = others(made, first)
    third.kill()
    appended(made, first, 5)
    second.kill()
    second.disk.remove_tree("/node")
    second.format(None, bytes(15) + b"2")
    first.kill()
    second.start()
    third.start()
    made.loop.run_for(10.0)
    assert not any(voter.log is not None and voter.log.is_active() for voter in (second, third))
    first.start()
    settle(made, made.is_at_rest, 20.0)
    made.check_errors()
    assert {voter.high_watermark for voter in made.voters.values()} == {7}
    leader = made.leader()
    assert leader.log is not None
    assert {voter.directory_id for voter in leader.log.voters()} == {v.directory_id for v in made.voters.values()}


@pytest.mark.parametrize("first_survives", [False, True], ids=["killed", "cut off"])
def test_an_operator_may_readmit_a_wiped_voter_when_no_leader_is_left(first_survives: bool) -> None:
    """What only the lost leader held is given up: restarted it follows, still running with it applied it must end."""
    made = world()
    first = made.leader()
    appended(made, first, 2)
    settle(made, made.is_at_rest)
    second, third = others(made, first)
    third.kill()
    appended(made, first, 5)
    second.kill()
    second.disk.remove_tree("/node")
    second.format(None, bytes(15) + b"2")
    if first_survives:
        for other in (second, third):
            made.network.cut(first.node_id, other.node_id)
            made.network.cut(other.node_id, first.node_id)
    else:
        first.kill()
    second.start()
    third.start()
    made.loop.run_for(3.0)
    made.do(third, lambda log: log.readmit(second.node_id, Uuid(second.directory_id)))
    settle(made, lambda: third.log is not None and third.log.is_active(), 5.0)
    leader = third
    assert third.high_watermark == 2
    made.checker.log = made.checker.log[:2]
    made.checker.end_offsets = {0: 0, 1: 1, 2: 2}
    appended(made, leader, 1)
    settle(made, lambda: second.high_watermark == 3)
    if first_survives:
        made.network.heal_all()
        with pytest.raises(LogDiverged, match="kvorum format -g"):
            made.loop.run_for(3.0)
    else:
        first.start()
        settle(made, made.is_at_rest)
        assert first.high_watermark == 3


def test_a_forced_readmission_is_refused_while_there_is_a_leader() -> None:
    made = world()
    leader = made.leader()
    settle(made, made.is_at_rest)
    for voter in made.voters.values():
        with pytest.raises(ReadmissionRefused):
            made.do(voter, lambda log: log.readmit(log.node.peer_ids[0], Uuid(bytes(16))))
    leader.kill()
    made.loop.run_for(0.02)
    made.leader()


def test_the_first_boot_needs_every_voter_once() -> None:
    """Directory ids not known at format: two of three must not begin alone, or a wiped voter could."""
    made = world(known=False)
    made.loop.run_for(0.01)
    made.voters[3].kill()
    made.loop.run_for(5.0)
    assert not any(voter.log is not None and voter.log.is_active() for voter in made.voters.values())
    made.voters[3].start()
    leader = made.leader()
    appended(made, leader)
    made.voters[3].kill()
    appended(made, made.leader())


def test_a_follower_far_behind_gets_a_snapshot_in_pieces() -> None:
    made = world(snapshot_bytes=2000, retained_entries=0, chunk_bytes=100)
    leader = made.leader()
    victim = others(made, leader)[0]
    victim.kill()
    appended(made, leader, 60)
    assert leader.log is not None and leader.log.log_start_offset > 20
    victim.start()
    settle(made, made.is_at_rest)
    assert victim.log is not None and victim.log.log_start_offset > 20
    assert victim.high_watermark == 60


def test_a_snapshot_can_be_requested_and_read_in_parts() -> None:
    made = world(1)
    leader = made.leader()
    assert leader.log is not None and leader.log.latest_snapshot() is None
    nothing = made.do(leader, lambda log: log.take_snapshot())
    settle(made, nothing.done)
    appended(made, leader, 3)
    taken = made.do(leader, lambda log: log.take_snapshot())
    settle(made, taken.done)
    assert taken.result() == SnapshotId(end_offset=3, epoch=leader.log.epoch)
    view = leader.log.latest_snapshot()
    assert view is not None and view.size == 616
    assert b"".join(view.chunks()) == b"".join(view.read(at, 100) for at in range(0, 616, 100))
    view.close()


@pytest.mark.parametrize("place", [3, 40, 70, 400, 680])
def test_a_damaged_snapshot_stops_the_node(place: int) -> None:
    made = world(1)
    leader = made.leader()
    appended(made, leader, 3)
    taken = made.do(leader, lambda log: log.take_snapshot())
    settle(made, taken.done)
    (name,) = [name for name in leader.disk.listdir(f"{PATH}/snapshots") if name.endswith(".snapshot")]
    leader.disk.flip_bit(f"{PATH}/snapshots/{name}", place)
    leader.kill()
    with pytest.raises(SnapshotCorrupt):
        open_raft(leader.disk, PATH, segment_bytes=SEGMENT_BYTES)


def test_a_lost_snapshot_or_journal_stops_the_node() -> None:
    made = world(1, retained_entries=0)
    leader = made.leader()
    appended(made, leader, 3)
    taken = made.do(leader, lambda log: log.take_snapshot())
    settle(made, taken.done)
    made.loop.run_for(1.0)
    leader.kill()
    leader.disk.remove_tree(f"{PATH}/snapshots")
    with pytest.raises(SnapshotCorrupt, match="without a snapshot"):
        open_raft(leader.disk, PATH, segment_bytes=SEGMENT_BYTES)
    leader.disk.remove_tree(f"{PATH}/journal")
    with pytest.raises(JournalCorrupt, match="formatted again"):
        open_raft(leader.disk, PATH, segment_bytes=SEGMENT_BYTES)


def test_another_nodes_directory_is_refused() -> None:
    made = world()
    made.loop.run_for(0.1)
    made.voters[1].kill()
    state = open_raft(made.voters[1].disk, PATH, segment_bytes=SEGMENT_BYTES).voters.state
    check_identity(state, cluster_id="sim", node_id=1, voter_ids=[3, 1, 2])
    for other in ({"cluster_id": "x"}, {"node_id": 2}, {"voter_ids": [1, 2]}):
        values = {"cluster_id": "sim", "node_id": 1, "voter_ids": [1, 2, 3], **other}
        with pytest.raises(JournalCorrupt, match="formatted for"):
            check_identity(state, **values)  # type: ignore[arg-type]


def test_a_write_that_fails_after_its_node_has_ended_is_looked_at() -> None:
    made = world(1)
    leader = made.leader()
    batch = build_batch([Record(value=b"x", timestamp=1)])
    future = made.do(leader, lambda log: log.append(batch, log.log_end_offset, log.epoch))
    assert made.loop.run_until(lambda: bool(leader.host.jobs), limit_s=1.0)
    leader.disk.fail("sync", errno.EIO)
    made.do(leader, lambda log: log.node.fail(OSError(errno.ENOSPC, "full")))
    assert future.exception() is not None
    made.loop.run_for(1.0)
    gc.collect()
    assert not leader.host.jobs and isinstance(leader.fatal, OSError) and leader.fatal.errno == errno.ENOSPC
    assert not made.loop.errors, "an error that nobody looked at is told when its future goes"


def test_an_exception_in_apply_ends_the_node_once() -> None:
    made = world(1)
    leader = made.leader()

    def refuse(*_: object) -> None:
        raise ValueError("a batch that cannot be")

    leader.on_batch_applied = refuse  # type: ignore[method-assign]
    future = append(made, leader)
    with pytest.raises(ValueError):
        made.loop.run_for(1.0)
    made.loop.errors.clear()
    made.loop.run_for(1.0)
    assert isinstance(leader.fatal, ValueError)
    assert future.done() and future.exception() is not None
    assert leader.log is not None and leader.log.node.halted
    assert isinstance(append(made, leader).exception(), NotController)


def test_a_failed_fsync_is_never_retried() -> None:
    made = world(1)
    leader = made.leader()
    leader.disk.fail("sync")
    future = append(made, leader)
    made.loop.run_for(1.0)
    assert isinstance(leader.fatal, OSError) and isinstance(future.exception(), UnknownOutcome)
    syncs = leader.disk.counts["sync"]
    made.loop.run_for(1.0)
    assert leader.disk.counts["sync"] == syncs


def test_a_voter_keeps_its_vote_over_a_restart() -> None:
    made = world()
    made.leader()
    voter = made.voters[1]
    asker, rival = made.voters[2], made.voters[3]
    sent: list[bytes] = []
    for other in (asker, rival):
        for one in (1, 2, 3):
            if one != other.node_id:
                made.network.cut(other.node_id, one)
    made.loop.run_for(2.0)
    assert voter.log is not None
    term = voter.log.epoch + 5

    def ask(candidate: SimVoter) -> bool:
        sent.clear()
        log = voter.log
        assert log is not None
        log.node.replica.outbox._link = _Recorder(sent)
        vote = Vote(term, 1000, term - 1, True, candidate.directory_id)
        made.do(voter, lambda log: log.node.receive(candidate.node_id, encode(vote)))
        made.loop.run_for(0.1)
        answers = [message for frame in sent if isinstance(message := decode(frame), VoteAnswer)]
        return any(answer.granted for answer in answers)

    assert ask(asker)
    voter.kill()
    voter.start()
    made.loop.run_for(0.005)
    made.network.heal_all()
    settle(made, lambda: voter.log is not None and len(voter.log.node.replica.voters.present) == 2)
    assert not ask(rival)


class _Recorder:
    """A link that keeps what is sent."""

    def __init__(self, sent: list[bytes]) -> None:
        self._sent = sent

    def send(self, peer: int, frame: bytes) -> None:
        self._sent.append(frame)

    def reset(self, peer: int) -> None:
        pass


def test_an_answer_of_an_earlier_term_does_not_count() -> None:
    """B2: a leader must not commit on the word of an answer that was given to another term."""
    made = world(3)
    leader = made.leader()
    appended(made, leader, 3)
    for other in others(made, leader):
        made.network.cut(other.node_id, leader.node_id)
    log = leader.log
    assert log is not None
    future = append(made, leader)
    before = log.node.replica.core.commit_index()
    last = log.node.replica.journal.last_index + 1
    for other in others(made, leader):
        stale = Ack(log.epoch - 1, log.node.leader.sequence, True, last)
        made.do(leader, lambda log, other=other, stale=stale: log.node.receive(other.node_id, encode(stale)))  # type: ignore[misc]
    made.loop.run_for(0.05)
    assert log.node.replica.core.commit_index() == before and not future.done()


def test_a_repeated_append_cuts_nothing_off() -> None:
    """B1: an Append that matches says nothing about what lies behind it."""
    made = world(3)
    leader = made.leader()
    appended(made, leader, 8)
    settle(made, made.is_at_rest)
    follower = others(made, leader)[0]
    assert leader.log is not None and follower.log is not None
    journal = follower.log.node.replica.journal
    last, committed = journal.last_index, follower.log.node.replica.core.commit_index()
    term = leader.log.epoch
    again = Append(
        term, 10**6, 2, 2, journal.term_at(2) or 0, [(entry[2], entry[0]) for entry in journal.entries(3, 1)]
    )
    made.do(follower, lambda log: log.node.receive(leader.node_id, encode(again)))
    made.loop.run_for(0.05)
    assert journal.last_index == last and follower.log.node.replica.core.commit_index() == committed


def test_the_stories_of_votes_and_of_old_answers_fail_without_the_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both faults are too rare for seeds to find, so these two tests are themselves tested."""
    with monkeypatch.context() as patch:
        keep = DurableJournal.setCurrentTerm
        patch.setattr(DurableJournal, "setCurrentTerm", lambda self, term, vote: keep(self, term, None))
        with pytest.raises(AssertionError):
            test_a_voter_keeps_its_vote_over_a_restart()
    with monkeypatch.context() as patch:
        patch.setattr(AckFilter, "accepts", lambda self, term, sequence, *, current_term: True)
        with pytest.raises(AssertionError):
            test_an_answer_of_an_earlier_term_does_not_count()


def test_a_connection_over_which_nothing_is_answered_is_recreated() -> None:
    made = world(link_silence_s=1.0)
    leader = made.leader()
    victim = others(made, leader)[0]
    pair, connections = (leader.node_id, victim.node_id), made.network._connections
    made.network.cut(*pair)
    made.loop.run_for(2.0)
    assert pair not in connections
    made.network.heal_all()
    settle(made, lambda: pair in connections and made.is_at_rest())


def test_quorum_state_is_reported_for_describe_quorum() -> None:
    made = world()
    leader = made.leader()
    appended(made, leader, 4)
    settle(made, made.is_at_rest)
    made.loop.run_for(0.5)
    assert leader.log is not None
    states = made.do(leader, lambda log: log.replicas())
    assert {state.node_id for state in states} == {1, 2, 3}
    assert {state.log_end_offset for state in states} == {4}
    assert all(state.is_voter and state.last_caught_up_timestamp_ms > 0 for state in states)
    follower = others(made, leader)[0]
    assert made.do(follower, lambda log: log.replicas()) == ()


def test_no_applied_entry_is_truncated(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        made = world()
        appended(made, made.leader(), 3)
    assert not caplog.records
