"""What is read from a replica's folder."""

from pathlib import Path

from kvorum.chaos.history import HistoryWriter, Replica
from kvorum.chaos.workload.inspect import read_replica, write_images, write_replicas
from kvorum.chaos.workload.recorder import Recorder
from kvorum.protocol.records import Record, build_batch


def batch(offset: int, *values: bytes, epoch: int = 0) -> bytes:
    records = [Record(value=value, timestamp=1) for value in values]
    return bytes(build_batch(records, base_offset=offset, partition_leader_epoch=epoch))


def segment(folder: Path, base: int, *data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base:020d}.log").write_bytes(b"".join(data))


def test_batches_of_all_segments_are_reported_and_a_torn_tail_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    segment(folder, 5, batch(5, b"a", b"b"), batch(7, b"c"))
    segment(folder, 8, batch(8, b"d"), batch(9, b"e")[:-1])
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 5\n3 8\n")
    found = read_replica(folder)
    assert [each[:2] for each in found.batches] == [(5, 6), (7, 7), (8, 8)]
    assert (found.start, found.end, found.epochs) == (5, 9, [[0, 5], [3, 8]])


def test_a_batch_that_differs_by_a_byte_has_another_digest(tmp_path: Path) -> None:
    segment(tmp_path / "a", 0, batch(0, b"same"), batch(1, b"x"))
    segment(tmp_path / "b", 0, batch(0, b"same"), batch(1, b"y"))
    segment(tmp_path / "c", 0, batch(0, b"same", epoch=1))
    one, other, third = (read_replica(tmp_path / name).batches for name in "abc")
    assert one[0] == other[0] and one[1][:2] == other[1][:2] and one[1][2] != other[1][2]
    assert third[0][2] != one[0][2], "the leader epoch counts"


def test_every_replica_there_is_becomes_an_event(tmp_path: Path) -> None:
    writer = HistoryWriter()
    segment(tmp_path / "one" / "orders-0", 0, batch(0, b"a"))
    segment(tmp_path / "two" / "orders-0", 0, batch(0, b"a"))
    segment(tmp_path / "two" / "orders-1", 0)
    directories = {1: [str(tmp_path / "one")], 2: [str(tmp_path / "gone"), str(tmp_path / "two")]}
    assert write_replicas(Recorder(writer), directories, {"orders-0": 1, "orders-1": 0}) == 3
    events = [event for event in writer.events if isinstance(event, Replica)]
    assert [(event.node, event.partition, event.end) for event in events] == [
        (1, "orders-0", 1),
        (2, "orders-0", 1),
        (2, "orders-1", 0),
    ]


def test_without_metadata_all_images_are_the_empty_one(tmp_path: Path) -> None:
    writer = HistoryWriter()
    assert write_images(Recorder(writer), {"node-1/broker": str(tmp_path)}) == 1
