"""The metadata's tree, differences, records and epochs over HTTP; the quorum's stream; a partition's batches."""

import base64
from typing import Any

import pytest

from kvorum.client.metadata_log import metadata_fetch, metadata_reader, secret_configs
from kvorum.client.wire.cluster_client import METADATA_TOPIC
from kvorum.protocol.control import marker
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kvorum.protocol.records import Record, patch_place
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from tests.unit.admin import fake
from tests.unit.admin.fake import NOW_MS, Client, FakeCluster, call, with_fake
from tests.unit.admin.test_message_routes import events_of

ORDERS = Uuid(bytes(range(16)))


def write(cluster: FakeCluster, epoch: int, *found: records.MetadataRecord) -> None:
    """Append one change to the metadata log."""
    log = cluster.logs[METADATA_TOPIC][0]
    base = log.append(*(Record(value=records.encode(each), timestamp=NOW_MS + epoch) for each in found))
    batch = bytearray(log.batches[-1])
    with memoryview(batch) as view:
        patch_place(view, 0, base, epoch)
    log.batches[-1] = bytes(batch)


def begin(cluster: FakeCluster) -> None:
    """A topic of two partitions; a controller's change; a leader's."""
    parts = [records.Partition(topic_id=ORDERS, partition_id=n, replicas=(1, 2), isr=(1, 2), leader=1) for n in (0, 1)]
    write(cluster, 3, records.Topic(name="orders", topic_id=ORDERS), *parts)  # 0 to 2
    write(cluster, 3, records.NoOp())  # 3
    write(cluster, 5, records.PartitionChange(topic_id=ORDERS, partition_id=0, isr=(2,), leader=2))  # 4
    write(cluster, 5, records.NoOp())  # 5


async def reported(client: Client, path: str) -> Any:
    status, body = await call(client, "GET", path)
    assert status == 200, body
    return body


def test_the_tree_is_walked_at_any_offset() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        root = await reported(client, "/v1/metadata/tree")
        assert (root["path"], root["at"], root["first"], root["last"]) == ("/", 5, 0, 5)
        assert [(each["name"], each["value"], each["entries"]) for each in root["entries"]] == [
            ("image", None, 1),
            ("local", None, 2),
        ]
        leader = "/v1/metadata/tree?path=/image/topics/byName/orders/0/leader/"
        now = await reported(client, leader)
        assert (now["value"], now["entries"], now["path"]) == ("2", [], "/image/topics/byName/orders/0/leader")
        assert (await reported(client, f"{leader}&at=3"))["value"] == "1"
        names = "/v1/metadata/tree?path=image/topics/byName/orders&limit=2"
        page = await reported(client, names)
        assert ([each["name"] for each in page["entries"]], page["next"]) == (["0", "1"], "1")
        page = await reported(client, f"{names}&after=1")
        assert ([each["value"] for each in page["entries"]], page["next"]) == ([str(ORDERS)], None)

    with_fake(test)


def test_unknown_resources_are_refused_by_name() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        for path, status, error, field in (
            ("tree?path=/image/topics/byName/none", 404, "RESOURCE_NOT_FOUND", None),
            ("tree?at=6", 400, "INVALID_REQUEST", "at"),
            ("tree?path=/image&after=none", 400, "INVALID_REQUEST", "after"),
            (f"tree?path={'x' * 1001}", 400, "INVALID_REQUEST", "path"),
            ("diff?since=7", 400, "INVALID_REQUEST", "since"),
        ):
            answer = await call(client, "GET", f"/v1/metadata/{path}")
            assert (answer[0], answer[1]["error"], answer[1]["field"]) == (status, error, field), path

    with_fake(test)


def test_the_log_is_fetched_once_and_continued() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        await reported(client, "/v1/metadata/tree")
        cluster.requested.clear()
        write(cluster, 5, records.Config(resource_type=2, resource_name="orders", name="a", value="1"))
        assert (await reported(client, "/v1/metadata/tree?path=/image/configs/TOPIC/orders/a"))["at"] == 6
        offsets = [
            each.topics[0].partitions[0].fetch_offset for each in cluster.requested if isinstance(each, FetchRequest)
        ]
        assert min(offsets) == 6
        cluster.logs[METADATA_TOPIC][0].end = 3
        del cluster.logs[METADATA_TOPIC][0].batches[1:]
        assert (await reported(client, "/v1/metadata/tree"))["last"] == 2, "another cluster's log: from its beginning"

    with_fake(test)


def test_a_log_beyond_the_limit_has_a_named_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        monkeypatch.setattr(metadata_reader, "LOG_BYTES_MAX", 100)
        for path in ("metadata/tree", "metadata/diff", "metadata/records", "quorum/epochs"):
            status, problem = await call(client, "GET", f"/v1/{path}")
            assert (status, problem["error"]) == (422, "METADATA_TOO_LARGE"), path
        fetches = [each for each in cluster.requested if isinstance(each, FetchRequest)]
        assert len(fetches) <= 3, "it is not fetched again to be refused again"
        monkeypatch.setattr(metadata_reader, "LOG_BYTES_MAX", 10_000)
        assert (await call(client, "GET", "/v1/metadata/tree"))[0] == 422
        log = cluster.logs[METADATA_TOPIC][0]
        log.start = 1  # it begins elsewhere now: there may be a snapshot that takes the place of much of it
        assert (await call(client, "GET", "/v1/metadata/tree"))[1]["error"] != "METADATA_TOO_LARGE"
        assert metadata_fetch.FETCH_BYTES > 100

    with_fake(test)


def test_changes_between_two_offsets() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        found = await reported(client, "/v1/metadata/diff?since=3&at=4")
        changes = {each["path"].rpartition("/")[2]: (each["before"], each["after"]) for each in found["changes"]}
        assert changes == {
            "isr": ("[1,2]", "[2]"),
            "leader": ("1", "2"),
            "leaderEpoch": ("0", "1"),
            "partitionEpoch": ("0", "1"),
        }
        assert (found["since"], found["at"], found["more"]) == (3, 4, False)
        less = await reported(client, "/v1/metadata/diff?since=3&limit=1")
        assert (len(less["changes"]), less["more"]) == (1, True)
        assert (await reported(client, "/v1/metadata/diff?since=3&path=/image/configs"))["changes"] == []
        below = await reported(client, "/v1/metadata/diff?since=3&path=/image/topics/byName/orders/0")
        assert len(below["changes"]) == 4

    with_fake(test)


def test_records_are_reported_without_signs_of_life() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        newest = await reported(client, "/v1/metadata/records?limit=2")
        assert [(each["offset"], each["type"], each["epoch"]) for each in newest["records"]] == [
            (2, "Partition", 3),
            (4, "PartitionChange", 5),
        ]
        assert newest["records"][1]["record"]["leader"] == 2
        page = await reported(client, "/v1/metadata/records?offset=1&limit=1")
        assert ([each["offset"] for each in page["records"]], page["next"]) == ([1], 2)
        page = await reported(client, "/v1/metadata/records?offset=3")
        assert ([each["offset"] for each in page["records"]], page["next"]) == ([4], None)
        assert (await reported(client, "/v1/metadata/records?offset=99"))["records"] == []

    with_fake(test)


def test_epochs_are_read_from_the_log() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        assert await reported(client, "/v1/quorum/epochs") == [
            {"epoch": 3, "start_offset": 0, "began_ms": NOW_MS + 3},
            {"epoch": 5, "start_offset": 4, "began_ms": NOW_MS + 5},
        ]

    with_fake(test)


def test_the_quorum_is_followed_through_a_time_without_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample comes with news of the log: that of one record, then of another, while nobody answers."""

    def quorum(cluster: FakeCluster, request: Any) -> DescribeQuorumResponse:
        states = [ReplicaState(replica_id=each, log_end_offset=10 - each) for each in (2, 1)]
        row = ResponsePartitionData(
            leader_id=1, leader_epoch=5, high_watermark=8, current_voters=states, observers=states[:1]
        )
        return DescribeQuorumResponse(topics=[ResponseTopicData(partitions=[row])])

    monkeypatch.setitem(fake.ANSWERS, DescribeQuorumRequest, quorum)

    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        async with client.get("/v1/quorum/stream?limit=2") as answer:
            ((name, first),) = await events_of(answer.content, 1)
            assert (name, first["leader_id"], first["leader_epoch"]) == ("quorum", 1, 5)
            assert [(each["id"], each["log_end_offset"], each["lag"]) for each in first["voters"]] == [
                (1, 9, 0),
                (2, 8, 1),
            ]
            await cluster.until(lambda: bool(cluster.waiting))
            cluster.codes[DescribeQuorumRequest] = ErrorCode.NOT_CONTROLLER
            write(cluster, 5, records.NoOp())
            cluster.wake()
            rest = await events_of(answer.content, 2)
        assert [name for name, _ in rest] == ["quorum", "end"]
        assert (rest[0][1]["leader_id"], rest[0][1]["error"]) == (-1, "NOT_CONTROLLER")

    with_fake(test)


COME_AGAIN = [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE]
"""Of a broker that has not come so far yet, and of one that trims its copy."""


def refuse_fetches(monkeypatch: pytest.MonkeyPatch, code: ErrorCode, times: int) -> None:
    """Have the next so many fetches refused."""
    left = times

    def answer(cluster: FakeCluster, request: FetchRequest) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            return cluster._fetch(request)
        row = PartitionData(partition_index=0, error_code=code)
        return FetchResponse(responses=[FetchableTopicResponse(topic=METADATA_TOPIC, partitions=[row])])

    monkeypatch.setitem(fake.ANSWERS, FetchRequest, answer)


@pytest.mark.parametrize("code", COME_AGAIN)
def test_events_continue_where_the_next_broker_is_behind_or_trims_its_copy(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        refuse_fetches(monkeypatch, code, 3)
        async with client.get("/v1/events?limit=1&seconds=60") as answer:
            await answer.content.readline()
            write(cluster, 5, records.Topic(name="later", topic_id=Uuid(bytes(range(1, 17)))))
            cluster.wake()
            found = await events_of(answer.content, 2)
        assert [name for name, _ in found] == ["topic_created", "end"], found

    with_fake(test)


def test_events_that_were_missed_for_good_are_reported_as_an_error() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        async with client.get("/v1/events?seconds=60") as answer:
            await answer.content.readline()
            await cluster.until(lambda: bool(cluster.waiting))
            log = cluster.logs[METADATA_TOPIC][0]
            log.start = log.end = log.end + 100
            cluster.wake()
            ((name, message),) = await events_of(answer.content, 1)
        assert name == "error" and "begins at 106" in message["message"] and "from 6 on" in message["message"]

    with_fake(test)


@pytest.mark.parametrize("code", COME_AGAIN)
def test_the_quorum_is_followed_on_where_a_copy_cannot_be_read(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        refuse_fetches(monkeypatch, code, 100)
        async with client.get("/v1/quorum/stream?limit=2") as answer:
            found = await events_of(answer.content, 3)
        assert [name for name, _ in found] == ["quorum", "quorum", "end"]

    with_fake(test)


def test_the_metadata_are_read_once_the_copy_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        refuse_fetches(monkeypatch, ErrorCode.OFFSET_NOT_AVAILABLE, 2)
        assert (await reported(client, "/v1/metadata/tree"))["last"] == 5

    with_fake(test)


def test_a_partition_is_shown_batch_by_batch() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        (log,) = cluster.add("t")
        log.append(Record(value=b"a", timestamp=1), Record(value=b"b", timestamp=2))
        log.append(
            Record(value=b"c", timestamp=3), producer_id=7, producer_epoch=1, base_sequence=5, is_transactional=True
        )
        log.append_batch(marker(7, 1, is_commit=False, coordinator_epoch=4, timestamp=4))
        path = "/v1/topics/t/partitions/0/batches"
        page = await reported(client, path)
        plain, sent, ended = page["batches"]
        assert (plain["base_offset"], plain["last_offset"], plain["records"], plain["producer_id"]) == (0, 1, 2, None)
        assert (sent["producer_id"], sent["producer_epoch"], sent["base_sequence"], sent["last_sequence"]) == (
            7,
            1,
            5,
            5,
        )
        assert sent["transactional"] and sent["control"] is None and sent["valid"] and sent["compression"] == "none"
        assert (ended["control"], ended["coordinator_epoch"], ended["records"]) == ("ABORT", 4, 1)
        assert (page["next"], page["high_watermark"], page["log_start_offset"]) == (None, 4, 0)
        short = await reported(client, f"{path}?limit=1")
        assert (len(short["batches"]), short["next"]) == (1, 2)
        assert [each["base_offset"] for each in (await reported(client, f"{path}?offset=1"))["batches"]] == [0, 2, 3]
        damaged = bytearray(log.batches[1])
        damaged[-1] ^= 1
        log.batches[1] = bytes(damaged)
        assert [each["valid"] for each in (await reported(client, f"{path}?offset=0"))["batches"]] == [
            True,
            False,
            True,
        ]
        for wrong, error in (
            ("0/batches?offset=9", "OFFSET_OUT_OF_RANGE"),
            ("1/batches", "UNKNOWN_TOPIC_OR_PARTITION"),
        ):
            assert (await call(client, "GET", f"/v1/topics/t/partitions/{wrong}"))[1]["error"] == error

    with_fake(test)


SECRET = "hunter2"


def test_no_part_of_the_metadata_shows_a_secret() -> None:
    """A config that nobody knows is a secret to DescribeConfigs: the metadata tell no more of it, nor does a filter."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        for kind, name in ((4, "my.plugin.password"), (4, "listener.name.a.ssl.key.password"), (99, "b")):
            write(cluster, 5, records.Config(resource_type=kind, resource_name="", name=name, value=SECRET))
        write(cluster, 5, records.Config(resource_type=4, resource_name="1", name="log.retention.ms", value="77"))
        write(cluster, 5, records.Config(resource_type=2, resource_name="orders", name="retention.ms", value="78"))
        for path in (
            "/v1/metadata/tree?path=/image/configs/BROKER/<default>",
            "/v1/metadata/tree?path=/image/configs/99/<default>",
            "/v1/metadata/diff?since=5",
            "/v1/metadata/records",
            "/v1/metadata/records?offset=5",
            f"/v1/topics/{METADATA_TOPIC}/messages",
            f"/v1/topics/{METADATA_TOPIC}/messages?value_format=string",
        ):
            assert SECRET not in str(await reported(client, path)), path
        by_record = await reported(client, "/v1/metadata/records")
        values = {each["record"]["name"]: each["record"]["value"] for each in by_record["records"][-5:]}
        assert values == {
            "my.plugin.password": "[hidden]",
            "listener.name.a.ssl.key.password": "[hidden]",
            "b": "[hidden]",
            "log.retention.ms": "77",
            "retention.ms": "78",
        }
        guess = f"/v1/topics/{METADATA_TOPIC}/messages?filter=value.value=='{SECRET}'"
        assert (await reported(client, guess))["messages"] == []
        exported = await client.get(f"/v1/topics/{METADATA_TOPIC}/messages/export")
        text = await exported.text()
        assert SECRET not in text and '"77"' in text

    with_fake(test)


def test_no_part_of_the_metadata_shows_the_keys_of_a_user() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        keys = {"salt": b"a" * 9, "stored_key": b"b" * 9, "server_key": b"c" * 9}
        write(cluster, 5, records.UserScramCredential(name="ann", mechanism=2, iterations=4096, **keys))
        for path in (
            "/v1/metadata/tree?path=/image/scram/SCRAM-SHA-512/ann",
            "/v1/metadata/diff?since=5",
            "/v1/metadata/records?offset=5",
            f"/v1/topics/{METADATA_TOPIC}/messages",
            f"/v1/topics/{METADATA_TOPIC}/messages?value_format=string",
        ):
            text = str(await reported(client, path))
            assert "4096" in text and "ann" in text, path
            for key, value in keys.items():
                assert key not in text and base64.b64encode(value).decode() not in text, path
        text = await (await client.get(f"/v1/topics/{METADATA_TOPIC}/messages/export")).text()
        assert "ann" in text and "stored_key" not in text

    with_fake(test)


def test_each_type_of_metadata_record_has_been_looked_at_for_secrets() -> None:
    """Whoever adds a type decides here whether it holds a secret to hide (client/metadata_log/secret_configs.py)."""
    holds_none = {
        *("RegisterBroker", "UnregisterBroker", "BrokerRegistrationChange", "Topic", "RemoveTopic", "Partition"),
        *("PartitionChange", "Feature", "ProducerIds", "ClientQuota", "NoOp"),
        *("BeginTransaction", "EndTransaction", "AbortTransaction"),
    }
    holds_none |= {"RemoveUserScramCredential", "DelegationToken", "RemoveDelegationToken"}
    hidden = {secret_configs.CONFIG, "UserScramCredential"}
    assert {each.__name__ for each in records.RECORD_TYPES} == holds_none | hidden


def test_non_ascii_digits_are_a_name() -> None:
    """Any client may name a group so; the folder it lies in can be looked at all the same."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        begin(cluster)
        for name in ("²", "9" * 5000, "10", "9", "a"):
            write(
                cluster,
                5,
                records.Config(resource_type=32, resource_name=name, name="consumer.session.timeout.ms", value="50000"),
            )
        page = await reported(client, "/v1/metadata/tree?path=/image/configs/GROUP")
        assert [each["name"] for each in page["entries"]] == ["9", "10", "9" * 5000, "a", "²"]

    with_fake(test)
