"""The codec against kio's own reader and writer, for every message Kafka 4.3 has, in every version."""

import contextlib
import io
import random
from dataclasses import fields

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode, encode_bytes, fields_of, message_class
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from kvorum.protocol.schema import OWN_TAG_MIN, Field, Message, Struct
from kvorum.protocol.uuids import Uuid

INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 62, "uint16": 16, "uint32": 32}
CASES = [
    pytest.param(message_class(key, side), version, id=f"{key.name.lower()}-{side.lower()}-v{version}")
    for key in ApiKey
    for side in ("Request", "Response")
    for version in range(message_class(key, side).VERSIONS[0], message_class(key, side).VERSIONS[1] + 1)
]


def random_value(rng: random.Random, field: Field, version: int, depth: int) -> object:
    nullable = field.nullable is not None and field.nullable[0] <= version <= field.nullable[1]
    if nullable and field.tag is None and rng.random() < 0.2:
        return None
    if field.array:
        single = field._replace(array=False, nullable=None)
        return [random_value(rng, single, version, depth + 1) for _ in range(rng.randrange(0, 4 if depth < 3 else 2))]
    if field.struct is not None:
        return random_struct(rng, field.struct, version, depth + 1)
    match field.kind:
        case "bool":
            return rng.random() < 0.5
        case "string":
            return "".join(rng.choice("aé語 .-") for _ in range(rng.randrange(0, 200 if rng.random() < 0.1 else 9)))
        case "bytes" | "records":
            return rng.randbytes(rng.randrange(0, 300))
        case "uuid":
            return Uuid(rng.randbytes(16))
        case "float64":
            return rng.random()
    if "error_code" in field.name:
        return rng.randrange(-1, 120)
    # Times are bounded by what datetime can hold, since kio reads them into it.
    return rng.randrange(0, 1 << min(INTEGERS[field.kind], 40))


def random_struct(rng: random.Random, cls: type[Struct], version: int, depth: int = 0) -> Struct:
    kafkas = [f for f in fields_of(cls, version) if f.tag is None or f.tag < OWN_TAG_MIN]
    return cls(**{f.name: random_value(rng, f, version, depth) for f in kafkas})


def kio_class(message: type[Message], version: int) -> type:
    load = load_request_schema if message.__name__.endswith("Request") else load_response_schema
    return load(message.API_KEY, version)


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_bytes_are_those_kio_reads_and_writes(cls: type[Message], version: int) -> None:
    rng = random.Random(f"{cls.__name__} {version}")
    theirs = kio_class(cls, version)
    for _ in range(5):
        message = random_struct(rng, cls, version)
        data = encode_bytes(message, version)
        entity, size = entity_reader(theirs)(data, 0)
        assert size == len(data)
        buffer = io.BytesIO()
        entity_writer(theirs)(buffer, entity)
        assert buffer.getvalue() == data
        assert decode(cls, version, data) == message


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_a_cut_message_is_refused(cls: type[Message], version: int) -> None:
    """Every prefix either is refused or (a field list that ends early on purpose never happens) is not the whole."""
    rng = random.Random(f"cut {cls.__name__} {version}")
    data = encode_bytes(random_struct(rng, cls, version), version)
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            decode(cls, version, data[:size])


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_scrambled_bytes_are_refused_or_read_never_worse(cls: type[Message], version: int) -> None:
    rng = random.Random(f"scramble {cls.__name__} {version}")
    for _ in range(20):
        data = bytearray(encode_bytes(random_struct(rng, cls, version), version))
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(ProtocolError):
            decode(cls, version, data)


@pytest.mark.parametrize("count", [0x7FFFFFFF, 0x10000000, 1000])
def test_an_array_count_beyond_the_bytes_left_is_refused_before_anything_is_reserved(count: int) -> None:
    cls = message_class(ApiKey.METADATA, "Request")
    with pytest.raises(ProtocolError, match="entries"):
        decode(cls, 8, count.to_bytes(4, "big") + bytes(100))
    varint = bytearray()
    value = count + 1
    while value > 0x7F:
        varint.append(value & 0x7F | 0x80)
        value >>= 7
    varint.append(value)
    with pytest.raises(ProtocolError, match="entries"):
        decode(cls, 12, bytes(varint) + bytes(100))


def test_every_struct_describes_each_of_its_fields() -> None:
    for key in ApiKey:
        for side in ("Request", "Response"):
            cls = message_class(key, side)
            assert {f.name for f in fields(cls)} == {f.name for f in cls.FIELDS}


def test_a_tagged_struct_that_was_not_sent_is_the_same_for_all_and_a_list_is_each_messages_own() -> None:
    """Structs of an answer that say nothing are shared and cost nothing; lists are filled by handlers."""
    row = PartitionData(records=b"", diverging_epoch=EpochEndOffset(epoch=-1, end_offset=-1))
    data = encode_bytes(FetchResponse(responses=[FetchableTopicResponse(partitions=[row, row])]), 17)
    first, second = (decode(FetchResponse, 17, data) for _ in range(2))
    assert isinstance(first, FetchResponse) and isinstance(second, FetchResponse)
    rows = [*first.responses[0].partitions, *second.responses[0].partitions]
    assert len({id(each.diverging_epoch) for each in rows}) == len({id(each.snapshot_id) for each in rows}) == 1
    assert rows[0].diverging_epoch == EpochEndOffset()
    assert first.node_endpoints is not second.node_endpoints
    rows[0].diverging_epoch = EpochEndOffset(epoch=3, end_offset=70)
    assert decode(FetchResponse, 17, encode_bytes(first, 17)) == first
    assert rows[1].diverging_epoch == EpochEndOffset()
