"""When Raft writes snapshots: by size, by age (metadata.log.max.snapshot.interval.ms), on demand, and when not."""

import pytest

from kvorum.quorum.raft.log import NothingToSnapshot, SnapshotBusy, SnapshotId, SnapshotTaken
from sim.quorum import QuorumSimulation
from sim.quorum_voter import PATH, SimVoter
from tests.unit.quorum.raft.test_scenarios import append, appended, settle, world

INTERVAL_S = 30.0


def names(voter: SimVoter) -> list[str]:
    """Return a voter's snapshots by file name, which begins with the index."""
    return sorted(name for name in voter.disk.listdir(f"{PATH}/snapshots") if name.endswith(".snapshot"))


def written(made: QuorumSimulation) -> list[list[str]]:
    return [names(voter) for voter in made.voters.values()]


@pytest.mark.parametrize("voters", [1, 3])
def test_a_snapshot_is_written_if_the_last_one_is_old_and_there_are_new_entries(voters: int) -> None:
    made = world(voters, snapshot_interval_s=INTERVAL_S)
    leader = made.leader()
    appended(made, leader)
    made.loop.run_for(INTERVAL_S * 0.8)
    assert written(made) == [[]] * voters, "not old enough"
    made.loop.run_for(INTERVAL_S * 0.4)
    first = written(made)
    assert [len(each) for each in first] == [1] * voters, "each voter writes its own"
    assert leader.log is not None and leader.log.log_start_offset == 1
    reported = leader.log.node.snapshotting
    assert reported.written_bytes == len(leader.disk.read(f"{PATH}/snapshots/{names(leader)[0]}"))
    assert 0 < made.do(leader, lambda _: reported.age_s) < INTERVAL_S * 0.4

    made.loop.run_for(INTERVAL_S * 5)
    assert written(made) == first, "nothing has come since"

    appended(made, made.leader())
    log = leader.log
    settle(made, lambda: log.log_start_offset == 2 and [len(each) for each in written(made)] == [2] * voters)


def test_the_age_counts_from_the_last_snapshot_of_any_kind() -> None:
    made = world(1, snapshot_interval_s=INTERVAL_S)
    leader = made.leader()
    appended(made, leader)
    made.loop.run_for(INTERVAL_S * 0.8)
    taken = made.do(leader, lambda log: log.take_snapshot())
    settle(made, taken.done)
    appended(made, leader)
    made.loop.run_for(INTERVAL_S * 0.8)
    assert len(names(leader)) == 1
    made.loop.run_for(INTERVAL_S * 0.4)
    assert len(names(leader)) == 2


def test_an_interval_of_zero_switches_snapshots_by_age_off_and_those_by_size_stay() -> None:
    made = world(1, snapshot_interval_s=0.0, snapshot_bytes=2000)
    leader = made.leader()
    appended(made, leader, 3)
    made.loop.run_for(4000.0)
    assert names(leader) == []
    future = append(made, leader, bytes(2000))
    settle(made, lambda: future.done() and len(names(leader)) == 1)


@pytest.mark.parametrize("voters", [1, 3])
def test_a_snapshot_on_demand_is_reported_with_its_size_and_only_one_is_written_at_a_time(voters: int) -> None:
    made = world(voters)
    leader = made.leader()
    appended(made, leader, 3)
    log = leader.log
    assert log is not None
    requested = made.do(leader, lambda log: made.loop.create_task(log.snapshot_now()))
    again = made.do(leader, lambda log: made.loop.create_task(log.snapshot_now()))
    settle(made, lambda: requested.done() and again.done())
    assert isinstance(again.exception(), SnapshotBusy)
    (name,) = names(leader)
    size = len(leader.disk.read(f"{PATH}/snapshots/{name}"))
    there = SnapshotId(end_offset=3, epoch=log.epoch)
    assert requested.result() == SnapshotTaken(snapshot_id=there, size=size, written=True)
    unchanged = made.do(leader, lambda log: made.loop.create_task(log.snapshot_now()))
    settle(made, unchanged.done)
    assert unchanged.result() == SnapshotTaken(snapshot_id=there, size=size, written=False)
    assert names(leader) == [name]
    appended(made, leader, 2)
    last = made.do(leader, lambda log: made.loop.create_task(log.snapshot_now()))
    settle(made, last.done)
    assert (last.result().snapshot_id.end_offset, last.result().written) == (5, True)
    assert len(names(leader)) == 2


def test_there_is_nothing_to_write_for_a_node_that_takes_no_part() -> None:
    made = world(1)
    leader = made.leader()
    appended(made, leader)
    made.do(leader, lambda log: log.stop())
    stopped = made.do(leader, lambda log: made.loop.create_task(log.snapshot_now()))
    settle(made, stopped.done)
    assert isinstance(stopped.exception(), NothingToSnapshot)
    assert names(leader) == []
