"""Each rule about the metadata quorum, broken once by hand and kept once just beside it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvorum.protocol.records import Record, build_batch, patch_place
from kvorum.quorum.raft.journal import DurableJournal
from kvorum.quorum.raft.log import SnapshotView
from kvorum.quorum.raft.messages import Ack, Vote, VoteAnswer, encode
from kvorum.quorum.raft.voters import Pending, Voters
from sim.ledger import Violation
from sim.quorum import QuorumSimulation
from sim.quorum_checker import EMPTY_STATE, Checker, next_state
from sim.quorum_options import Options
from sim.quorum_voter import SimVoter

DIRECTORY = b"d" * 16
OTHER = b"o" * 16
Deed = Callable[[Checker], object]


def batch(offset: int, epoch: int = 1, value: bytes = b"a", count: int = 1) -> bytes:
    built = bytearray(build_batch([Record(value=value, timestamp=1)] * count))
    patch_place(memoryview(built), 0, offset, epoch)
    return bytes(built)


def checker() -> Checker:
    """Return one that has seen two batches, of one record and of two, applied by node 1; the first is acknowledged."""
    made = Checker()
    made.apply(1, 0, 0, 1, batch(0))
    made.apply(1, 1, 1, 1, batch(1, count=2))
    made.check_acknowledgement(0, 1, made.log[0].digest)
    return made


def journal(durable: int, term: int = 1, first: int = 1, current: int = 1) -> DurableJournal:
    """Return as much of a journal as the checker asks for: one term's entries up to the durable one and one more."""
    made = SimpleNamespace(
        durable_index=durable,
        first_index=first,
        term_at=lambda index: term if index <= durable + 1 else None,
        getCurrentTerm=lambda: current,
    )
    return cast(DurableJournal, made)


def voters(*durable: int, **rest: int) -> list[Any]:
    return [
        SimpleNamespace(node_id=node_id, journals={DIRECTORY: journal(each, **rest)})
        for node_id, each in enumerate(durable, 1)
    ]


def sets(*indexes: int) -> Voters:
    """Return a node's voters with sets at these indexes that it has not applied."""
    made = SimpleNamespace(pending=[Pending(index, {1: DIRECTORY}, {}) for index in indexes])
    return cast(Voters, made)


AGREED = {1: DIRECTORY, 2: DIRECTORY, 3: DIRECTORY}


def say(message: object, node: int = 1, peer: int = 2, directory: bytes = DIRECTORY) -> Deed:
    return lambda each: each.check_frame(directory, node, peer, encode(cast(Any, message)))


def both(*deeds: Deed) -> Deed:
    return lambda each: [deed(each) for deed in deeds]


def vote(term: int, granted: bool = True) -> VoteAnswer:
    return VoteAnswer(term=term, granted=granted, directory_id=DIRECTORY)


def stand(term: int) -> Vote:
    return Vote(term=term, last_index=1, last_term=1, transfer=False, directory_id=DIRECTORY)


def ack(term: int, matched: bool = True) -> Ack:
    return Ack(term, 0, matched, 1)


BROKEN: tuple[tuple[str, str, Deed], ...] = (
    ("ConsistentCommittedData", "another batch", lambda it: it.apply(2, 0, 0, 1, batch(0, value=b"x"))),
    ("ConsistentCommittedData", "another epoch", lambda it: it.apply(2, 0, 0, 2, batch(0, epoch=2))),
    ("ConsistentCommittedData", "one left out", lambda it: it.apply(2, 0, 1, 1, batch(1, count=2))),
    ("ConsistentCommittedData", "one twice", lambda it: it.apply(2, 1, 0, 1, batch(0))),
    ("ConsistentCommittedData", "amid a batch", lambda it: it.apply(2, 2, 2, 1, batch(2))),
    ("ConsistentCommittedData", "other bytes than told", lambda it: it.apply(2, 0, 0, 2, batch(0))),
    ("SingleLeader", "two in a term", both(lambda it: it.leads(1, DIRECTORY, 4), lambda it: it.leads(2, OTHER, 4))),
    ("LeaderCompleteness", "active too early", lambda it: it.active(2, 0)),
    ("MajorityReachedHighWatermark", "one of three", lambda it: it.check_commit(2, 1, voters(2, 1, 1), AGREED)),
    ("MajorityReachedHighWatermark", "another term", lambda it: it.check_commit(2, 2, voters(2, 2, 2, term=1), AGREED)),
    (
        "MajorityReachedHighWatermark",
        "a wiped voter's new directory",
        lambda it: it.check_commit(2, 1, voters(2, 2, 1), {**AGREED, 2: OTHER}),
    ),
    ("AcknowledgedIsKept", "not applied", lambda it: it.check_acknowledgement(3, 4, bytes(16))),
    ("AcknowledgedIsKept", "another there", lambda it: it.check_acknowledgement(1, 3, bytes(16))),
    ("AcknowledgedIsKept", "lost in the end", both(lambda it: setattr(it.log[0], "digest", b""), Checker.final)),
    ("LinearizableRead", "older than acknowledged", lambda it: it.read(0, it.acknowledged_end)),
    ("OneVoteATerm", "two candidates", both(say(vote(5)), say(vote(5), peer=3))),
    ("OneVoteATerm", "itself and another", both(say(stand(5)), say(vote(5)))),
    ("KeptTerm", "older than a vote", both(say(vote(5)), say(ack(4)))),
    ("KeptTerm", "older than entries taken", both(say(ack(5)), say(stand(4)))),
    ("TrueMatch", "not durable", lambda it: it.check_match_index(1, 1, 2, 3, 1, journal(2))),
    ("TrueMatch", "of another term", lambda it: it.check_match_index(1, 2, 2, 2, 2, journal(2, term=1))),
    ("OneSetAtATime", "behind one that nobody has committed", lambda it: it.check_voter_sets(1, sets(4, 6), 3)),
    ("StateIsReplay", "another state", lambda it: it.load(2, 1, EMPTY_STATE)),
    ("StateIsReplay", "amid a batch", lambda it: it.load(2, 2, EMPTY_STATE)),
)
KEPT: tuple[tuple[str, Deed], ...] = (
    ("the same batch", lambda it: it.apply(2, 0, 0, 1, batch(0))),
    ("the next batch, of a newer epoch", lambda it: it.apply(2, 3, 3, 2, batch(3, 2))),
    ("the same leader again", both(lambda it: it.leads(1, DIRECTORY, 4), lambda it: it.leads(1, DIRECTORY, 4))),
    ("another in the next term", both(lambda it: it.leads(1, DIRECTORY, 4), lambda it: it.leads(2, OTHER, 5))),
    ("active with all of it", lambda it: it.active(2, 1)),
    ("two of three", lambda it: it.check_commit(2, 1, voters(2, 2, 0), AGREED)),
    ("behind a snapshot", lambda it: it.check_commit(2, 1, voters(2, 9, 0, first=5), AGREED)),
    ("the batch that was applied", both(lambda it: it.check_acknowledgement(1, 3, it.log[1].digest), Checker.final)),
    ("a read of all that is acknowledged", lambda it: it.read(1, it.acknowledged_end)),
    ("the same vote again", both(say(vote(5)), say(vote(5)))),
    ("a vote refused", both(say(vote(5)), say(vote(5, granted=False), peer=3))),
    ("a wiped voter's vote", both(say(vote(5)), say(vote(5), peer=3, directory=OTHER))),
    ("a later term", both(say(vote(5)), say(ack(6)), say(stand(7)))),
    ("a term that promised nothing", both(say(ack(5, matched=False)), say(ack(4)))),
    ("a durable match", lambda it: it.check_match_index(1, 1, 2, 2, 1, journal(2))),
    ("a match of a leader that is deposed", lambda it: it.check_match_index(1, 1, 2, 3, 1, journal(2, current=2))),
    ("one set that is not committed", lambda it: it.check_voter_sets(1, sets(4), 3)),
    ("a set behind one that is committed", lambda it: it.check_voter_sets(1, sets(4, 6), 4)),
    ("as another node knows", both(
        lambda it: it.check_voter_sets(2, sets(), 4), lambda it: it.check_voter_sets(1, sets(4, 6), 3)
    )),
    ("the replay's state", lambda it: it.load(2, 1, next_state(EMPTY_STATE, batch(0)))),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "deed"), [(kind, deed) for kind, _, deed in BROKEN], ids=[
    f"{kind}: {what}" for kind, what, _ in BROKEN
])  # fmt: skip
def test_a_violation_is_reported_by_its_name(kind: str, deed: Deed) -> None:
    with pytest.raises(Violation) as found:
        deed(checker())
    assert found.value.kind == kind


@pytest.mark.parametrize("deed", [deed for _, deed in KEPT], ids=[what for what, _ in KEPT])
def test_legal_histories_pass(deed: Deed) -> None:
    deed(checker())


# What the world and its voters look at themselves.


def world() -> tuple[QuorumSimulation, SimVoter]:
    """Return a quorum that has a leader, and the leader."""
    made = QuorumSimulation(1, Options(voters=3))
    made.boot(load=False)
    return made, made.leader()


@pytest.mark.parametrize(("kind", "seen"), [("MonotonicEpoch", "seen_term"), ("MonotonicHighWatermark", "seen_commit")])
def test_terms_and_commit_indexes_do_not_go_back_in_a_life(kind: str, seen: str) -> None:
    made, leader = world()
    made.loop.run_for(1.0)
    setattr(leader, seen, getattr(leader, seen) + 1)
    with pytest.raises(Violation) as found:
        made.loop.run_for(1.0)
    assert found.value.kind == kind


class View:
    """As much of a snapshot as a voter reads."""

    def __init__(self, end_offset: int, state: bytes) -> None:
        self.snapshot_id = SimpleNamespace(end_offset=end_offset)
        self._state = state

    def chunks(self) -> list[bytes]:
        return [self._state]


def load(voter: SimVoter, end_offset: int, state: bytes) -> None:
    voter.on_snapshot_loaded(cast(SnapshotView, View(end_offset, state)))


def test_a_follower_may_load_a_newer_snapshot_and_a_leader_none() -> None:
    made, leader = world()
    made.loop.run_for(1.0)
    checked = made.checker
    checked.apply(1, 0, 0, 1, batch(0))
    follower = next(voter for voter in made.voters.values() if voter is not leader)
    state = next_state(EMPTY_STATE, batch(0))
    load(follower, 1, state)
    assert follower.high_watermark == 1 and follower.state == state
    with pytest.raises(Violation) as found:
        load(follower, 0, EMPTY_STATE)
    assert found.value.kind == "MonotonicHighWatermark"
    with pytest.raises(Violation) as found:
        load(leader, 1, state)
    assert found.value.kind == "LeaderLoadsNoSnapshot"


@pytest.mark.parametrize(
    ("own_snapshot", "active", "allowed"), [(1, False, True), (1, True, False), (0, False, False), (2, False, False)]
)
def test_a_leader_that_is_not_active_loads_the_snapshot_it_started_with_and_once_only(
    own_snapshot: int, active: bool, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single voter is elected at once, while it still loads; it answers nothing until it is active."""
    made, leader = world()
    made.loop.run_for(1.0)
    made.checker.apply(1, 0, 0, 1, batch(0))
    assert leader.log is not None
    monkeypatch.setattr(type(leader.log), "is_active", lambda log: active)
    leader.high_watermark, leader.own_snapshot = 0, own_snapshot
    for may in (allowed, False):
        try:
            load(leader, 1, next_state(EMPTY_STATE, batch(0)))
        except Violation as violation:
            assert (violation.kind, may) == ("LeaderLoadsNoSnapshot", False)
        else:
            assert may


def test_a_state_that_is_not_the_replays_is_reported() -> None:
    made, leader = world()
    leader.on_batch_applied(0, 1, 0, batch(0))
    follower = next(voter for voter in made.voters.values() if voter is not leader)
    follower.state = b"x" * 16
    with pytest.raises(Violation) as found:
        follower.on_batch_applied(0, 1, 0, batch(0))
    assert found.value.kind == "StateIsReplay"


def test_a_quorum_that_does_not_settle_is_reported() -> None:
    made, _ = world()
    made.heal()
    made.is_at_rest = lambda: False  # type: ignore[method-assign]  # as if a voter stayed behind
    with pytest.raises(Violation) as found:
        made.heal()
    assert found.value.kind == "Convergence"
