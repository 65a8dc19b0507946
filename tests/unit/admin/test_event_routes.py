"""GET /v1/events taken up again behind the id of an event: nothing is left out, and what is gone is said."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from kvorum.admin.v1.metadata import event_routes
from kvorum.client.wire.cluster_client import METADATA_TOPIC
from kvorum.protocol.records import Record
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from tests.unit.admin.fake import NOW_MS, Client, FakeCluster, call, with_fake

ORDERS, LATER = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))


class Block(NamedTuple):
    """What stands between two empty lines of a stream of events."""

    id: int | None
    event: str
    data: Any


async def blocks(content: Any, count: int) -> list[Block]:
    """Return the next blocks with an event or an id; comments are passed over. Fails where they do not come."""
    async with asyncio.timeout(10):
        return [await block(content) for _ in range(count)]


async def block(content: Any) -> Block:
    fields: dict[str, str] = {}
    while True:
        line = (await content.readline()).decode()
        assert line, f"the stream ended after {fields}"
        name, colon, value = line.rstrip().partition(": ")
        if colon and name:
            fields[name] = value
        elif not line.strip() and fields:
            number = int(fields["id"]) if "id" in fields else None
            return Block(number, fields.get("event", ""), json.loads(fields.get("data", "null")))


def write(cluster: FakeCluster, *found: records.MetadataRecord) -> int:
    """Append records; return the offset of the last."""
    log = cluster.logs[METADATA_TOPIC][0]
    log.append(*(Record(value=records.encode(each), timestamp=NOW_MS) for each in found))
    cluster.wake()
    return log.end - 1


def led(leader: int, partition: int = 0) -> records.PartitionChange:
    return records.PartitionChange(topic_id=ORDERS, partition_id=partition, leader=leader)


def orders(cluster: FakeCluster) -> None:
    """A topic orders, as the log and the cluster's metadata have it; four records."""
    cluster.add("orders", 2)
    cluster.ids["orders"] = ORDERS
    parts = [records.Partition(topic_id=ORDERS, partition_id=n, replicas=(1, 2), isr=(1, 2), leader=1) for n in (0, 1)]
    write(cluster, records.Topic(name="orders", topic_id=ORDERS), *parts, records.NoOp())


async def from_id(client: Client, last: int | None, count: int, query: str = "") -> list[Block]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    async with client.get(f"/v1/events?{query}", headers=headers) as answer:
        assert answer.status == 200
        return await blocks(answer.content, count)


def brief(found: Sequence[Block]) -> list[tuple[int | None, str, Any]]:
    """Return ids, kinds, and who leads."""
    return [(each.id, each.event, each.data["after"].get("leader")) for each in found if each.event]


def test_a_reader_that_comes_back_continues_where_it_was() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        async with client.get("/v1/events") as answer:
            (begun,) = await blocks(answer.content, 1)
            assert begun == (3, "", None), "an id from the beginning, though nothing has happened"
            write(cluster, led(2))
            assert brief(await blocks(answer.content, 1)) == [(4, "leader_elected", 2)]
        write(cluster, led(1), records.NoOp(), led(2, 1))
        write(cluster, records.Topic(name="later", topic_id=LATER), records.RemoveTopic(topic_id=LATER))
        wanted = [
            *((5, "leader_elected", 1), (7, "leader_elected", 2)),
            *((8, "topic_created", None), (9, "topic_deleted", None)),
        ]
        assert brief(await from_id(client, 4, 5)) == wanted
        assert brief(await from_id(client, None, 5, "after=4")) == wanted
        assert brief(await from_id(client, 7, 3)) == wanted[2:]
        assert brief(await from_id(client, 3, 6)) == [(4, "leader_elected", 2), *wanted]
        assert {each.data["topic"] for each in await from_id(client, 7, 3) if each.event} == {"later"}
        found = await from_id(client, 4, 3)
        assert found[1].data["topic"] == "orders" and found[1].data["before"]["leader"] is None, "it was not told"

    with_fake(test)


def test_events_before_the_start_show_unknown_previous_values() -> None:
    """The cluster says that 2 leads, as the log goes on to say: that is news for who was away."""

    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        write(cluster, led(2))
        cluster.logs["orders"][0].leader = 2
        assert brief(await from_id(client, 3, 2)) == [(4, "leader_elected", 2)]
        async with client.get("/v1/events", headers={"Last-Event-ID": "3"}) as answer:
            await blocks(answer.content, 2)
            write(cluster, led(1), led(2, 1))
            (first, second) = await blocks(answer.content, 2)
        assert first.data["before"]["leader"] == 2
        assert second.data["before"] == {"leader": 1, "leader_epoch": 3}, "no record told of it: as the cluster says"

    with_fake(test)


def test_two_events_of_one_record_have_its_id_at_the_second() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        write(cluster, records.PartitionChange(topic_id=ORDERS, partition_id=0, leader=2, isr=(2,)), led(2, 1))
        found = brief(await from_id(client, 3, 4))
        assert found == [(None, "leader_elected", 2), (4, "isr_changed", None), (5, "leader_elected", 2)]
        found = brief(await from_id(client, 3, 3, "type=leader_elected"))
        assert found == [(4, "leader_elected", 2), (5, "leader_elected", 2)], "what is not asked for is not waited for"

    with_fake(test)


def test_an_id_does_not_pass_a_change_that_is_not_whole() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        async with client.get("/v1/events") as answer:
            await blocks(answer.content, 1)
            write(cluster, records.BeginTransaction(), led(2))
            assert await blocks(answer.content, 1) == [(3, "", None)]
        write(cluster, led(2, 1), records.EndTransaction(), led(1))
        wanted = [(5, "leader_elected", 2), (6, "leader_elected", 2), (8, "leader_elected", 1)]
        assert brief(await from_id(client, 3, 4)) == wanted
        assert brief(await from_id(client, 5, 3)) == wanted[1:], "who has seen the first of it has not seen the rest"

    with_fake(test)


def test_an_id_continues_while_nothing_that_is_requested_happens() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        async with client.get("/v1/events?type=broker_fenced") as answer:
            await blocks(answer.content, 1)
            write(cluster, led(2))
            assert await blocks(answer.content, 1) == [(4, "", None)]

    with_fake(test)


def test_deleted_events_are_reported_as_missed() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        log = cluster.logs[METADATA_TOPIC][0]
        log.start = log.end = log.end + 100
        log.batches.clear()
        async with client.get("/v1/events?type=leader_elected", headers={"Last-Event-ID": "3"}) as answer:
            missed, begun = await blocks(answer.content, 2)
            assert (missed.id, missed.event) == (None, "missed")
            assert (missed.data["after"], missed.data["next"]) == (3, 104)
            assert "begins at 104" in missed.data["message"] and "from 4 on" in missed.data["message"]
            assert begun == (103, "", None), "what was missed is told once"

    with_fake(test)


def test_an_event_id_of_another_cluster_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_routes, "BEHIND_MS", 20)

    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        async with client.get("/v1/events", headers={"Last-Event-ID": "900"}) as answer:
            missed, begun = await blocks(answer.content, 2)
            assert (missed.event, missed.data["after"], missed.data["next"]) == ("missed", 900, 4)
            assert begun == (3, "", None)
            write(cluster, led(2))
            assert brief(await blocks(answer.content, 1)) == [(4, "leader_elected", 2)]

    with_fake(test)


def test_a_broker_that_is_behind_the_id_is_waited_for() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        async with client.get("/v1/events", headers={"Last-Event-ID": "4"}) as answer:
            await cluster.until(lambda: bool(cluster.waiting))
            write(cluster, led(2), led(1))
            found = await blocks(answer.content, 2)
        assert found[0] == (4, "", None) and brief(found) == [(5, "leader_elected", 1)]

    with_fake(test)


@pytest.mark.parametrize("message", ["x", "-1", "1.5", "9" * 40])
def test_an_invalid_event_id_is_refused(message: str) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        status, problem = await call(client, "GET", "/v1/events", headers={"Last-Event-ID": message})
        assert (status, problem["field"]) == (400, "after")

    with_fake(test)


def test_events_of_before_are_shown_and_marked_as_past() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        moved = write(cluster, led(2))
        async with client.get("/v1/events?back=2&limit=2") as answer:
            assert answer.status == 200
            found = await blocks(answer.content, 2)
            assert [(each.event, each.data["offset"], each.data["past"]) for each in found if each.event] == [
                ("leader_elected", moved, True)
            ]
            later = write(cluster, led(1))
            seen = await blocks(answer.content, 1)
            while not seen[-1].event:
                seen += await blocks(answer.content, 1)
            assert (seen[-1].data["offset"], seen[-1].data["past"]) == (later, False)

    with_fake(test)


def test_more_offsets_than_the_log_has_begin_at_its_beginning() -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        orders(cluster)
        async with client.get("/v1/events?back=100000&limit=1") as answer:
            found = await blocks(answer.content, 2)
        assert [each.event for each in found if each.event] == ["topic_created", "end"]

    with_fake(test)
