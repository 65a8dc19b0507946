"""The records of both internal topics against bytes that Apache Kafka 4.3.0's own classes wrote."""

# ruff: noqa: E501  # bytes as they were written

import pytest

from kvorum.broker.coordinator.records.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kvorum.broker.coordinator.records.codec import (
    GROUP_SHAPES,
    TRANSACTION_SHAPES,
    GroupRecordType,
    UnknownRecordType,
    decode_record,
    encode_key,
    encode_value,
    group_record,
    transaction_record,
)
from kvorum.broker.coordinator.records.consumer import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentValue,
    MemberKey,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TopicPartitions,
)
from kvorum.broker.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue
from kvorum.broker.coordinator.records.transactions import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from kvorum.broker.coordinator.runtime.words import CoordinatorRecord
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.schema import Struct
from kvorum.protocol.uuids import Uuid

Type = GroupRecordType
TOPIC_ID = Uuid((1).to_bytes(8, "big") + (2).to_bytes(8, "big"))
MEMBER = MemberMetadata(
    member_id="m1",
    client_id="c",
    client_host="/h",
    rebalance_timeout=1,
    session_timeout=2,
    subscription=b"\1",
    assignment=b"\2\3",
)
GENERATION = GroupMetadataValue(
    protocol_type="consumer",
    generation=4,
    protocol="range",
    leader="m1",
    current_state_timestamp=8,
    members=[MEMBER],
)
TRANSACTION = TransactionLogValue(
    producer_id=1000,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[TransactionPartitions(topic="t", partition_ids=[0, 2])],
    transaction_last_update_timestamp_ms=5,
    transaction_start_timestamp_ms=4,
)
TRANSACTION_1 = TransactionLogValue(
    producer_id=1000,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[TransactionPartitions(topic="t", partition_ids=[0, 2])],
    transaction_last_update_timestamp_ms=5,
    transaction_start_timestamp_ms=4,
    previous_producer_id=999,
    next_producer_id=1001,
    client_transaction_version=2,
    next_producer_epoch=3,
)
NO_TRANSACTION = TransactionLogValue(
    producer_id=1000,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_last_update_timestamp_ms=5,
    transaction_start_timestamp_ms=-1,
)
CLASSIC = ClassicMemberMetadata(
    session_timeout_ms=6, supported_protocols=[ClassicProtocol(name="range", metadata=b"\x09")]
)
CURRENT = CurrentMemberAssignmentValue(
    member_epoch=4,
    previous_member_epoch=3,
    state=1,
    assigned_partitions=[AssignedPartitions(topic_id=TOPIC_ID, partitions=[0, 1], assignment_epochs=[3, 4])],
    partitions_pending_revocation=[AssignedPartitions(topic_id=TOPIC_ID, partitions=[2])],
)
SUBSCRIPTION = ConsumerGroupMemberMetadataValue(
    rack_id="r",
    client_id="c",
    client_host="/h",
    subscribed_topic_names=["a", "b"],
    rebalance_timeout_ms=5,
    server_assignor="uniform",
    classic_member_metadata=CLASSIC,
)
NOT_CLASSIC = ConsumerGroupMemberMetadataValue(
    instance_id="",
    rack_id="",
    client_id="c",
    client_host="/h",
    subscribed_topic_names=["a"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=5,
    server_assignor="",
    classic_member_metadata=None,
)

KEYS = [
    (Type.OFFSET_COMMIT, OffsetCommitKey(group="g", topic="t", partition=3), "000100016700017400000003"),
    (Type.GROUP_METADATA, GroupMetadataKey(group="g"), "0002000167"),
    (Type.CONSUMER_GROUP_MEMBER_METADATA, MemberKey(group_id="g", member_id="m"), "000500016700016d"),
    (
        Type.CONSUMER_GROUP_REGULAR_EXPRESSION,
        RegularExpressionKey(group_id="g", regular_expression="a.*"),
        "00100001670003612e2a",
    ),
]
VALUES = [
    (Type.OFFSET_COMMIT, OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9), 0, "0000000000000000000700016d0000000000000009"),
    (Type.OFFSET_COMMIT, OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9, expire_timestamp=11), 1, "0001000000000000000700016d0000000000000009000000000000000b"),
    (Type.OFFSET_COMMIT, OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9), 2, "0002000000000000000700016d0000000000000009"),
    (Type.OFFSET_COMMIT, OffsetCommitValue(offset=7, leader_epoch=5, metadata="m", commit_timestamp=9), 3, "000300000000000000070000000500016d0000000000000009"),
    (Type.OFFSET_COMMIT, OffsetCommitValue(offset=7, leader_epoch=5, metadata="m", commit_timestamp=9, topic_id=TOPIC_ID), 4, "0004000000000000000700000005026d000000000000000901001000000000000000010000000000000002"),
    (Type.GROUP_METADATA, GENERATION, 3, "00030008636f6e73756d657200000004000572616e676500026d3100000000000000080000000100026d31ffff00016300022f6800000001000000020000000101000000020203"),
    (Type.GROUP_METADATA, GENERATION, 4, "000409636f6e73756d6572000000040672616e6765036d31000000000000000802036d31000263032f68000000010000000202010302030000"),
    (Type.CONSUMER_GROUP_METADATA, ConsumerGroupMetadataValue(epoch=4, metadata_hash=77), 0, "000000000004010008000000000000004d"),
    (Type.CONSUMER_GROUP_METADATA, ConsumerGroupMetadataValue(epoch=4), 0, "00000000000400"),
    (Type.CONSUMER_GROUP_MEMBER_METADATA, SUBSCRIPTION, 0, "00000002720263032f680302610262000000000508756e69666f726d0100100100000006020672616e676502090000"),
    (Type.CONSUMER_GROUP_MEMBER_METADATA, NOT_CLASSIC, 0, "000001010263032f6802026101000000050101000100"),
    (Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, TargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=12), 0, "000000000004010008000000000000000c"),
    (Type.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, TargetAssignmentMemberValue(topic_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])]), 0, "000002000000000000000100000000000000020300000000000000010000"),
    (Type.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, CURRENT, 0, "00000000000400000003010200000000000000010000000000000002030000000000000001010009030000000300000004020000000000000001000000000000000202000000020000"),
    (Type.CONSUMER_GROUP_REGULAR_EXPRESSION, RegularExpressionValue(topics=["ab"], version=3, timestamp=4), 0, "0000020361620000000000000003000000000000000400"),
]  # fmt: skip
TRANSACTIONS = [
    (TRANSACTION, 0, "000000000000000003e800020000ea60010000000100017400000002000000000000000200000000000000050000000000000004"),
    (TRANSACTION_1, 1, "000100000000000003e800020000ea6001020274030000000000000002000000000000000005000000000000000404000800000000000003e7010800000000000003e90202000203020003"),
    (NO_TRANSACTION, 1, "000100000000000003e800020000ea6000000000000000000005ffffffffffffffff00"),
]  # fmt: skip


@pytest.mark.parametrize(("record_type", "key", "kafka"), KEYS)
def test_keys_are_kafkas(record_type: GroupRecordType, key: Struct, kafka: str) -> None:
    assert encode_key(record_type, key).hex() == kafka
    found = decode_record(GROUP_SHAPES, CoordinatorRecord(bytes.fromhex(kafka), None))
    assert found == (record_type, key, None)


@pytest.mark.parametrize(("record_type", "value", "version", "kafka"), VALUES)
def test_values_are_kafkas(record_type: GroupRecordType, value: Struct, version: int, kafka: str) -> None:
    shape = GROUP_SHAPES[record_type]
    assert encode_value(shape, value, version).hex() == kafka
    key = encode_key(record_type, shape.key())
    assert decode_record(GROUP_SHAPES, CoordinatorRecord(key, bytes.fromhex(kafka))).value == value


@pytest.mark.parametrize(("value", "version", "kafka"), TRANSACTIONS)
def test_transactions_are_kafkas(value: TransactionLogValue, version: int, kafka: str) -> None:
    record = transaction_record(TransactionLogKey(transactional_id="tx"), value, version)
    assert record.key.hex() == "000000027478" and record.value is not None and record.value.hex() == kafka
    assert decode_record(TRANSACTION_SHAPES, record).value == value


def test_a_type_of_another_release_is_distinguished_from_invalid_bytes() -> None:
    with pytest.raises(UnknownRecordType, match="type 17"):
        decode_record(GROUP_SHAPES, CoordinatorRecord(b"\0\x11\0\0", b""))
    key = encode_key(Type.GROUP_METADATA, GroupMetadataKey(group="g"))
    for value, why in ((b"\0\5", "version 5"), (b"\0\3\0", "too early"), (b"\0", "a type and a version")):
        with pytest.raises(ProtocolError, match=why):
            decode_record(GROUP_SHAPES, CoordinatorRecord(key, value))


def test_a_tombstone_forgets_its_key() -> None:
    record = group_record(Type.GROUP_METADATA, GroupMetadataKey(group="g"), None)
    assert record == CoordinatorRecord(bytes.fromhex("0002000167"), None)
