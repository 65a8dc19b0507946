"""Records by Confluent's paths: one, many in a body, and a body that goes on."""

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kvorum.admin.v3 import records
from kvorum.client.records.partitioner import partition_of
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kvorum.protocol.records import batches
from tests.unit.admin.fake import NOW_MS, Client, FakeClock, call
from tests.unit.admin.v3.fake import BASE, ConfiguredCluster, with_cluster

PATH = f"{BASE}/topics/t/records"
JSON = {"Content-Type": "application/json"}
NOW = "2023-11-14T22:13:20Z"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def post(client: Client, *bodies: Any, text: bytes | None = None) -> tuple[int, list[dict[str, Any]]]:
    """Return the status, and the answers to records that are sent one behind the other."""
    data = b"".join(json.dumps(body).encode() for body in bodies) if text is None else text
    async with client.post(PATH, data=io.BytesIO(data), headers=JSON) as answer:
        assert answer.content_type == "application/json"
        lines = (await answer.read()).splitlines()
        return answer.status, [json.loads(line) for line in lines]


def value(data: Any, kind: str = "STRING") -> dict[str, Any]:
    return {"value": {"type": kind, "data": data}}


def test_a_record_is_written_as_given_and_its_offset_is_returned() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        logs = cluster.add("t", 3)
        body = {
            "partition_id": 2,
            "headers": [{"name": "h", "value": b64(b"\x00\xff")}, {"name": "h"}],
            "key": {"type": "BINARY", "data": b64(b"\x01\x02")},
            "value": {"type": "JSON", "data": {"a": [1, 2.5, "ü"]}},
            "timestamp": "2023-11-14T22:13:12.345Z",
        }
        answer = {
            "error_code": 200,
            "cluster_id": "c",
            "topic_name": "t",
            "partition_id": 2,
            "offset": 0,
            "timestamp": "2023-11-14T22:13:12.345Z",
            "key": {"type": "BINARY", "size": 2},
            "value": {"type": "JSON", "size": 18},
        }
        assert await call(client, "POST", PATH, body) == (200, answer)
        (record,) = logs[2].records()
        assert (record.key, record.value) == (b"\x01\x02", '{"a":[1,2.5,"ü"]}'.encode())
        assert record.timestamp == NOW_MS - 8_000 + 345
        assert record.headers == (("h", b"\x00\xff"), ("h", None))

    with_cluster(test)


def test_without_a_partition_the_key_decides_and_without_a_time_the_clock() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        logs = cluster.add("t", 4)
        body = {"key": {"type": "STRING", "data": "k"}, **value(None)}
        status, answer = await call(client, "POST", PATH, body)
        assert (status, answer["partition_id"], answer["timestamp"]) == (200, partition_of(b"k", 4), NOW)
        assert answer["value"] == {"type": "STRING", "size": 0}
        (record,) = logs[partition_of(b"k", 4)].records()
        assert (record.key, record.value, record.timestamp) == (b"k", None, NOW_MS)
        status, answer = await call(client, "POST", PATH, {})
        assert (status, answer["error_code"]) == (200, 200) and "key" not in answer and "value" not in answer

    with_cluster(test, clock=FakeClock())


def test_many_in_one_body_are_written_in_one_batch_and_answered_in_order() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        text = b"".join(json.dumps(value(str(each))).encode() + b"\n" * (each % 2) for each in range(5))
        status, answers = await post(client, text=text)
        assert status == 200 and [each["offset"] for each in answers] == list(range(5))
        assert [record.value for record in log.records()] == [b"0", b"1", b"2", b"3", b"4"]
        assert len(log.batches) == 1

    with_cluster(test)


def test_a_record_is_refused_by_itself() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        bad: list[tuple[Any, int, str]] = [
            (value(1, "BINARY"), 400, "Bad Request: data=1 is not a base64 string."),
            (value("!", "BINARY"), 400, 'Bad Request: data="!" is not a valid base64 string.'),
            (value({}, "STRING"), 400, "Bad Request: data={} is not a string."),
            (value("x", "AVRO"), 42206, records.NO_REGISTRY),
            ({"value": {"schema_id": 1, "data": 1}}, 42206, records.NO_REGISTRY),
            ({"value": {"type": "JSON", "schema_id": 1, "data": 1}}, 400, "Bad Request: type=JSON cannot be used"),
            (value("x", "TEXT"), 400, "Bad Request: Error processing JSON: value.type: "),
            ({"no": 1}, 400, "Bad Request: Error processing JSON: no: "),
            ({"partition_id": 1}, 40402, "Partition not found."),
            ({"partition_id": -1}, 40402, "Partition not found."),
            ({"timestamp": "1969-12-31T23:59:59Z"}, 400, "Bad Request: Invalid timestamp: -1000."),
            ({"timestamp": "9999-12-31T23:59:59-14:00"}, 400, "Bad Request: Invalid timestamp: 253402351199000."),
            ({"headers": [{"name": "h", "value": "!"}]}, 400, 'Bad Request: header value="!" is not a valid base64'),
        ]
        good = value("good")
        status, answers = await post(client, good, *(body for body, _, _ in bad), good)
        assert status == 200 and len(answers) == len(bad) + 2
        assert [each["offset"] for each in (answers[0], answers[-1])] == [0, 1]
        for (body, code, message), answer in zip(bad, answers[1:-1], strict=True):
            assert answer["error_code"] == code and answer["message"].startswith(message), (body, answer)
        assert len(log.records()) == 2

    with_cluster(test)


def test_an_unreadable_record_ends_the_body_and_earlier_ones_are_written() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        good = json.dumps(value("v")).encode()
        for rest, why in ((b"nonsense " + good, "a JSON object was expected"), (b'{"a', "in the middle")):
            status, answers = await post(client, text=good + rest)
            assert status == 200 and [each["error_code"] for each in answers] == [200, 400]
            assert answers[1]["message"].startswith("Bad Request: Error processing message:")
            assert why in answers[1]["message"]
        assert len(log.records()) == 2

    with_cluster(test)


def test_a_body_is_needed_and_it_has_to_say_that_it_is_json() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        status, answers = await post(client, text=b" ")
        assert status == 422
        assert answers == [{"error_code": 42206, "message": "Payload error. Request body is empty. Data is required."}]
        async with client.post(PATH, data=b"{}", headers={"Content-Type": "text/plain"}) as answer:
            assert answer.status == 415

    with_cluster(test)


def test_a_topic_or_a_cluster_that_is_missing_is_reported() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        status, (answer,) = await post(client, value("v"))
        assert (status, answer) == (200, {"error_code": 40401, "message": "Topic t not present in metadata."})
        status, reported = await call(client, "POST", "/v3/clusters/other/topics/t/records", value("v"))
        assert (status, reported["error_code"]) == (404, 404)

    with_cluster(test)


def refuse_large(cluster: ConfiguredCluster, code: ErrorCode) -> list[int]:
    """Have batches of more than one record refused as too large, single ones by `code`; return the counts asked."""
    counts: list[int] = []
    real = cluster.ask

    async def ask(request: Any, response: type, address: Any = None, **options: Any) -> Any:
        if not isinstance(request, ProduceRequest):
            return await real(request, response, address, **options)
        data = request.topic_data[0].partition_data[0]
        ((_, header),) = batches(memoryview(data.records))  # type: ignore[arg-type]  # bytes
        counts.append(header.last_offset_delta + 1)
        refused = ErrorCode.MESSAGE_TOO_LARGE if counts[-1] > 1 else code
        if refused is ErrorCode.NONE:
            return await real(request, response, address, **options)
        row = PartitionProduceResponse(index=data.index, error_code=refused, error_message="no")
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[row])])

    cluster.ask = ask  # type: ignore[method-assign]
    return counts


def test_records_too_large_together_are_written_one_by_one() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        counts = refuse_large(cluster, ErrorCode.NONE)
        _, answers = await post(client, *(value(str(each)) for each in range(3)))
        assert [each["offset"] for each in answers] == [0, 1, 2] and counts == [3, 1, 1, 1]
        assert [record.value for record in log.records()] == [b"0", b"1", b"2"]

    with_cluster(test)


@pytest.mark.parametrize(
    ("code", "error_code"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, 413),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 50003),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 40301),
        (ErrorCode.INVALID_RECORD, 40002),
    ],
)
def test_an_error_of_the_leader_is_reported_without_a_retry(code: ErrorCode, error_code: int) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        counts = refuse_large(cluster, code)
        _, (answer,) = await post(client, value("v"))
        assert (answer["error_code"], counts) == (error_code, [1])

    with_cluster(test)


def test_a_body_that_continues_is_answered_record_by_record() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        sent: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def body() -> AsyncIterator[bytes]:
            while (data := await sent.get()) is not None:
                yield data

        sent.put_nowait(json.dumps(value("0")).encode())
        async with client.post(PATH, data=body(), headers=JSON) as answer:
            for number in range(3):
                line = json.loads(await answer.content.readline())
                assert (line["error_code"], line["offset"]) == (200, number)
                assert len(log.records()) == number + 1
                text = json.dumps(value(str(number + 1))).encode()
                sent.put_nowait(text[:9])
                sent.put_nowait(text[9:] if number < 2 else None)
            last = json.loads(await answer.content.readline())
            assert last["error_code"] == 400 and "in the middle" in last["message"]
            assert await answer.content.read() == b""

    with_cluster(test)


def test_a_body_that_falls_silent_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "IDLE_SECONDS", 0.05)

    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        cluster.add("t")
        never = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield json.dumps(value("0")).encode()
            await never.wait()

        async with client.post(PATH, data=body(), headers=JSON) as answer:
            lines = [json.loads(await answer.content.readline()) for _ in range(2)]
            assert [line["error_code"] for line in lines] == [200, 408]

    with_cluster(test)


def test_a_body_of_very_many_records_is_answered_while_it_is_written() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        count = 2 * records.AT_ONCE + 1
        status, answers = await post(client, *[value("v")] * count)
        assert status == 200 and [each["offset"] for each in answers] == list(range(count))
        assert len(log.batches) == 3

    with_cluster(test)


def test_a_body_may_be_longer_than_any_other_and_a_record_in_it_may_not() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        status, answers = await post(client, *[value("v" * 1_000)] * 1_500)
        assert status == 200 and [each["offset"] for each in answers] == list(range(1_500))
        status, answers = await post(client, value("v"), value("v" * records.RECORD_BYTES_MAX), value("v"))
        assert [each["error_code"] for each in answers] == [200, 400]
        assert "longer than" in answers[1]["message"] and log.end == 1_501

    with_cluster(test)


# A batch


def entry(id_: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, **value("v"), **fields}


def test_a_batch_reports_the_result_of_each_id() -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        body = {"entries": [entry("a"), entry("b", partition_id=7), entry("c")]}
        status, reported = await call(client, "POST", f"{PATH}:batch", body)
        assert status == 207
        assert [(each["id"], each["offset"]) for each in reported["successes"]] == [("a", 0), ("c", 1)]
        assert reported["successes"][0] == {
            "id": "a",
            "cluster_id": "c",
            "topic_name": "t",
            "partition_id": 0,
            "offset": 0,
            "timestamp": NOW,
            "value": {"type": "STRING", "size": 1},
        }
        assert reported["failures"] == [{"id": "b", "error_code": 40402, "message": "Partition not found."}]
        assert len(log.records()) == 2

    with_cluster(test, clock=FakeClock())


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "Empty batch."),
        ([entry("a"), entry("a")], "Batch entry IDs are not distinct."),
        ([entry(str(each)) for each in range(11)], "Too many entries in batch."),
    ],
)
def test_a_batch_that_is_none_is_refused(entries: list[Any], message: str) -> None:
    async def test(client: Client, cluster: ConfiguredCluster) -> None:
        (log,) = cluster.add("t")
        refused = {"error_code": 42208, "message": message}
        assert await call(client, "POST", f"{PATH}:batch", {"entries": entries}) == (422, refused)
        assert not log.batches

    with_cluster(test)
