"""`kvorum metadata`: the tree at any offset, from files made here or over the wire, and what changed between two."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import describe_quorum, fetch, fetch_snapshot
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.raft.snapshot import SnapshotMeta, SnapshotStore
from kvorum.quorum.records import (
    AbortTransaction,
    BeginTransaction,
    Config,
    EndTransaction,
    Feature,
    MetadataRecord,
    Partition,
    PartitionChange,
    ProducerIds,
    Topic,
    encode,
)
from kvorum.quorum.snapshots import encode_snapshot
from kvorum.runtime.disk import OsDisk

ORDERS = Uuid(bytes(range(16)))


def partition(number: int) -> Partition:
    return Partition(topic_id=ORDERS, partition_id=number, replicas=(1, 2), isr=(1, 2), leader=1)


BATCHES: list[list[MetadataRecord]] = [
    [Feature(name="metadata.version", level=30)],  # 0
    [Topic(name="orders", topic_id=ORDERS), partition(0), partition(10), partition(2)],  # 1 to 4
    [PartitionChange(topic_id=ORDERS, partition_id=0, isr=(2,), leader=2)],  # 5
    [Config(resource_type=2, resource_name="orders", name="retention.ms", value="7")],  # 6
    [BeginTransaction(name="t"), Config(resource_type=4, resource_name="", name="a", value="1")],  # 7, 8
    [EndTransaction(), ProducerIds(broker_id=1, broker_epoch=0, next_producer_id=1000)],  # 9, 10
    [
        BeginTransaction(),
        Config(resource_type=4, resource_name="", name="b", value="1"),
        AbortTransaction(),
    ],  # 11 to 13
]
END = 13


def encoded(first: int) -> list[tuple[int, bytes]]:
    """Return (base offset, bytes) of each batch from an offset on."""
    found, offset = [], 0
    for batch in BATCHES:
        records = [Record(value=encode(each)) for each in batch]
        if offset >= first:
            found.append((offset, bytes(build_batch(records, base_offset=offset, partition_leader_epoch=3))))
        offset += len(batch)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of two segments, whole."""
    inner = tmp_path / "__cluster_metadata-0"
    inner.mkdir()
    parts = encoded(0)
    (inner / "00000000000000000000.log").write_bytes(b"".join(data for offset, data in parts if offset < 6))
    (inner / "00000000000000000006.log").write_bytes(b"".join(data for offset, data in parts if offset >= 6))
    return tmp_path


def snapshot_of_first() -> bytes:
    """Return the snapshot that stands for what is before offset 6."""
    delta = MetadataDelta(MetadataImage())
    for batch in BATCHES[:3]:
        for record in batch:
            delta.replay(record)
    return b"".join(encode_snapshot(delta.apply(5, 3).to_records(), 3, 1))


@pytest.fixture
def trimmed(tmp_path: Path) -> Path:
    """A log that begins behind a snapshot, which stands for what was before offset 6."""
    place = tmp_path / "trimmed"
    place.mkdir()
    (place / "00000000000000000006-0000000003.checkpoint").write_bytes(snapshot_of_first())
    (place / "00000000000000000006.log").write_bytes(b"".join(data for _, data in encoded(6)))
    return place


def run(folder: Path, *words: str, code: int = Exit.DONE) -> list[str]:
    result = CliRunner().invoke(main, ["metadata", *words, "--dir", str(folder)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return (result.stdout if code == Exit.DONE else result.stderr).splitlines()


def test_folders_are_listed_and_values_printed(folder: Path) -> None:
    assert run(folder, "ls") == ["image", "local"]
    assert run(folder, "ls", "/image") == ["configs", "features", "producerIds", "topics"]
    assert run(folder, "ls", "/image/topics/byName/orders") == ["0", "10", "2", "id"], "as Kafka's"
    assert run(folder, "cat", "/image/topics/byName/orders/0/leader") == ["2"]
    assert run(folder, "cat", "/image/topics/byName/*/[02]/isr") == [
        "[2]",
        "[1,2]",
    ]
    assert run(folder, "cat", f"/image/topics/byId/{ORDERS}") == ["orders"]
    assert run(folder, "tree", "/image/configs") == [
        *("BROKER:", "  <default>:", "    a:", "      1"),
        *("TOPIC:", "  orders:", "    retention.ms:", "      7"),
    ]
    assert run(folder, "find", "/image/features") == [
        "/image/features",
        "/image/features/finalizedVersions",
        "/image/features/finalizedVersions/metadata.version",
    ]
    assert json.loads("\n".join(run(folder, "tree", "/local", "-o", "json"))) == {"offset": str(END), "epoch": "3"}


def test_an_offset_shows_the_state_at_that_time(folder: Path, trimmed: Path) -> None:
    leader = "/image/topics/byName/orders/0/leader"
    for place in (folder, trimmed):
        assert run(place, "cat", leader, "--at", "5") == ["2"]
        assert "does not exist" in run(place, "cat", "/image/configs/TOPIC", "--at", "5", code=Exit.NOT_FOUND)[0]
        assert run(place, "cat", "/image/configs/TOPIC/orders/*", "--at", "6") == ["7"]
    assert run(folder, "cat", leader, "--at", "4") == ["1"]
    assert run(folder, "ls", "/image/topics/byName/orders", "--at", "3") == ["0", "10", "id"], "inside a batch"


def test_a_transaction_counts_when_it_is_whole(folder: Path) -> None:
    assert run(folder, "ls", "/image/configs", "--at", "8") == ["TOPIC"]
    assert run(folder, "ls", "/image/configs/BROKER/<default>", "--at", "9") == ["a"]
    assert run(folder, "ls", "/image/configs/BROKER/<default>") == ["a"], "what was aborted never was"


def test_the_difference_of_two_offsets(folder: Path) -> None:
    rows = json.loads("\n".join(run(folder, "diff", "4", "6", "-o", "json")))
    changed = {row["path"].rsplit("/", 1)[1]: (row["before"], row["after"]) for row in rows}
    assert changed == {
        "isr": ("[1,2]", "[2]"),
        "leader": ("1", "2"),
        "leaderEpoch": ("0", "1"),
        "partitionEpoch": ("0", "1"),
        "retention.ms": (None, "7"),
    }
    assert run(folder, "diff", "10", "13", "-o", "json") == ["[]"]


def test_missing_objects_are_reported(folder: Path, tmp_path: Path) -> None:
    assert f"the log ends at {END}" in run(folder, "ls", "--at", "99", code=Exit.FAILED)[0]
    assert "is a folder" in run(folder, "cat", "/image", code=Exit.USAGE)[0]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no metadata log" in run(empty, "ls", code=Exit.FAILED)[0]


def test_a_log_that_begins_after_the_requested_offset(trimmed: Path) -> None:
    assert "no snapshot covers it" in run(trimmed, "ls", "--at", "3", code=Exit.FAILED)[0]


def test_damaged_files_are_one_line_errors(trimmed: Path) -> None:
    snapshot = trimmed / "00000000000000000006-0000000003.checkpoint"
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[:-5])
    assert "after the last batch" in run(trimmed, "ls", code=Exit.FAILED)[0]
    snapshot.write_bytes(whole)
    segment = trimmed / "00000000000000000006.log"
    data = bytearray(segment.read_bytes())
    data[80] ^= 1
    segment.write_bytes(data)
    assert "CORRUPT_MESSAGE" in run(trimmed, "ls", code=Exit.FAILED)[0]


def test_a_controllers_own_snapshots_lie_beside_its_log(trimmed: Path) -> None:
    (trimmed / "00000000000000000006-0000000003.checkpoint").unlink()
    log = trimmed / "__cluster_metadata-0"
    log.mkdir()
    (trimmed / "00000000000000000006.log").rename(log / "00000000000000000006.log")
    store = SnapshotStore(OsDisk(), str(trimmed / "raft" / "snapshots"))
    store.load()
    meta = SnapshotMeta(index=9, term=1, snapshot_id=SnapshotId(end_offset=6, epoch=3), voters={1: bytes(16)})
    store.write(meta, iter([snapshot_of_first()]))
    for folder in (trimmed, log):
        assert run(folder, "cat", "/image/topics/byName/orders/0/leader", "--at", "5") == ["2"]
        assert run(folder, "cat", "/local/offset") == [str(END)]


class FakeLog:
    """A broker and the active controller: a log that begins at an offset, and the snapshot before it."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.requested: list[tuple[str, object]] = []

    async def ask(self, request: Any, response: type[Any], address: object = None, **_: object) -> Any:
        self.requested.append((type(request).__name__, address))
        if isinstance(request, describe_quorum.DescribeQuorumRequest):
            listener = describe_quorum.Listener(name="CONTROLLER", host="controller", port=9093)
            partition = describe_quorum.ResponsePartitionData(leader_id=7)
            topic = describe_quorum.ResponseTopicData(partitions=[partition])
            nodes = [describe_quorum.Node(node_id=7, listeners=[listener])]
            return describe_quorum.DescribeQuorumResponse(topics=[topic], nodes=nodes)
        if isinstance(request, fetch_snapshot.FetchSnapshotRequest):
            requested = request.topics[0].partitions[0]
            data = snapshot_of_first()
            row = fetch_snapshot.ResponsePartitionSnapshot(
                size=len(data),
                position=requested.position,
                unaligned_records=data[requested.position : requested.position + 100],
            )
            topics = [fetch_snapshot.ResponseTopicSnapshot(partitions=[row])]
            return fetch_snapshot.FetchSnapshotResponse(topics=topics)
        offset = request.topics[0].partitions[0].fetch_offset
        if offset >= self.start:
            records = b"".join(data for _, data in encoded(offset)[:2])
            row = fetch.PartitionData(records=memoryview(records), log_start_offset=self.start)
        elif address is None:
            row = fetch.PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        else:
            row = fetch.PartitionData(snapshot_id=fetch.SnapshotId(end_offset=6, epoch=3))
        return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[row])])


@pytest.mark.parametrize("start", [0, 6])
def test_over_the_wire_it_is_the_same_snapshot_or_not(start: int) -> None:
    log = FakeLog(start)

    async def ask(client: ClusterClient, *arguments: Any, **named: Any) -> Any:
        return await log.ask(*arguments, **named)

    with mock.patch.object(ClusterClient, "ask", ask):
        words = ["metadata", "tree", "/", "-o", "json", "-b", "broker:9092"]
        result = CliRunner().invoke(main, words)
    assert result.exit_code == Exit.DONE, result.output
    tree = json.loads(result.stdout)
    assert tree["local"] == {"offset": str(END), "epoch": "3"}
    assert tree["image"]["topics"]["byName"]["orders"]["0"]["leader"] == "2"
    assert tree["image"]["configs"]["TOPIC"]["orders"] == {"retention.ms": "7"}
    pieces = sum(name == "FetchSnapshotRequest" for name, _ in log.requested)
    assert (pieces > 1) == (start > 0), "a snapshot comes in pieces, where there is one"
    assert all(address in (None, ("controller", 9093)) for _, address in log.requested)


@pytest.mark.parametrize(
    "answer",
    [
        fetch.FetchResponse(error_code=ErrorCode.INVALID_REQUEST),
        fetch.FetchResponse(
            responses=[
                fetch.FetchableTopicResponse(
                    partitions=[fetch.PartitionData(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
                )
            ]
        ),
    ],
    ids=["controller", "broker"],
)
def test_apache_kafka_does_not_serve_the_log(answer: fetch.FetchResponse) -> None:
    async def ask(client: ClusterClient, *arguments: Any, **named: Any) -> Any:
        return answer

    with mock.patch.object(ClusterClient, "ask", ask):
        result = CliRunner().invoke(main, ["metadata", "ls", "/", "-b", "broker:9092"])
    assert result.exit_code == Exit.FAILED
    assert "UNSUPPORTED_VERSION: the cluster does not serve __cluster_metadata to clients" in result.stderr


def test_several_matches_of_a_pattern_are_one_document(folder: Path) -> None:
    printed = run(folder, "tree", "/image/topics/byName/orders/*", "-o", "json")
    assert set(json.loads("".join(printed))) >= {f"/image/topics/byName/orders/{index}" for index in (0, 2, 10)}
