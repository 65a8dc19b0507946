"""Records by what was written into them: numbers, UUIDs, a key's partition, and those of the coordinators' topics."""

import math
import struct
from typing import Any

import pytest

from kvorum.broker.coordinator.records.codec import GroupRecordType, group_record
from kvorum.broker.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue
from kvorum.client.records import serdes
from kvorum.client.records.record_filter import PARTITIONERS, crc32_partition, fnv1a_partition, key_partitions
from kvorum.protocol.records import Record
from tests.unit.admin.fake import NOW_MS, Client, FakeCluster, call, with_fake

UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"
PATH = "/v1/topics/t/messages"


@pytest.mark.parametrize(
    ("form", "data", "value"),
    [
        ("int32", b"\xff\xff\xff\xfe", -2),
        ("int64", b"\x00\x00\x01\x8b\xcf\xe5h\x00", 1_700_000_000_000),
        ("float", struct.pack(">f", 0.1), 0.1),
        ("float", struct.pack(">f", 16_777_217.0), 16_777_216.0),
        ("float", struct.pack(">f", 3.4028235e38), 3.4028235e38),
        ("double", struct.pack(">d", 0.1), 0.1),
        ("double", struct.pack(">d", -math.inf), "-Infinity"),
        ("float", struct.pack(">f", math.nan), "NaN"),
        ("uuid", bytes.fromhex(UUID_TEXT.replace("-", "")), UUID_TEXT),
    ],
)
def test_bytes_equal_those_of_kafkas_serializers(form: str, data: bytes, value: object) -> None:
    assert serdes.read(form, data) == value
    assert serdes.read(form, data + b"\0") is None
    assert serdes.write(form, value) == data
    assert serdes.write(form, str(value)) == data, "as a query has it"


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("int32", 2**31),
        ("int32", "x"),
        ("int32", 1.5),
        ("int64", True),
        ("int64", None),
        ("float", 1e39),
        ("double", "x"),
        ("double", False),
        ("uuid", "123e4567"),
        ("uuid", 5),
    ],
)
def test_values_without_a_serialized_form_are_refused(form: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        serdes.write(form, value)


def test_a_uuid_that_is_a_text_is_read_as_one() -> None:
    """Kafka's UUIDSerializer writes the text."""
    assert serdes.read("uuid", UUID_TEXT.encode()) == UUID_TEXT
    assert serdes.read("uuid", b"x" * 36) is None


def test_a_key_is_where_each_kind_of_client_puts_it() -> None:
    """Hashes as published: CRC-32 of 123456789 is cbf43926, FNV-1a of foobar bf9cf968, murmur2 of 21 -973932308."""
    assert crc32_partition(b"123456789", 1_000) == 0xCBF43926 % 1_000
    assert fnv1a_partition(b"foobar", 1_000) == (2**32 - 0xBF9CF968) % 1_000, "negative as int32: its sign is taken off"
    assert fnv1a_partition(b"", 1_000) == (2**32 - 0x811C9DC5) % 1_000
    assert PARTITIONERS["murmur2"](b"21", 12) == (-973932308 & 0x7FFFFFFF) % 12
    places = {name: PARTITIONERS[name](b"k1", 50) for name in PARTITIONERS}
    assert len(set(places.values())) == 3
    assert key_partitions(b"k1", 50, "any") == sorted(places.values())
    assert key_partitions(b"k1", 50, "crc32") == [places["crc32"]]


def fill_keys(cluster: FakeCluster, partitions: int = 50) -> dict[str, int]:
    """Write a record of the key `k1` where each partitioner puts it, one where none does, and of other keys there."""
    logs = cluster.add("t", partitions)
    places = {name: each(b"k1", partitions) for name, each in PARTITIONERS.items()}
    nobody = next(each for each in range(partitions) if each not in places.values())
    for name, place in {**places, "nobody": nobody}.items():
        logs[place].append(Record(key=b"k1", value=name.encode(), timestamp=NOW_MS))
        logs[place].append(Record(key=b"k10", value=b"other", timestamp=NOW_MS))
    return {**places, "nobody": nobody}


def test_a_key_is_looked_for_where_its_partitioner_puts_it() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        places = fill_keys(cluster)

        async def found(query: str) -> tuple[set[str], int]:
            status, page = await call(client, "GET", f"{PATH}?{query}")
            assert status == 200, page
            return {each["value"] for each in page["messages"]}, page["scanned"]

        assert await found("key=k1") == ({"murmur2", "crc32", "fnv1a"}, 6), "three partitions were looked through"
        assert await found("key=k1&partitioner=crc32") == ({"crc32"}, 2)
        assert await found(f"key=k1&partitions={places['nobody']}") == ({"nobody"}, 2)
        assert await found("key=6b31&key_format=hex") == ({"murmur2", "crc32", "fnv1a"}, 6)
        assert await found("key=azE%3D&key_format=base64&filter=value%20==%20%22crc32%22") == ({"crc32"}, 6)
        assert (await found("key=K1"))[0] == set()
        page = (await call(client, "GET", f"{PATH}?key=k1&limit=1"))[1]
        rest = await found(f"key=k1&offsets={page['next']}")
        assert {page["messages"][0]["value"]} | rest[0] == {"murmur2", "crc32", "fnv1a"}
        for query, field in (
            ("key=k1&key_format=size", "key_format"),
            ("key=k1&key_format=int32", "key"),
            ("key=k1&partitioner=x", "partitioner"),
            ("partitioner=crc32", "partitioner"),
        ):
            status, problem = await call(client, "GET", f"{PATH}?{query}")
            assert (status, problem["field"]) == (400, field), query

    with_fake(test)


def test_numbers_are_written_shown_and_filtered_as_numbers() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        sent = [
            {"key": number, "key_format": "int64", "value": number / 4, "value_format": "double"}
            for number in (7, 8, 9)
        ]
        assert (await call(client, "POST", PATH, {"records": sent}))[1]["written"] == 3
        assert log.records()[0].key == (7).to_bytes(8, "big")
        log.append(Record(key=b"no number", value=b"\xff"))
        shape = "key_format=int64&value_format=double"
        rows = (await call(client, "GET", f"{PATH}?{shape}"))[1]["messages"]
        assert [(row["key"], row["value"]) for row in rows] == [(7, 1.75), (8, 2.0), (9, 2.25), ("no number", "/w==")]
        assert [row["key_format"] for row in rows] == ["int64"] * 3 + ["string"] and rows[3]["value_format"] == "base64"
        found = (await call(client, "GET", f"{PATH}?{shape}&filter=key>7%26%26value<2.2"))[1]
        assert [row["key"] for row in found["messages"]] == [8]
        found = (await call(client, "GET", f"{PATH}?{shape}&key=9"))[1]
        assert [row["key"] for row in found["messages"]] == [9]
        wrong = {"records": [{"value": "x", "value_format": "int32"}]}
        status, problem = await call(client, "POST", PATH, wrong)
        assert (status, problem["field"]) == (400, "records.0.value")

    with_fake(test)


def test_records_of_the_coordinators_are_decoded_and_filtered() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("__consumer_offsets")
        for partition in (0, 1):
            key = OffsetCommitKey(group="g", topic="orders", partition=partition)
            made = group_record(GroupRecordType.OFFSET_COMMIT, key, OffsetCommitValue(offset=5 + partition), 3)
            log.append(Record(key=made.key, value=made.value))
        log.append(Record(key=made.key, value=None))
        log.append(Record(key=b"\x7f\xffx", value=b"\0"))
        path = "/v1/topics/__consumer_offsets/messages"

        async def reported(query: str) -> list[dict[str, Any]]:
            status, page = await call(client, "GET", f"{path}?{query}")
            assert status == 200, page
            rows: list[dict[str, Any]] = page["messages"]
            return rows

        first, second, forgotten, unknown = await reported("")
        assert first["key"] == {"type": "1", "data": {"group": "g", "topic": "orders", "partition": 0}}
        assert (first["value"]["version"], first["value"]["data"]["offset"]) == ("3", 5)
        assert (first["key_format"], first["value_format"]) == ("internal", "internal")
        assert forgotten["key"] == second["key"] and forgotten["value"] is None and forgotten["value_bytes"] is None
        assert unknown["key_format"] == "base64", "of a type that this release does not know: its bytes"
        found = await reported("filter=value.data.offset==6")
        assert [row["offset"] for row in found] == [1]
        assert len(await reported('filter=key.data.topic=="orders"')) == 3
        raw = (await reported("value_format=hex"))[0]
        assert (raw["value_format"], raw["key_format"]) == ("hex", "internal")
        async with client.get(f"{path}/export?format=csv") as answer:
            assert '""group"":""g""' in await answer.text()

    with_fake(test)
