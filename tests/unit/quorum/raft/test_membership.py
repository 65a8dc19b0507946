"""Voters added, removed and moved, a story at a time: over the simulated quorum, no chance but the seed's."""

import asyncio
from collections.abc import Callable

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft import membership
from kvorum.quorum.raft.membership import VOTERS_MAX
from kvorum.quorum.raft.settings import RaftSettings
from sim.ledger import Violation
from sim.mutants.catalogue import apply_mutant
from sim.quorum import QuorumSimulation
from sim.quorum_checker import Checker
from sim.quorum_options import SEGMENT_BYTES, Options
from sim.quorum_voter import SimVoter

SETTINGS = RaftSettings(
    election_timeout_min_s=0.3,
    election_timeout_max_s=0.6,
    heartbeat_s=0.09,
    check_quorum_timeout_s=0.5,
    segment_bytes=SEGMENT_BYTES,
)


def world(nodes: int = 4, initial: int = 3) -> QuorumSimulation:
    """Return a booted quorum of so many nodes; `initial` of them vote at first, 0: all, for good."""
    made = QuorumSimulation(1, Options(voters=nodes, initial=initial, known_directories=True, settings=SETTINGS))
    made.boot(load=False)
    return made


def settle(made: QuorumSimulation, condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    assert made.loop.run_until(condition, limit_s=limit_s)
    made.check_errors()


def rest(made: QuorumSimulation) -> None:
    """Wait until everybody has everything, the voter set too, and knows it to be committed."""

    def quiet() -> bool:
        sets = [node.log.node.replica.voters for node in made.voters.values() if node.log is not None]
        return (
            made.is_at_rest()
            and all(each.present.keys() >= set(made.ids) - {each.node_id} for each in sets)
            and all(not each.pending and each.committed == sets[0].committed is not None for each in sets)
        )

    settle(made, quiet)
    made.loop.run_for(0.5)  # the last answers reach the leader


def where(node: SimVoter) -> list[tuple[str, str, int]]:
    return [("CONTROLLER", f"controller-{node.node_id}", 9093)]


def add(made: QuorumSimulation, leader: SimVoter, node: SimVoter) -> asyncio.Future[None]:
    return made.do(leader, lambda log: log.membership.add(node.node_id, node.directory_id, where(node)))


def remove(made: QuorumSimulation, leader: SimVoter, node: SimVoter) -> asyncio.Future[None]:
    return made.do(leader, lambda log: log.membership.remove(node.node_id, node.directory_id))


def done(made: QuorumSimulation, change: asyncio.Future[None]) -> None:
    settle(made, change.done)
    change.result()


def refused(code: ErrorCode, change: Callable[[], object]) -> str:
    with pytest.raises(KafkaError) as info:
        change()
    assert info.value.code is code
    return str(info.value.message)


def append(made: QuorumSimulation, leader: SimVoter) -> None:
    batch = build_batch([Record(value=b"x", timestamp=1)])
    future = made.do(leader, lambda log: log.append(batch, log.log_end_offset, log.epoch))
    settle(made, future.done)
    future.result()


def voters_of(node: SimVoter) -> list[int]:
    assert node.log is not None
    return sorted(node.log.node.replica.voters.in_force)


def test_an_observer_becomes_a_voter_and_a_majority_of_four_is_three() -> None:
    made = world()
    leader, four = made.leader(), made.voters[4]
    rest(made)
    done(made, add(made, leader, four))
    settle(made, lambda: all(voters_of(node) == [1, 2, 3, 4] for node in made.voters.values()))
    for node in [node for node in made.voters.values() if node is not leader][:2]:
        node.kill()
    made.loop.run_for(2.0)
    assert leader.log is not None and not leader.log.is_active(), "two of four are no majority"


def test_one_voter_becomes_two_and_the_first_one_leaves() -> None:
    """The leader counts for the set that it is not in any more only through the other; then it hands over."""
    made = world(2, 1)
    one, two = made.voters[1], made.voters[2]
    assert made.leader() is one
    rest(made)
    done(made, add(made, one, two))
    append(made, one)
    done(made, remove(made, one, one))
    settle(made, lambda: two.log is not None and two.log.is_active())
    append(made, two)
    settle(made, lambda: one.high_watermark == two.high_watermark, 5.0)
    two.kill()
    made.loop.run_for(3.0)
    assert one.log is not None and not one.log.is_active(), "who was removed is not elected"
    two.start()
    assert made.leader() is two


def test_a_change_is_refused_while_the_one_before_is_not_committed() -> None:
    made = world()
    leader, four = made.leader(), made.voters[4]
    rest(made)
    change = add(made, leader, four)
    message = refused(ErrorCode.REQUEST_TIMED_OUT, lambda: remove(made, leader, four))
    assert message == "Request timed out waiting for leader to handle previous voter change request"
    done(made, change)
    done(made, remove(made, leader, four))


def test_a_change_is_refused_while_an_inherited_one_is_not_committed() -> None:
    """Nobody answers the leader any more: its change is in its log, and whoever waits for it is not the only guard."""
    made = world()
    leader, four = made.leader(), made.voters[4]
    rest(made)
    change = add(made, leader, four)
    made.do(leader, lambda log: log.membership.lost_leadership())
    assert isinstance(change.exception(), KafkaError)
    message = refused(ErrorCode.REQUEST_TIMED_OUT, lambda: remove(made, leader, four))
    assert "waiting for voters to commit the latest voter change at Optional[" in message


def two_at_once() -> QuorumSimulation:
    """Have a leader that reaches nobody but two observers make both of them voters, the second at once."""
    made = world(5, 3)
    leader = made.leader()
    rest(made)
    followers = [node_id for node_id in (1, 2, 3) if node_id != leader.node_id]
    for one in followers:
        for other in (leader.node_id, 4, 5):
            made.network.cut(one, other)
            made.network.cut(other, one)
    add(made, leader, made.voters[4])
    add(made, leader, made.voters[5])
    made.loop.run_for(5.0)
    return made


def test_two_changes_at_once_would_be_two_majorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of five commit what the two others never hear of, while these elect a leader of their own: 2 of 3."""
    with pytest.raises(KafkaError, match="waiting for leader to handle previous voter change"):
        two_at_once()
    with apply_mutant("change-before-committed"):
        with pytest.raises(Violation, match="OneSetAtATime"):
            two_at_once()
        monkeypatch.setattr(Checker, "check_voter_sets", lambda *_: None)
        made = two_at_once()
        active = [node for node in made.voters.values() if node.log is not None and node.log.is_active()]
        assert len(active) == 2, "each of them has a majority"


def test_errors_of_the_voter_are_reported() -> None:
    made = world()
    leader, four = made.leader(), made.voters[4]
    follower = next(node for node in made.voters.values() if node not in (leader, four))
    rest(made)
    assert "is already part of the set" in refused(ErrorCode.DUPLICATE_VOTER, lambda: add(made, leader, follower))
    assert refused(ErrorCode.VOTER_NOT_FOUND, lambda: remove(made, leader, four)).startswith("Cannot remove voter")
    refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, lambda: add(made, follower, four))
    four.directory_id, other = b"?" * 16, four.directory_id
    assert refused(ErrorCode.REQUEST_TIMED_OUT, lambda: add(made, leader, four)).endswith("since it is lagging behind")
    four.directory_id = other
    four.kill()
    made.loop.run_for(0.5)
    refused(ErrorCode.REQUEST_TIMED_OUT, lambda: add(made, leader, four))


def test_an_observer_without_appends_clears_its_leader() -> None:
    """Without a leader it requests the voters from the bootstrap servers: their addresses may have changed."""
    made = world()
    leader, four = made.leader(), made.voters[4]
    rest(made)
    assert four.log is not None and four.log.leader_id == leader.node_id
    made.network.cut(leader.node_id, 4)
    settle(made, lambda: four.log is not None and four.log.leader_id is None)
    made.network.heal_all()
    settle(made, lambda: four.log is not None and four.log.leader_id == leader.node_id)


def test_an_observer_that_lags_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "LAG_ENTRIES_MAX", 0)
    made = world()
    leader, four = made.leader(), made.voters[4]
    rest(made)
    made.network.cut(leader.node_id, 4)
    append(made, leader)
    assert refused(ErrorCode.REQUEST_TIMED_OUT, lambda: add(made, leader, four)).endswith("since it is lagging behind")
    made.network.heal_all()
    rest(made)
    done(made, add(made, leader, four))


def test_a_static_quorum_changes_nothing() -> None:
    made = world(3, 0)
    leader = made.leader()
    rest(made)
    message = refused(ErrorCode.UNSUPPORTED_VERSION, lambda: remove(made, leader, leader))
    assert message == "Cluster doesn't support removing voter because the kraft.version feature is 0"


def test_the_last_voter_stays_and_there_are_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(2, 1)
    leader, other = made.leader(), made.voters[2]
    rest(made)
    refused(ErrorCode.VOTER_NOT_FOUND, lambda: remove(made, leader, leader))
    monkeypatch.setattr(membership, "VOTERS_MAX", 1)
    assert "is reached" in refused(ErrorCode.INVALID_REQUEST, lambda: add(made, leader, other))
    assert VOTERS_MAX == 9


def test_a_voters_endpoints_are_in_every_log() -> None:
    made = world()
    leader = made.leader()
    rest(made)
    moved = next(node for node in made.voters.values() if node is not leader)
    ends = [("CONTROLLER", "elsewhere", 1)]
    change = made.do(leader, lambda log: log.membership.update(moved.node_id, moved.directory_id, ends))
    assert change is not None
    done(made, change)
    logs = [node.log for node in made.voters.values() if node.log is not None]
    settle(made, lambda: all(log.voter_endpoints()[moved.node_id] == ends for log in logs))
    assert made.do(leader, lambda log: log.membership.update(moved.node_id, moved.directory_id, ends)) is None
    stranger = made.voters[4]
    refused(
        ErrorCode.VOTER_NOT_FOUND,
        lambda: made.do(leader, lambda log: log.membership.update(4, stranger.directory_id, ends)),
    )


def test_voters_and_endpoints_are_read_from_a_snapshot() -> None:
    """A node that lags behind the log's beginning learns who votes from the snapshot alone, and keeps it."""
    made = world()
    leader, four = made.leader(), made.voters[4]
    rest(made)
    done(made, add(made, leader, four))
    rest(made)
    four.kill()
    append(made, leader)
    taken = made.do(leader, lambda log: log.take_snapshot())
    settle(made, taken.done)
    four.disk.remove_tree("/node")
    four.format(None, b"new" + bytes(13))
    four.start()
    rest(made)
    assert voters_of(four) == [1, 2, 3, 4]
    assert four.log is not None and four.log.voter_endpoints()[2] == where(made.voters[2])


def test_a_voter_that_lost_its_disk_is_removed_and_added_again() -> None:
    made = world(3, 3)
    leader = made.leader()
    rest(made)
    lost = next(node for node in made.voters.values() if node is not leader)
    old = lost.directory_id
    lost.kill()
    lost.disk.remove_tree("/node")
    lost.format(None, b"new" + bytes(13))
    lost.start()
    rest(made)
    made.loop.run_for(1.0)
    assert leader.log is not None
    rows = [(row.node_id, row.is_voter, bytes(row.directory_id)) for row in leader.log.replicas()]
    assert (lost.node_id, True, old) in rows and (lost.node_id, False, lost.directory_id) in rows
    refused(ErrorCode.DUPLICATE_VOTER, lambda: add(made, leader, lost))
    done(made, made.do(leader, lambda log: log.membership.remove(lost.node_id, old)))
    done(made, add(made, leader, lost))
    rest(made)
    leader.kill()
    assert made.leader() is not leader, "the new directory votes"


def test_an_operator_may_readmit_a_lost_voter_when_no_leader_is_left() -> None:
    made = world(3, 3)
    leader = made.leader()
    append(made, leader)
    rest(made)
    lost, kept = (node for node in made.voters.values() if node is not leader)
    lost.kill()
    lost.disk.remove_tree("/node")
    lost.format(None, b"new" + bytes(13))
    leader.kill()
    lost.start()
    made.loop.run_for(3.0)
    assert kept.log is not None and not kept.log.is_active()
    made.do(kept, lambda log: log.readmit(lost.node_id, Uuid(lost.directory_id)))
    settle(made, lambda: kept.log is not None and kept.log.is_active())
    append(made, kept)
    leader.start()
    rest(made)
    assert kept.log.node.replica.voters.committed == {each.node_id: each.directory_id for each in made.voters.values()}
