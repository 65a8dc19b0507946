"""Transactions, partitions, events, tokens and their roles over HTTP, in front of a fake cluster."""

import hashlib
import json
from typing import Any

import pytest

from kvorum.admin.app import operations
from kvorum.admin.http.access import Access, tokens_of
from kvorum.client.wire.cluster_client import METADATA_TOPIC
from kvorum.protocol.messages.describe_producers import ProducerState
from kvorum.protocol.messages.describe_transactions import TopicData, TransactionState
from kvorum.protocol.records import Record
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from tests.unit.admin.fake import NOW_MS, Client, FakeCluster, call, with_fake
from tests.unit.admin.test_message_routes import events_of

ID = Uuid(bytes(15) + b"\x63")


def begin(cluster: FakeCluster) -> None:
    """A transaction that a coordinator knows of, and one on t-0 that none does."""
    cluster.add("t")
    cluster.transactions["known"] = TransactionState(
        transactional_id="known",
        transaction_state="Ongoing",
        transaction_timeout=60_000,
        transaction_start_time=NOW_MS,
        producer_id=1,
        producer_epoch=2,
        topics=[TopicData(topic="t", partitions=[0])],
    )
    known = ProducerState(producer_id=1, producer_epoch=2, last_timestamp=0, current_txn_start_offset=3)
    lost = ProducerState(producer_id=9, producer_epoch=4, last_timestamp=0, current_txn_start_offset=5)
    idle = ProducerState(producer_id=8, producer_epoch=0, last_timestamp=0, current_txn_start_offset=-1)
    cluster.producers["t", 0] = [known, lost, idle]


def test_transactions_are_listed_and_described() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        page = (await call(client, "GET", "/v1/transactions?state=Ongoing"))[1]
        assert ([t["transactional_id"] for t in page["transactions"]], page["next"]) == (["known"], None)
        assert (await call(client, "GET", "/v1/transactions?state=Empty"))[1]["transactions"] == []
        one = (await call(client, "GET", "/v1/transactions/known"))[1]
        assert (one["producer_epoch"], one["partitions"], one["start_time_ms"]) == (2, {"t": [0]}, NOW_MS)
        status, problem = await call(client, "GET", "/v1/transactions/none")
        assert (status, problem["error"]) == (404, "TRANSACTIONAL_ID_NOT_FOUND")

    with_fake(test)


def test_hanging_transactions_are_found_and_aborted() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        rows = (await call(client, "GET", "/v1/topics/t/partitions/0/producers"))[1]
        assert [(row["producer_id"], row["transaction_start_offset"]) for row in rows] == [(1, 3), (9, 5), (8, None)]
        rows = (await call(client, "GET", "/v1/hanging-transactions?topic=t"))[1]
        assert [(row["producer_id"], row["start_offset"]) for row in rows] == [(9, 5)]
        path = "/v1/hanging-transactions/abort"
        assert (await call(client, "POST", path, {"topic": "t", "partition": 0, "start_offset": 5}))[0] == 204
        ((marker,),) = (cluster.ended,)
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (9, 4, False)
        status, problem = await call(client, "POST", path, {"topic": "t", "partition": 0, "start_offset": 77})
        assert (status, problem["error"]) == (422, "INVALID_TXN_STATE")
        producer = {"producer_id": 9, "producer_epoch": 4, "coordinator_epoch": 1}
        assert (await call(client, "POST", path, {"topic": "t", "partition": 0, **producer}))[0] == 204
        for body in ({}, {"start_offset": 1, **producer}, {"producer_id": 9}, {"start_offset": 1, "producer_id": 9}):
            assert (await call(client, "POST", path, {"topic": "t", "partition": 0, **body}))[0] == 400, body
        assert len(cluster.ended) == 2
        assert (await call(client, "GET", "/v1/hanging-transactions"))[1]["field"] == "topic"

    with_fake(test)


def test_a_partition_is_described_with_its_replicas() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        log = cluster.add("t", 2)[1]
        log.append(Record(value=b"a"))
        log.append(Record(value=b"b"))
        log.stable = 1
        one = (await call(client, "GET", "/v1/topics/t/partitions/1"))[1]
        assert (one["topic"], one["partition"], one["leader_epoch"], one["latest_offset"]) == ("t", 1, 3, 2)
        assert one["last_stable_offset"] == 1
        (replica,) = one["details"]
        assert (replica["leader"], replica["in_sync"], replica["log_dir"]) == (True, True, "/data")
        assert replica["size_bytes"] == sum(map(len, log.batches))
        for path in ("/v1/topics/t/partitions/5", "/v1/topics/none/partitions/0"):
            assert (await call(client, "GET", path))[0] == 404
        assert (await call(client, "GET", "/v1/topics/t/partitions/x"))[1]["field"] == "partition"
        (found,) = (await call(client, "GET", "/v1/brokers/1/log-dirs"))[1]
        assert (found["log_dir"], found["error"], found["total_bytes"]) == ("/data", None, None)
        assert [(row["topic"], row["partition"]) for row in found["partitions"]] == [("t", 1), ("t", 0)]
        assert (await call(client, "GET", "/v1/brokers/7/log-dirs"))[0] == 404

    with_fake(test)


def test_records_are_deleted_before_an_offset() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        logs = cluster.add("t", 3)
        for log in logs[:2]:
            for _ in range(4):
                log.append(Record(value=b"x"))
        path, body = "/v1/topics/t/records/delete", {"partitions": {"0": 2, "1": -1, "2": 9}}
        rows = (await call(client, "POST", path, body))[1]
        assert [(row["partition"], row["low_watermark"], row["error"]) for row in rows] == [
            (0, 2, None),
            (1, 4, None),
            (2, None, "OFFSET_OUT_OF_RANGE"),
        ]
        assert [log.start for log in logs] == [2, 4, 0]
        for wrong, status in (({"0": -2}, 400), ({}, 400), ({"7": 0}, 422), ({"x": 0}, 400)):
            assert (await call(client, "POST", path, {"partitions": wrong}))[0] == status

    with_fake(test)


def test_events_are_streamed_live() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.add("old")
        (log,) = cluster.logs[METADATA_TOPIC]

        def write(*written: Any) -> None:
            for each in written:
                log.append(Record(value=records.encode(each), timestamp=NOW_MS))
            cluster.wake()

        write(records.Topic(name="before", topic_id=ID))
        async with client.get("/v1/events?limit=3&type=topic_created,leader_elected,isr_changed") as answer:
            assert await answer.content.readline() == b": following\n"
            old = cluster.ids["old"]
            write(
                records.Topic(name="new", topic_id=Uuid(bytes(15) + b"\x64")),
                records.NoOp(),
                records.Partition(topic_id=ID, partition_id=0, replicas=(1,), isr=(1,), leader=1),
                records.PartitionChange(topic_id=old, partition_id=0, isr=(1, 2)),
                records.PartitionChange(topic_id=old, partition_id=0, leader=2),
            )
            found = await events_of(answer.content, 4)
        assert [(name, data.get("topic"), data.get("partition")) for name, data in found] == [
            ("topic_created", "new", None),
            ("isr_changed", "old", 0),
            ("leader_elected", "old", 0),
            ("end", None, None),
        ]
        assert found[2][1]["before"] == {"leader": 1, "leader_epoch": 3}
        assert found[2][1]["after"] == {"leader": 2, "leader_epoch": 4}
        assert (found[0][1]["offset"], found[3][1]) == (1, {"stopped_by": "limit"})

    with_fake(test)


def test_a_kind_of_event_that_there_is_not_is_refused() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        assert (await call(client, "GET", "/v1/events?type=leader_electd"))[1]["field"] == "type"
        assert (await call(client, "GET", "/v1/groups?type=clasic"))[1]["field"] == "type"

    with_fake(test)


TOKENS = {role: f"{role}-token" for role in ("read", "operate", "admin")}
ACCESS = Access(tokens_of("\n".join(f"{role} {hashlib.sha256(t.encode()).hexdigest()}" for role, t in TOKENS.items())))


def test_a_token_may_do_what_its_role_may() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.add("t")
        wanted = [
            ("GET", "/v1/cluster", None, ["read", "operate", "admin"]),
            ("GET", "/metrics", None, ["read", "operate", "admin"]),
            ("POST", "/v1/topics/t/messages", {"records": [{"value": "x"}]}, ["operate", "admin"]),
            ("POST", "/v1/topics/t/records/delete", {"partitions": {"0": 0}}, ["admin"]),
        ]
        for method, path, body, roles in wanted:
            for role, token in TOKENS.items():
                headers = {"Authorization": f"Bearer {token}", "Host": "kvorum.example:80"}
                async with client.request(method, path, json=body, headers=headers) as answer:
                    assert answer.status == (200 if role in roles else 403), (path, role)
                    if role not in roles:
                        assert (await answer.json())["error"] == "FORBIDDEN_ROLE"
        assert cluster.logs["t"][0].end == 2

    with_fake(test, ACCESS)


def test_an_unclean_election_loses_records_and_is_an_admins() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        for unclean, role, allowed in ((False, "operate", True), (True, "operate", False), (True, "admin", True)):
            headers = {"Authorization": f"Bearer {TOKENS[role]}"}
            body = {"unclean": unclean, "all": True}
            async with client.post("/v1/leaders/elect", json=body, headers=headers) as answer:
                assert (answer.status != 403) is allowed, (unclean, role)
                assert allowed or (await answer.json())["error"] == "FORBIDDEN_ROLE"

    with_fake(test, ACCESS)


@pytest.mark.parametrize(
    "message", [None, "Bearer", "Bearer wrong", "Basic read-token", "Bearer " + "x" * 2000, "Bearer é"]
)
def test_a_request_without_a_token_gets_only_the_challenge(message: str | None) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        headers = {} if message is None else {"Authorization": message}
        for path in ("/v1/cluster", "/v1/topics", "/metrics", "/v1/events"):
            async with client.get(path, headers=headers) as answer:
                assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
                assert (await answer.json())["error"] == "UNAUTHENTICATED"
        assert cluster.requested == []
        for path in ("/health/live", "/openapi.json", "/docs"):
            async with client.get(path) as answer:
                assert answer.status == 200

    with_fake(test, ACCESS)


def test_a_page_from_elsewhere_is_refused_with_tokens_too() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        headers = {"Authorization": f"Bearer {TOKENS['admin']}", "Origin": "http://evil.example"}
        status, problem = await call(client, "GET", "/v1/cluster", headers=headers)
        assert (status, problem["error"]) == (403, "FORBIDDEN_ORIGIN")

    with_fake(test, ACCESS)


def test_every_operation_documents_its_role_and_errors() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        document = (await call(client, "GET", "/openapi.json"))[1]
        for operation in operations():
            entry = document["paths"][operation.path][operation.method.lower()]
            assert entry["x-role"] == operation.needs.name.lower()
            assert {"default", "400", "401", "403", "503"} <= set(entry["responses"])
            assert ("413" in entry["responses"]) == ("requestBody" in entry)
            if operation.answer is not None:
                assert set(entry["responses"][str(operation.status)]["content"]) == set(operation.media)
        assert len({each.name for each in operations()}) == len(operations())
        changing = [each for each in operations() if each.method != "GET"]
        assert all(each.needs > 0 for each in changing), "who may read changes nothing"
        assert json.dumps(document)

    with_fake(test)
