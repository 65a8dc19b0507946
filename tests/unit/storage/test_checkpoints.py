"""The small files: Kafka's texts to the letter, and what happens to damaged ones."""

import contextlib
import json

import pytest

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.storage import checkpoints
from kvorum.storage.checkpoints import CheckpointError, MetaProperties
from kvorum.storage.names import marked_folder, offset_of, parse_folder, segment_file
from sim.disk import PowerLoss
from tests.unit.storage.kit import new_disk

TOPIC_ID = Uuid(b"0123456789abcdef")


def test_offset_checkpoints_are_kafkas() -> None:
    offsets = {TopicPartition("a.b-c", 0): 5, TopicPartition("x", 12): 2**40}
    data = checkpoints.encode_offsets(offsets)
    assert data == b"0\n2\na.b-c 0 5\nx 12 1099511627776\n"
    assert checkpoints.decode_offsets(data) == offsets
    assert checkpoints.decode_offsets(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"0\n1\na 0 -1\n", b"0\nx\n", b"\xff"]
)
def test_a_damaged_offset_checkpoint_is_refused(data: bytes) -> None:
    disk = new_disk()
    disk.write_atomic("/data/some-checkpoint", data)
    with pytest.raises(CheckpointError, match="some-checkpoint"):
        checkpoints.read_offsets(disk, "/data", "some-checkpoint")


def test_no_checkpoint_is_an_empty_one() -> None:
    assert checkpoints.read_offsets(new_disk(), "/data", checkpoints.RECOVERY_POINTS) == {}


def test_the_clean_shutdown_mark_is_taken_once() -> None:
    disk = new_disk()
    assert checkpoints.take_clean_shutdown(disk, "/data") is None
    checkpoints.write_clean_shutdown(disk, "/data", 42)
    assert json.loads(disk.read("/data/.kafka_cleanshutdown")) == {"version": 0, "brokerEpoch": 42}
    assert checkpoints.take_clean_shutdown(disk, "/data") == 42
    disk.crash()
    assert checkpoints.take_clean_shutdown(disk, "/data") is None


def test_a_mark_without_an_epoch_is_a_mark() -> None:
    disk = new_disk()
    for content in (b"", b"{}", b"[]", b"garbage"):
        disk.write_atomic("/data/.kafka_cleanshutdown", content)
        assert checkpoints.take_clean_shutdown(disk, "/data") == -1


def test_meta_properties_are_kafkas() -> None:
    disk = new_disk()
    written = MetaProperties("cluster-id", 3, TOPIC_ID)
    checkpoints.write_meta_properties(disk, "/data", written)
    lines = disk.read("/data/meta.properties").decode().splitlines()
    assert lines[1:] == ["version=1", "cluster.id=cluster-id", "node.id=3", f"directory.id={TOPIC_ID}"]
    assert checkpoints.read_meta_properties(disk, "/data") == written


def test_meta_properties_of_apache_kafka_are_read() -> None:
    disk = new_disk()
    text = f"#\n#Mon Jan 05 10:00:00 UTC 2026\ncluster.id=abc\ndirectory.id={TOPIC_ID}\nnode.id=1\nversion=1\n"
    disk.write_atomic("/data/meta.properties", text.encode())
    assert checkpoints.read_meta_properties(disk, "/data") == MetaProperties("abc", 1, TOPIC_ID)
    assert checkpoints.read_meta_properties(disk, "/elsewhere") is None


@pytest.mark.parametrize(
    "text",
    ["", "version=0\nbroker.id=1\n", "version=1\nnode.id=1\ndirectory.id=x\ncluster.id=c", "version=1\nnode.id=1\n",
     f"version=1\ncluster.id=c\nnode.id=one\ndirectory.id={TOPIC_ID}"],
)  # fmt: skip
def test_an_identity_that_cannot_be_is_refused(text: str) -> None:
    disk = new_disk()
    disk.write_atomic("/data/meta.properties", text.encode())
    with pytest.raises(CheckpointError, match=r"meta\.properties"):
        checkpoints.read_meta_properties(disk, "/data")


def test_partition_metadata_is_kafkas() -> None:
    disk = new_disk()
    assert checkpoints.read_partition_metadata(disk, "/data") is None
    checkpoints.write_partition_metadata(disk, "/data", TOPIC_ID)
    assert disk.read("/data/partition.metadata") == f"version: 0\ntopic_id: {TOPIC_ID}\n".encode()
    assert checkpoints.read_partition_metadata(disk, "/data") == TOPIC_ID


@pytest.mark.parametrize(
    "data", [b"", b"version: 0\n", b"version: 1\ntopic_id: x\n", b"version: 0\ntopic_id: x\n", bytes(40)]
)
def test_torn_partition_metadata_counts_as_none(data: bytes) -> None:
    disk = new_disk()
    disk.write_atomic("/data/partition.metadata", data)
    assert checkpoints.read_partition_metadata(disk, "/data") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topic-0", TopicPartition("topic", 0)),
        ("a-b.c_d-17", TopicPartition("a-b.c_d", 17)),
        ("topic", None),
        ("-1", None),
        ("topic-x", None),
        ("to pic-0", None),
        (marked_folder(TopicPartition("topic", 3), "0" * 32, "-delete"), None),
        ("0-0", TopicPartition("0", 0)),
    ],
)
def test_folder_names(name: str, expected: TopicPartition | None) -> None:
    assert parse_folder(name) == expected


def test_marked_folders_fit_any_file_system() -> None:
    assert marked_folder(TopicPartition("topic", 3), "f" * 32, "-delete") == "topic-3." + "f" * 32 + "-delete"
    assert len(marked_folder(TopicPartition("t" * 249, 12345), "f" * 32, "-stray")) == 255


@pytest.mark.parametrize(
    ("name", "offset"), [("00000000000000000042.log", 42), ("42.log", None), ("x" * 20 + ".log", None), ("a", None)]
)
def test_segment_names(name: str, offset: int | None) -> None:
    assert offset_of(name) == offset
    if offset is not None:
        assert segment_file("/f", offset, ".log") == f"/f/{name}"


def test_checkpoints_survive_a_crash_at_any_step() -> None:
    """Either the old or the new one is there, whole."""
    old, new = {TopicPartition("t", 0): 1}, {TopicPartition("t", index): index for index in range(500)}
    for steps in range(8):
        disk = new_disk(steps)
        checkpoints.write_offsets(disk, "/data", "checkpoint", checkpoints.encode_offsets(old))
        disk.power(steps)
        with contextlib.suppress(PowerLoss):
            checkpoints.write_offsets(disk, "/data", "checkpoint", checkpoints.encode_offsets(new))
        disk.crash()
        assert checkpoints.read_offsets(disk, "/data", "checkpoint") in (old, new)
