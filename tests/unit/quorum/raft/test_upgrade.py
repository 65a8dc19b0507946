"""A static quorum made a dynamic one, a story at a time: over the simulated quorum, no chance but the seed's."""

import asyncio
from collections.abc import Callable

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import Record, build_batch
from kvorum.quorum.raft import greetings
from kvorum.quorum.raft.journal_format import JournalCorrupt
from kvorum.quorum.raft.membership import NOT_SUPPORTED
from kvorum.quorum.raft.opening import check_identity, open_raft
from kvorum.quorum.raft.settings import RaftSettings
from kvorum.quorum.raft.voters import Voters
from sim.quorum import QuorumSimulation
from sim.quorum_options import SEGMENT_BYTES, Options
from sim.quorum_voter import PATH, SimVoter, endpoint

SETTINGS = RaftSettings(
    election_timeout_min_s=0.3,
    election_timeout_max_s=0.6,
    heartbeat_s=0.09,
    check_quorum_timeout_s=0.5,
    segment_bytes=SEGMENT_BYTES,
)


def world(nodes: int = 4, static: int = 3, settings: RaftSettings = SETTINGS) -> QuorumSimulation:
    """Return a booted static quorum at rest; the nodes that are none of its voters follow."""
    made = QuorumSimulation(1, Options(voters=nodes, static=static, known_directories=True, settings=settings))
    made.boot(load=False)
    made.leader()
    rest(made)
    return made


def view(node: SimVoter) -> Voters:
    assert node.log is not None
    return node.log.node.replica.voters


def settle(made: QuorumSimulation, condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    assert made.loop.run_until(condition, limit_s=limit_s)
    made.check_errors()


def rest(made: QuorumSimulation) -> None:
    """Wait until everybody that runs has everything, the voter set too, and knows it to be committed."""

    def quiet() -> bool:
        running = [node for node in made.voters.values() if node.log is not None]
        sets = [view(node) for node in running]
        alike = len({node.high_watermark for node in running}) == 1
        return alike and all(not each.pending and each.committed == sets[0].committed is not None for each in sets)

    settle(made, quiet)
    made.loop.run_for(0.5)  # the last answers reach the leader


def upgrade(made: QuorumSimulation, leader: SimVoter) -> None:
    change = made.do(leader, lambda log: log.membership.upgrade())
    assert change is not None
    done(made, change)
    rest(made)


def done(made: QuorumSimulation, change: asyncio.Future[None]) -> None:
    settle(made, change.done)
    change.result()


def add(made: QuorumSimulation, leader: SimVoter, node: SimVoter) -> None:
    where = [endpoint(node.node_id)]
    done(made, made.do(leader, lambda log: log.membership.add(node.node_id, node.directory_id, where)))
    rest(made)


def remove(made: QuorumSimulation, leader: SimVoter, node_id: int, directory_id: bytes) -> None:
    done(made, made.do(leader, lambda log: log.membership.remove(node_id, directory_id)))
    rest(made)


def refused(made: QuorumSimulation, leader: SimVoter, code: ErrorCode) -> str:
    with pytest.raises(KafkaError) as info:
        made.do(leader, lambda log: log.membership.upgrade())
    assert info.value.code is code
    return str(info.value.message)


def append(made: QuorumSimulation, leader: SimVoter) -> asyncio.Future[int]:
    batch = build_batch([Record(value=b"x", timestamp=1)])
    return made.do(leader, lambda log: log.append(batch, log.log_end_offset, log.epoch))


def lose(made: QuorumSimulation, node: SimVoter, *, static: bool = True) -> None:
    """Have a node come back with an empty disk, formatted as in the beginning or as an observer."""
    if node.host.alive:
        node.kill()
    node.disk.remove_tree("/node")
    node.format(None, b"new" + bytes(13), static=static)
    node.start()


def others(made: QuorumSimulation, leader: SimVoter) -> list[SimVoter]:
    return [node for node in made.voters.values() if node is not leader and node.is_static]


def test_the_first_dynamic_set_is_the_static_one_with_endpoints() -> None:
    made = world()
    leader = made.leader()
    before = dict(view(leader).committed or {})
    upgrade(made, leader)
    assert made.do(leader, lambda log: log.membership.upgrade()) is None, "it is one now"
    for node in made.voters.values():
        assert node.log is not None
        assert view(node).state.dynamic and view(node).committed == before and sorted(before) == [1, 2, 3]
        assert node.log.voter_endpoints() == {node_id: [endpoint(node_id)] for node_id in before}
    add(made, leader, made.voters[4])
    gone = others(made, leader)[0]
    remove(made, leader, gone.node_id, gone.directory_id)
    leader.kill()
    assert made.leader() in (made.voters[4], *others(made, leader)), "two of the three that vote now"


def test_a_dynamic_quorum_stays_dynamic_over_restarts_and_snapshots() -> None:
    made = world()
    leader = made.leader()
    upgrade(made, leader)
    add(made, leader, made.voters[4])
    taken = made.do(leader, lambda log: log.take_snapshot())
    settle(made, taken.done)
    made.loop.run_for(0.5)
    for node in made.voters.values():
        node.kill()
    for node in made.voters.values():
        node.start()
    leader = made.leader()
    rest(made)
    assert all(
        view(node).state.dynamic and sorted(view(node).in_force) == [1, 2, 3, 4] for node in made.voters.values()
    )
    lost = others(made, leader)[0]
    lose(made, lost)
    rest(made)
    assert view(lost).state.dynamic and view(lost).state.endpoints.keys() == {1, 2, 3, 4}


def test_a_snapshot_from_before_its_commit_does_not_contain_it() -> None:
    """The upgrade is in the leader's log alone when it writes one; the others elect one that never had it."""
    made = world(3)
    leader = made.leader()
    settle(made, append(made, leader).done)
    made.network.cut(leader.node_id, others(made, leader)[0].node_id)
    made.network.cut(leader.node_id, others(made, leader)[1].node_id)
    change = made.do(leader, lambda log: log.membership.upgrade())
    assert change is not None and view(leader).dynamic and not view(leader).state.dynamic
    taken = made.do(leader, lambda log: log.take_snapshot())
    settle(made, taken.done)
    assert leader.log is not None and leader.log.node.replica.snapshots.latest is not None
    assert leader.log.node.replica.snapshots.latest.endpoints is None
    settle(made, lambda: any(each.log is not None and each.log.is_active() for each in others(made, leader)))
    successor = next(each for each in others(made, leader) if each.log is not None and each.log.is_active())
    settle(made, append(made, successor).done)
    made.network.heal_all()
    rest(made)
    assert isinstance(change.exception(), KafkaError)
    assert not any(view(node).dynamic for node in made.voters.values()), "what was taken back never was"
    upgrade(made, made.leader())


def test_it_takes_every_voter_connected_under_the_directory_that_counts() -> None:
    made = world()
    leader = made.leader()
    other = others(made, leader)[0]
    other.kill()
    made.loop.run_for(1.0)
    message = refused(made, leader, ErrorCode.INVALID_UPDATE_VERSION)
    assert message.startswith(NOT_SUPPORTED) and NOT_SUPPORTED.endswith("because not all of the voters support it")
    assert f"ReplicaKey(id={other.node_id}," in message and "is not connected" in message
    made.network.cut(leader.node_id, other.node_id)
    lose(made, other)
    made.loop.run_for(1.0)
    refused(made, leader, ErrorCode.INVALID_UPDATE_VERSION)
    made.network.heal_all()
    settle(made, lambda: other.directory_id in (view(leader).committed or {}).values())
    rest(made)
    upgrade(made, leader)
    with pytest.raises(KafkaError) as info:
        made.do(other, lambda log: log.membership.check_upgrade())
    assert info.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_it_takes_software_that_knows_it_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    leader = made.leader()
    other = others(made, leader)[0]
    other.kill()
    monkeypatch.setattr(greetings, "KRAFT_VERSION_MAX", 0)
    other.start()
    made.loop.run_for(2.0)
    assert other.log is not None and view(leader).counts(other.node_id)
    refused(made, leader, ErrorCode.INVALID_UPDATE_VERSION)
    monkeypatch.undo()
    other.kill()
    other.start()
    made.loop.run_for(2.0)
    upgrade(made, leader)


def test_no_upgrade_while_a_set_is_not_committed() -> None:
    made = world()
    leader = made.leader()
    lost, kept = others(made, leader)
    lose(made, lost)
    settle(made, lambda: bool(view(leader).pending), 5.0)
    kept.host.paused = True
    message = refused(made, leader, ErrorCode.REQUEST_TIMED_OUT)
    assert "waiting for voters to commit the latest voter change" in message


@pytest.mark.parametrize("static", [True, False])
def test_a_voter_that_lost_its_disk_is_not_taken_in_again_by_itself(static: bool) -> None:
    """Neither as it was formatted once, with the voters in its configuration, nor as an observer."""
    made = world()
    leader = made.leader()
    upgrade(made, leader)
    lost = others(made, leader)[0]
    old = lost.directory_id
    lose(made, lost, static=static)
    rest(made)
    made.loop.run_for(2.0)
    assert view(leader).committed is not None and view(leader).in_force[lost.node_id] == old
    assert not view(leader).counts(lost.node_id) and not view(lost).may_stand()
    remove(made, leader, lost.node_id, old)
    add(made, leader, lost)
    leader.kill()
    assert made.leader() is not leader, "the new directory votes"


def test_a_voter_with_only_the_static_set_votes_for_a_new_voter() -> None:
    """Four vote, one is gone, one knows neither the upgrade nor the fourth, which has the longest log."""
    made = world()
    leader = made.leader()
    behind, other = others(made, leader)
    for node_id in made.ids:
        if node_id != behind.node_id:
            made.network.cut(node_id, behind.node_id)
            made.network.cut(behind.node_id, node_id)
    change = made.do(leader, lambda log: log.membership.upgrade())
    assert change is not None
    done(made, change)
    four = made.voters[4]
    where = [endpoint(4)]
    made.loop.run_for(0.3)
    done(made, made.do(leader, lambda log: log.membership.add(4, four.directory_id, where)))
    settle(made, lambda: view(other).committed == view(four).committed == view(leader).committed)
    made.network.cut(leader.node_id, other.node_id)
    append(made, leader)
    settle(made, lambda: four.log is not None and leader.log is not None and last(four) == last(leader) > last(other))
    leader.kill()
    assert not view(behind).dynamic
    made.network.heal_all()
    assert made.leader() is four
    rest(made)
    assert view(behind).state.dynamic and sorted(view(behind).in_force) == [1, 2, 3, 4]


def last(node: SimVoter) -> int:
    assert node.log is not None
    return node.log.node.replica.journal.last_index


def test_one_voter_alone_is_upgraded_and_gets_others() -> None:
    made = world(3, 1)
    one = made.leader()
    upgrade(made, one)
    add(made, one, made.voters[2])
    add(made, one, made.voters[3])
    old = one.directory_id
    lose(made, one, static=False)
    assert made.leader() is not one
    remove(made, made.leader(), 1, old)
    add(made, made.leader(), one)


def test_a_directory_with_the_upgrade_does_not_use_the_configured_voters() -> None:
    made = world()
    upgrade(made, made.leader())
    for node_id in (1, 4):
        node = made.voters[node_id]
        node.kill()
        state = open_raft(node.disk, PATH, segment_bytes=SEGMENT_BYTES).voters.state
        for voter_ids in ([], [1, 2, 3], [5]):
            check_identity(state, cluster_id="sim", node_id=node_id, voter_ids=voter_ids)
        with pytest.raises(JournalCorrupt, match="formatted for"):
            check_identity(state, cluster_id="sim", node_id=9, voter_ids=[])
