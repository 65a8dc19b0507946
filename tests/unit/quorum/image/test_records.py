"""The records' bytes: readable, equal for equal records, and refused where this release does not know them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.records import MetadataRecord, UnknownRecord, decode, encode
from tests.unit.quorum.image.image_kit import broker, partition, uuid

EXAMPLES: list[MetadataRecord] = [
    broker(1, 7, rack="a", features=(records.FeatureRange("metadata.version", 7, 30),)),
    records.UnregisterBroker(broker_id=1, broker_epoch=7),
    records.BrokerRegistrationChange(broker_id=1, broker_epoch=7, fenced=True),
    records.BrokerRegistrationChange(broker_id=1, broker_epoch=7, log_dirs=(uuid(1), uuid(2))),
    records.Topic(name="orders", topic_id=uuid(1)),
    records.RemoveTopic(topic_id=uuid(1)),
    partition(uuid(1), 0, elr=(3,), last_known_elr=(2,), directories=(uuid(1), uuid(2), uuid(3))),
    records.PartitionChange(topic_id=uuid(1), partition_id=0, isr=(1,)),
    records.PartitionChange(topic_id=uuid(1), partition_id=0, leader=-1, removing_replicas=(), adding_replicas=(4,)),
    records.Config(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
    records.Config(resource_type=4, resource_name="", name="x", value=None),
    records.Feature(name="metadata.version", level=30),
    records.ProducerIds(broker_id=1, broker_epoch=7, next_producer_id=1000),
    records.ClientQuota(
        entity=(records.QuotaEntity("client-id", "app"), records.QuotaEntity("user", None)), key="k", value=0.5
    ),
    records.ClientQuota(entity=(records.QuotaEntity("ip", "::1"),), key="k", remove=True),
    records.UserScramCredential(
        name="ann", mechanism=1, salt=b"salt", stored_key=b"\0" * 32, server_key=b"\xff" * 32, iterations=4096
    ),
    records.RemoveUserScramCredential(name="ann", mechanism=1),
    records.DelegationToken(
        owner="User:ann",
        requester="User:bob",
        renewers=("User:a:b", "User:"),
        issue_timestamp=1,
        max_timestamp=3,
        expiration_timestamp=2,
        token_id=str(uuid(1)),
    ),
    records.RemoveDelegationToken(token_id=str(uuid(1))),
    records.NoOp(),
    records.BeginTransaction(name="fence 3"),
    records.EndTransaction(),
    records.AbortTransaction(reason="a new controller"),
]


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_a_record_is_decoded_unchanged(record: MetadataRecord) -> None:
    assert decode(encode(record)) == record
    assert decode(memoryview(bytearray(encode(record)))) == record


def test_every_type_has_an_example_and_a_version() -> None:
    assert {type(record) for record in EXAMPLES} == set(records.RECORD_TYPES)
    assert set(records.LATEST_VERSIONS) == {kind.__name__ for kind in records.RECORD_TYPES}


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_the_bytes_are_json_that_says_type_and_version_first(record: MetadataRecord) -> None:
    text = encode(record).decode()
    assert text.startswith(f'{{"type":"{type(record).__name__}","version":0')
    assert "\n" not in text
    assert json.loads(text)["type"] == type(record).__name__


def test_the_text_of_a_credential_has_neither_salt_nor_keys() -> None:
    secret = records.UserScramCredential(
        name="ann", mechanism=1, salt=b"pepper", stored_key=b"stored", server_key=b"server", iterations=4096
    )
    assert repr([secret]) == "[UserScramCredential(name='ann', mechanism=1, iterations=4096)]"


def test_uuids_are_written_as_kafka_writes_them() -> None:
    assert json.loads(encode(records.RemoveTopic(topic_id=uuid(1))))["topic_id"] == str(uuid(1))


def test_a_partition_change_holds_only_what_changed() -> None:
    change = records.PartitionChange(topic_id=uuid(1), partition_id=3, leader=2)
    assert json.loads(encode(change)) == {
        "type": "PartitionChange",
        "version": 0,
        "topic_id": str(uuid(1)),
        "partition_id": 3,
        "leader": 2,
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"type":"Wormhole","version":0}', "unknown metadata record type 'Wormhole'"),
        (b'{"type":"Topic","version":1,"name":"a","topic_id":"AAAAAAAAAAAAAAAAAAAABQ"}', "has version 1"),
        (b'{"type":"Topic","version":1,"name":"a","topic_id":"AAAAAAAAAAAAAAAAAAAABQ","new":1}', "has version 1"),
        (b'{"type":"NoOp","version":-1}', "has version -1"),
        (b'{"type":"Topic","version":0,"name":"a","topic_id":"AAAAAAAAAAAAAAAAAAAABQ","new":1}', "damaged"),
        (b'{"type":"Topic","version":0,"name":"a"}', "damaged"),
        (b'{"type":"Topic","version":0,"name":"a","topic_id":"!"}', "damaged"),
        (b'{"type":"Topic","version":0,"name":"a","topic_id":7}', "damaged"),
        (b'{"type":"Feature","version":0,"name":"a","level":"high"}', "damaged"),
        (b'{"version":0}', "no metadata record"),
        (b"", "no metadata record"),
        (b"\xff\xfe", "no metadata record"),
        (b"[1]", "no metadata record"),
    ],
)
def test_bytes_that_are_no_record_of_this_release_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(UnknownRecord, match=why):
        decode(data)


@given(st.sampled_from(EXAMPLES), st.data())
def test_cut_bytes_are_refused_and_never_another_error(record: MetadataRecord, data: st.DataObject) -> None:
    whole = encode(record)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(UnknownRecord):
        decode(cut)


@given(st.binary(min_size=16, max_size=16), st.lists(st.integers(0, 2**31 - 1), max_size=5))
def test_all_ids_are_decoded_unchanged(raw: bytes, replicas: list[int]) -> None:
    record = records.PartitionChange(topic_id=Uuid(raw), partition_id=1, isr=tuple(replicas))
    assert decode(encode(record)) == record
