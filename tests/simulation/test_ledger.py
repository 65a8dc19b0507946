"""The ledger knows what is committed, and the shadow what lies on a disk; both without asking the code under test."""

import random

import pytest

from kvorum.protocol.records import Record, build_batch, patch_place
from kvorum.storage.names import LOG_SUFFIX, segment_file
from sim.disk import SimDisk
from sim.ledger import Ledger, ReplicaLog, Violation

FOLDER = "/d/orders-0"


class Replica:
    """A log's files, written as storage lays them out."""

    def __init__(self) -> None:
        self.disk = SimDisk(random.Random(1))
        self.disk.mkdir(FOLDER)
        self.end = 0
        self.base = 0
        self.disk.open(self.path, create=True)

    @property
    def path(self) -> str:
        return segment_file(FOLDER, self.base, LOG_SUFFIX)

    def append(self, value: bytes, epoch: int = 0) -> int:
        """Append one record; return the CRC of its batch."""
        batch = build_batch([Record(value=value, timestamp=1)])
        patch_place(memoryview(batch), 0, self.end, epoch)
        file = self.disk.open(self.path)
        file.pwrite(batch, file.size())
        self.end += 1
        return int.from_bytes(batch[17:21], "big")

    def roll(self) -> None:
        self.base = self.end
        self.disk.open(self.path, create=True)

    def shadow(self) -> ReplicaLog:
        shadow = ReplicaLog(self.disk, FOLDER)
        shadow.follow(self.end)
        return shadow


def replica_of(*values: bytes, epoch: int = 0) -> Replica:
    replica = Replica()
    for value in values:
        replica.append(value, epoch)
    return replica


def test_a_shadow_follows_appends_segments_and_truncations() -> None:
    replica = replica_of(b"a", b"b")
    shadow = replica.shadow()
    replica.roll()
    replica.append(b"c", 1)
    shadow.follow(replica.end)
    assert [(entry.base_offset, entry.epoch) for entry in shadow.entries] == [(0, 0), (1, 0), (2, 1)]
    shadow.follow(1)
    assert shadow.end == 1
    other = replica_of(b"a", b"b")
    again = other.shadow()
    assert [entry.crc for entry in again.entries[:1]] == [entry.crc for entry in shadow.entries]


def test_entries_truncated_by_an_interrupted_event_are_not_on_the_disk() -> None:
    """A kill -9 loses nothing of what is there; records that a follower has just truncated are not."""
    replica = replica_of(b"a", b"b")
    replica.roll()
    replica.append(b"c", 1)
    shadow = replica.shadow()
    assert len(shadow.still_on_disk()) == 3
    replica.disk.open(replica.path).truncate(0)
    assert [entry.base_offset for entry in shadow.still_on_disk()] == [0, 1]
    other = Replica()
    other.disk, other.end = replica.disk, 2
    other.base = 2
    other.append(b"x", 1)
    assert [entry.base_offset for entry in shadow.still_on_disk()] == [0, 1], "another record in its place"


def test_a_log_end_that_is_not_on_the_disk_is_a_violation() -> None:
    replica = replica_of(b"a")
    with pytest.raises(Violation, match="LogOnDisk"):
        replica.shadow().follow(2)


def test_every_replica_must_have_the_committed_records() -> None:
    ledger, leader, follower = Ledger("orders-0"), replica_of(b"a", b"b"), replica_of(b"a", b"x")
    assert ledger.commit(leader.shadow(), 2, "leader")
    assert not ledger.commit(leader.shadow(), 2, "leader")
    shadow = follower.shadow()
    ledger.verify(shadow, 1, "follower")
    with pytest.raises(Violation, match="LogMatching"):
        ledger.verify(shadow, 2, "follower")


def test_the_same_record_of_another_epoch_is_not_the_same() -> None:
    ledger, other = Ledger("orders-0"), replica_of(b"a", epoch=1)
    ledger.commit(replica_of(b"a").shadow(), 1, "leader")
    assert "epoch 1" in str(ledger.missing_batches(other.shadow()))


def test_missing_and_different_records_are_lacking() -> None:
    ledger = Ledger("orders-0")
    ledger.commit(replica_of(b"a", b"b").shadow(), 2, "leader")
    assert ledger.missing_batches(replica_of(b"a", b"b", b"c").shadow()) is None
    assert "ends at 1" in str(ledger.missing_batches(replica_of(b"a").shadow()))
    assert "committed is" in str(ledger.missing_batches(replica_of(b"a", b"x", b"c").shadow()))


def test_an_acknowledged_batch_is_committed_at_its_offset() -> None:
    ledger, leader = Ledger("orders-0"), Replica()
    crc = leader.append(b"a")
    assert ledger.check_acknowledgement(0, crc) is not None
    ledger.commit(leader.shadow(), 1, "leader")
    assert ledger.check_acknowledgement(0, crc) is None
    assert ledger.check_acknowledgement(0, crc + 1) is not None and ledger.check_acknowledgement(1, crc) is not None


def test_after_a_legal_loss_the_ledger_continues_from_the_new_leaders_log() -> None:
    ledger, survivor = Ledger("orders-0"), replica_of(b"a")
    ledger.commit(replica_of(b"a", b"b").shadow(), 2, "leader")
    shadow = survivor.shadow()
    assert ledger.missing_batches(shadow) is not None
    ledger.lose(shadow, "unclean election")
    assert ledger.end == 1 and "1 committed records lost" in ledger.losses[0]
    survivor.append(b"c", 1)
    shadow.follow(2)
    assert ledger.commit(shadow, 2, "new leader") and ledger.end == 2


def test_records_below_a_replicas_log_start_are_deleted() -> None:
    ledger, leader, follower = Ledger("orders-0"), replica_of(b"a"), replica_of(b"a")
    leader.append(b"b", 1)
    follower.append(b"x", 0)
    for replica in (leader, follower):
        replica.append(b"c", 1)
    ledger.commit(leader.shadow(), 3, "leader")
    shadow = follower.shadow()
    with pytest.raises(Violation, match="LogMatching"):
        ledger.verify(shadow, 3, "follower")
    assert ledger.missing_batches(shadow) is not None
    shadow.deleted_below = 2
    ledger.verify(shadow, 3, "follower")
    assert ledger.missing_batches(shadow) is None and shadow.verified_below == 3


def test_deleted_records_may_return_with_a_deposed_leader() -> None:
    ledger, deposed = Ledger("orders-0"), replica_of(b"a", b"x")
    ledger.commit(replica_of(b"a", b"b", b"c").shadow(), 3, "leader")
    shadow = deposed.shadow()
    with pytest.raises(Violation, match="LogMatching"):
        ledger.verify(shadow, 2, "follower")
    ledger.starts.rise(2)
    ledger.verify(shadow, 2, "follower")


def test_the_lowest_offset_that_was_lost_legally_is_known() -> None:
    ledger = Ledger("orders-0")
    ledger.commit(replica_of(b"a", b"b", b"c").shadow(), 3, "leader")
    assert ledger.lost_from is None
    whole, shadow = replica_of(b"a", b"b", b"c").shadow(), replica_of(b"a").shadow()
    assert ledger.missing_batches(whole) is None
    ledger.lose(whole, "unclean election")
    assert ledger.lost_from is None
    assert ledger.missing_batches(shadow) is not None
    ledger.lose(shadow, "unclean election")
    assert ledger.lost_from == 1
