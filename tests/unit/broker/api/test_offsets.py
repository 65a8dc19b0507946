"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: versions, codes, the metadata log; the rest is the replica's."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.broker.metadata.metadata_log import MetadataLogReader
from kvorum.broker.replica.types import IsolationLevel
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kvorum.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kvorum.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.epoch_cache import EpochEndOffset
from kvorum.storage.log_read import TimestampOffset
from tests.unit.broker.api.api_kit import TOPIC_ID, Rules, a_broker, ask, asking, three_brokers, topic

INTERNAL_ID = TOPIC_ID[:15] + b"\x07"
LATEST, EARLIEST, MAX, EARLIEST_LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6


class Offsets:
    """Finds offset 40 at time 30 in epoch 5, or fails."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code
        self.requested: list[tuple[Any, ...]] = []

    def fetch_offset_for_timestamp(self, key, timestamp, *, isolation_level, current_leader_epoch, replica_id):
        self.requested.append((key, timestamp, isolation_level, current_leader_epoch, replica_id))
        if self.code is not ErrorCode.NONE:
            raise KafkaError(self.code)
        return TimestampOffset(30, 40, 5)

    def last_offset_for_leader_epoch(self, key, current_leader_epoch, leader_epoch):
        self.requested.append((key, current_leader_epoch, leader_epoch))
        if self.code is not ErrorCode.NONE:
            raise KafkaError(self.code)
        return EpochEndOffset(leader_epoch, 41)


class Copy:
    """A copy of the metadata log: 10 to 14, epoch 3."""

    log_start_offset = 10
    high_watermark = 14
    latest_epoch = 3

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        return EpochEndOffset(epoch, 12)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        return TimestampOffset(timestamp, 11, 2) if timestamp < 100 else None

    def offset_of_max_timestamp(self) -> TimestampOffset:
        return TimestampOffset(99, 13, 3)


def orders() -> list[Any]:
    made = [*three_brokers(), *topic("orders", TOPIC_ID, ((1, 2), (1, 2), 1))]
    return [*made, *topic("__consumer_offsets", type(TOPIC_ID)(INTERNAL_ID), ((1,), (1,), 1))]


def a_reading_broker(offsets: Offsets, **parts: Any) -> Any:
    return a_broker(*orders(), replica_manager=SimpleNamespace(offsets=offsets), **parts)


def asked_for(
    *timestamps: int, name: str = "orders", index: int = 0, epoch: int = -1, **more: Any
) -> ListOffsetsRequest:
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        for timestamp in timestamps
    ]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=partitions)], **more)


def rows_of(answer: Any) -> list[Any]:
    return [row for each in answer.topics for row in each.partitions]


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_answers_offset_and_timestamp(version: int) -> None:
    offsets = Offsets()
    (row,) = rows_of(ask(a_reading_broker(offsets), asked_for(123, epoch=5, replica_id=-1), version))
    assert (row.error_code, row.timestamp, row.offset) == (0, 30, 40)
    assert row.leader_epoch == (5 if version >= 4 else -1)
    epoch = 5 if version >= 4 else -1
    assert offsets.requested == [(TopicPartition("orders", 0), 123, IsolationLevel.READ_UNCOMMITTED, epoch, -1)]


def test_the_isolation_level_is_handed_on() -> None:
    offsets = Offsets()
    ask(a_reading_broker(offsets), asked_for(LATEST, isolation_level=1, replica_id=-1), 2)
    assert offsets.requested[0][2] is IsolationLevel.READ_COMMITTED


@pytest.mark.parametrize(
    ("timestamp", "first"),
    [(LATEST, 1), (EARLIEST, 1), (MAX, 7), (EARLIEST_LOCAL, 8), (TIERED, 9), (PENDING, 11), (-7, 12)],
)
def test_special_timestamps_are_known_from_their_version_on(timestamp: int, first: int) -> None:
    for version in range(1, 12):
        (row,) = rows_of(ask(a_reading_broker(Offsets()), asked_for(timestamp), version))
        wanted = ErrorCode.NONE if version >= first else ErrorCode.UNSUPPORTED_VERSION
        assert row.error_code == wanted, version


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_an_offset_that_is_not_known_yet_has_its_own_code_from_v5_on(version: int, code: ErrorCode) -> None:
    (row,) = rows_of(ask(a_reading_broker(Offsets(ErrorCode.OFFSET_NOT_AVAILABLE)), asked_for(LATEST), version))
    assert (row.error_code, row.offset, row.timestamp) == (code, -1, -1)


def test_a_partition_requested_twice_is_refused_once() -> None:
    offsets = Offsets()
    assert [row.error_code for row in rows_of(ask(a_reading_broker(offsets), asked_for(LATEST, EARLIEST), 5))] == [
        ErrorCode.INVALID_REQUEST
    ]
    assert offsets.requested == []


def test_a_topic_that_may_not_be_described_is_refused() -> None:
    rules = Rules({(Operation.DESCRIBE, ResourceType.TOPIC, "orders")})
    (row,) = rows_of(ask(a_reading_broker(Offsets(), authorizer=rules), asked_for(LATEST), 5))
    assert row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(LATEST, 14), (EARLIEST, 10), (EARLIEST_LOCAL, 10), (MAX, 13), (TIERED, -1), (50, 11), (100, -1)],
)
def test_offsets_of_the_metadata_log_are_those_of_this_brokers_copy(timestamp: int, offset: int) -> None:
    broker = a_reading_broker(Offsets(), metadata_log=MetadataLogReader(Copy))
    (row,) = rows_of(ask(broker, asked_for(timestamp, name="__cluster_metadata"), 11))
    assert (row.error_code, row.offset) == (0, offset)


def test_the_metadata_log_ends_where_this_broker_answers_by_it() -> None:
    broker = a_reading_broker(Offsets(), metadata_log=MetadataLogReader(Copy, lambda: 12))
    (row,) = rows_of(ask(broker, asked_for(LATEST, name="__cluster_metadata"), 11))
    assert (row.error_code, row.offset) == (0, 12)


def test_the_metadata_log_has_one_partition_and_epochs_of_its_own() -> None:
    broker = a_reading_broker(Offsets(), metadata_log=MetadataLogReader(Copy))
    (other,) = rows_of(ask(broker, asked_for(LATEST, name="__cluster_metadata", index=1), 11))
    assert other.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (ahead,) = rows_of(ask(broker, asked_for(LATEST, name="__cluster_metadata", epoch=4), 11))
    assert ahead.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def epochs_of(name: str = "orders", partition: int = 0) -> OffsetForLeaderEpochRequest:
    requested = OffsetForLeaderPartition(partition=partition, current_leader_epoch=5, leader_epoch=4)
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name, partitions=[requested])])


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_end_of_an_epoch_is_answered(version: int) -> None:
    offsets = Offsets()
    (row,) = rows_of(ask(a_reading_broker(offsets), epochs_of(), version))
    assert (row.error_code, row.leader_epoch, row.end_offset) == (0, 4, 41)
    assert offsets.requested == [(TopicPartition("orders", 0), 5, 4)]
    (failed,) = rows_of(ask(a_reading_broker(Offsets(ErrorCode.FENCED_LEADER_EPOCH)), epochs_of(), version))
    assert (failed.error_code, failed.leader_epoch, failed.end_offset) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)


def test_the_end_of_an_epoch_of_the_metadata_log_is_its_copys() -> None:
    broker = a_reading_broker(Offsets(), metadata_log=MetadataLogReader(Copy))
    (ahead,) = rows_of(ask(broker, epochs_of("__cluster_metadata"), 4))
    assert ahead.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    request = epochs_of("__cluster_metadata")
    request.topics[0].partitions[0].current_leader_epoch = 3
    (row,) = rows_of(ask(broker, request, 4))
    assert (row.error_code, row.end_offset) == (0, 12)


class Deleting:
    """A replica manager that deletes when the test says so."""

    def __init__(self) -> None:
        self.requested: list[Any] = []
        self.finish: Any = None

    def delete_records(self, timeout_ms, offsets, on_done) -> None:
        self.requested.append((timeout_ms, dict(offsets)))
        rows = {
            key: DeleteRecordsPartitionResult(partition_index=key.partition, low_watermark=offset)
            for key, offset in offsets.items()
        }
        self.finish = lambda: on_done(rows)


def deletion(*names: str) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        timeout=700,
        topics=[
            DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=9)])
            for name in names
        ],
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_are_deleted_and_the_rest_is_refused(version: int) -> None:
    replicas = Deleting()
    rules = Rules({(Operation.DELETE, ResourceType.TOPIC, "secret")})

    async def run() -> Any:
        broker = a_broker(*orders(), replica_manager=replicas, authorizer=rules)
        names = ("orders", "secret", "nowhere", "__consumer_offsets", "__cluster_metadata")
        requested = asyncio.ensure_future(asking(broker, deletion(*names), version))
        await asyncio.sleep(0)
        replicas.finish()
        return await requested

    answer = asyncio.run(run())
    assert replicas.requested == [(700, {TopicPartition("orders", 0): 9})]
    rows = {each.name: each.partitions[0] for each in answer.topics}
    assert (rows["orders"].error_code, rows["orders"].low_watermark) == (0, 9)
    assert {name: row.error_code for name, row in rows.items() if row.low_watermark == -1} == {
        "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "__consumer_offsets": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__cluster_metadata": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
