"""`kvorum dump-log` on files made here: lines as Kafka's DumpLogSegments prints them, and what is wrong with files."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.broker.coordinator.records.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kvorum.broker.coordinator.records.codec import GroupRecordType, group_record, transaction_record
from kvorum.broker.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue
from kvorum.broker.coordinator.records.transactions import TransactionLogKey, TransactionLogValue
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.protocol.compression import Codec
from kvorum.protocol.control import marker
from kvorum.protocol.records import Record, build_batch, patch_place
from kvorum.quorum.records import Topic, UserScramCredential, encode
from kvorum.quorum.snapshots import encode_snapshot
from kvorum.storage.producer_state import BatchMetadata, ProducerEntry
from kvorum.storage.producer_state import encode_snapshot as encode_producers
from tests.unit.cli.fake_cluster import TOPIC_ID

NAME = "00000000000000000005"


def dumped(*words: str) -> tuple[int, list[str], str]:
    """Return exit code, lines and what was said beside."""
    result = CliRunner().invoke(main, ["dump-log", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout.splitlines(), result.stderr


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A segment from offset 5 on: two records of a transaction, compressed, and its marker; with right indexes."""
    records = [
        Record(key=b"k", value=b"v", timestamp=1000, headers=(("h", b"1"),)),
        Record(value="é".encode(), timestamp=2000),
    ]
    batch = build_batch(
        records,
        base_offset=5,
        partition_leader_epoch=3,
        codec=Codec.GZIP,
        producer_id=7,
        producer_epoch=1,
        base_sequence=4,
        is_transactional=True,
    )
    end = marker(7, 1, is_commit=True, coordinator_epoch=9, timestamp=3000)
    patch_place(memoryview(end), 0, 7, 3)
    (tmp_path / f"{NAME}.log").write_bytes(bytes(batch) + bytes(end))
    entries = [(1, 0), (2, len(batch))]
    (tmp_path / f"{NAME}.index").write_bytes(b"".join(o.to_bytes(4, "big") + p.to_bytes(4, "big") for o, p in entries))
    times = [(2000, 1), (3000, 2)]
    (tmp_path / f"{NAME}.timeindex").write_bytes(
        b"".join(t.to_bytes(8, "big") + o.to_bytes(4, "big") for t, o in times)
    )
    return tmp_path


def test_batches_records_and_markers_are_lines(log: Path) -> None:
    code, lines, message = dumped("--print-data-log", str(log / f"{NAME}.log"))
    assert (code, message) == (Exit.DONE, "")
    assert lines[1] == "Log starting offset: 5"
    assert lines[2].startswith(
        "baseOffset: 5 lastOffset: 6 count: 2 baseSequence: 4 lastSequence: 5 producerId: 7 producerEpoch: 1 "
        "partitionLeaderEpoch: 3 isTransactional: true isControl: false deleteHorizonMs: OptionalLong.empty "
        "position: 0 CreateTime: 2000 size: "
    )
    assert lines[2].endswith(" isvalid: true") and " magic: 2 compresscodec: gzip crc: " in lines[2]
    assert lines[3] == (
        "| offset: 5 CreateTime: 1000 keySize: 1 valueSize: 1 sequence: 4 headerKeys: [h] key: k payload: v"
    )
    assert lines[4] == "| offset: 6 CreateTime: 2000 keySize: -1 valueSize: 2 sequence: 5 headerKeys: [] payload: é"
    assert lines[6].endswith(" sequence: -1 headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 9")


def test_how_much_is_printed_is_chosen(log: Path) -> None:
    segment = str(log / f"{NAME}.log")
    assert len(dumped(segment)[1]) == 4
    assert len(dumped("--deep-iteration", segment)[1]) == 7
    assert dumped("--skip-record-metadata", segment)[1][3] == "| key: k payload: v"
    assert dumped("--value-decoder", "base64", segment)[1][3].endswith(" key: k payload: dg==")
    assert dumped("--value-decoder", "long", segment)[1][3].endswith(" key: k payload: b'v'")
    assert len(dumped("--max-bytes", "150", segment)[1]) == 3


def test_a_folder_means_its_files_and_valid_indexes_pass(log: Path) -> None:
    code, lines, message = dumped(str(log))
    assert (code, message) == (Exit.DONE, "")
    size = int(lines[lines.index("offset: 6 position: 0") + 1].rsplit(" ", 1)[1])
    assert lines[lines.index("offset: 6 position: 0") + 1] == f"offset: 7 position: {size}"
    assert lines[-2:] == ["timestamp: 2000 offset: 6", "timestamp: 3000 offset: 7"]
    checked = dumped("--index-sanity-check", str(log / f"{NAME}.index"), str(log / f"{NAME}.timeindex"))
    assert [line.endswith("passed sanity check.") for line in checked[1]] == [False, True, False, True]
    assert len(dumped("--verify-index-only", str(log / f"{NAME}.index"))[1]) == 1


def damage(path: Path, position: int, value: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] = value
    path.write_bytes(data)


def test_errors_are_printed_with_an_exit_code(log: Path) -> None:
    segment, index, times = (log / f"{NAME}{suffix}" for suffix in (".log", ".index", ".timeindex"))
    damage(segment, 60 + 12, 0)
    code, lines, message = dumped(str(segment))
    assert code == Exit.FAILED and lines[2].endswith("isvalid: false") and "with a wrong CRC" in message
    damage(index, 3, 0)
    code, _, message = dumped(str(index))
    assert code == Exit.FAILED and "  Index offset: 5, log offset: 6\n" in message
    damage(times, 7, 1)
    damage(times, 12 + 7, 0)
    code, _, message = dumped(str(times))
    assert code == Exit.FAILED and "could" not in message and len(message.splitlines()) >= 2
    index.write_bytes(b"123")
    assert "not a multiple of 8" in dumped(str(index))[2]
    segment.write_bytes(segment.read_bytes()[:-3])
    code, lines, _ = dumped(str(segment))
    assert code == Exit.FAILED and lines[-1].endswith(f"invalid bytes at the end of {NAME}.log")
    assert "Ignoring unknown file" in dumped(str(log / f"{NAME}.log"), str(write(log / "notes.txt", b"x")))[2]
    assert "is not the name of a segment" in dumped(str(write(log / "orders.log", b"")))[2]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_gaps_in_offsets_are_reported(tmp_path: Path) -> None:
    parts = [build_batch([Record(value=b"x")], base_offset=offset) for offset in (5, 8)]
    segment = write(tmp_path / f"{NAME}.log", b"".join(map(bytes, parts)))
    code, _, message = dumped("--deep-iteration", str(segment))
    assert code == Exit.DONE and "  5 is followed by 8\n" in message, "compaction leaves such logs, and they are whole"


def payloads(lines: list[str]) -> list[str]:
    return [line.partition(" headerKeys: [] ")[2] for line in lines if line.startswith("| ")]


def test_records_of_groups_and_transactions_are_json(tmp_path: Path) -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    assignment = bytes.fromhex("0000 00000001 0001 74 00000001 00000001 ffffffff")
    members = [MemberMetadata(member_id="m", subscription=b"?", assignment=assignment)]
    value = GroupMetadataValue(protocol_type="consumer", generation=2, members=members)
    found = [
        group_record(GroupRecordType.OFFSET_COMMIT, key, OffsetCommitValue(offset=5, commit_timestamp=9), 4),
        group_record(GroupRecordType.OFFSET_COMMIT, key, None),
        group_record(GroupRecordType.GROUP_METADATA, GroupMetadataKey(group="g"), value, 3),
    ]
    records = [Record(key=each.key, value=each.value) for each in found]
    records += [Record(key=b"\x00\x63?"), Record(value=b"no key")]
    segment = write(tmp_path / f"{NAME}.log", bytes(build_batch(records, base_offset=5)))
    lines = payloads(dumped("--offsets-decoder", str(segment))[1])
    reported = 'key: {"type":"1","data":{"group":"g","topic":"t","partition":1}} payload: '
    assert lines[0] == (
        reported + '{"version":"4","data":{"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":9}}'
    )
    assert lines[1] == reported + "<DELETE>"
    assert (
        '"subscription":"Pw==","assignment":{"assignedPartitions":[{"topic":"t","partitions":[1]}],"userData":null}'
        in (lines[2])
    )
    assert lines[3].startswith("key: Unknown record type 99 at offset 8") and "missing key" in lines[4]

    made = transaction_record(
        TransactionLogKey(transactional_id="x"), TransactionLogValue(producer_id=7, previous_producer_id=7)
    )
    segment = write(tmp_path / f"{NAME}.log", bytes(build_batch([Record(key=made.key, value=made.value)])))
    (line,) = payloads(dumped("--transaction-log-decoder", str(segment))[1])
    assert 'payload: {"version":"1","data":{"producerId":7,"previousProducerId":7,"producerEpoch":0,' in line


def test_metadata_snapshots_producers_and_aborted_transactions(tmp_path: Path) -> None:
    topic = Topic(name="t", topic_id=TOPIC_ID)
    name = "00000000000000000042-0000000003.checkpoint"
    snapshot = write(tmp_path / name, b"".join(encode_snapshot([topic], 3, 1000)))
    lines = dumped("--cluster-metadata-decoder", str(snapshot))[1]
    assert lines[1] == "Snapshot end offset: 42, epoch: 3"
    assert ' SnapshotHeader {"version":0,"lastContainedLogTimestamp":1000}' in lines[3]
    assert f'payload: {{"type":"Topic","version":0,"data":{{"name":"t","topic_id":"{TOPIC_ID}"}}}}' in lines[5]
    assert lines[7].endswith(' SnapshotFooter {"version":0}') and encode(topic)

    user = UserScramCredential(
        name="ann", mechanism=1, salt=b"salt", stored_key=b"key", server_key=b"key", iterations=4096
    )
    snapshot = write(tmp_path / name, b"".join(encode_snapshot([user], 3, 1000)))
    lines = dumped("--cluster-metadata-decoder", str(snapshot))[1]
    assert lines[5].endswith('"data":{"name":"ann","mechanism":1,"iterations":4096}}')

    entry = ProducerEntry(7, 1, 9, 3000, 5)
    entry.batches.append(BatchMetadata(12, 20, 2, 3000))
    producers = write(tmp_path / f"{NAME}.snapshot", encode_producers({7: entry}))
    assert dumped(str(producers))[1][1] == (
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: 9 currentTxnFirstOffset: OptionalLong[5] lastTimestamp: 3000"
        " firstSequence: 10 lastSequence: 12 lastOffset: 20 offsetDelta: 2 timestamp: 3000"
    )
    aborted = b"".join(value.to_bytes(8, "big") for value in (7, 5, 8, 9))
    index = write(tmp_path / f"{NAME}.txnindex", b"\x00\x00" + aborted)
    assert dumped(str(index))[1][1] == "version: 0 producerId: 7 firstOffset: 5 lastOffset: 8 lastStableOffset: 9"
    damage(producers, 20, 99)
    assert "the snapshot's crc is wrong" in dumped(str(producers))[2]


def test_kafkas_script_takes_a_list_of_files_and_its_classes(log: Path) -> None:
    words = ["kafka-dump-log.sh", "--files", f"{log}/{NAME}.log,{log}/{NAME}.index", "--print-data-log"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == Exit.DONE and result.stdout.count("Dumping ") == 2
    decoder = "org.apache.kafka.tools.api.IntegerDecoder"
    assert CliRunner().invoke(main, [*words, "--value-decoder-class", decoder]).exit_code == Exit.DONE
    assert CliRunner().invoke(main, [*words, "--value-decoder-class", "my.Decoder"]).exit_code == Exit.FAILED
