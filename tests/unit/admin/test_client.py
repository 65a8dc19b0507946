"""What the cluster is asked, and what is made of its answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kvorum.admin.v1.records.record_encoding import produce
from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.partitions import delete_records as deleted_records
from kvorum.client.voters import add_voter
from kvorum.client.wire.cluster_client import ClusterClient, EligibleReplicas, Unreachable
from kvorum.client.wire.connections import Connections
from kvorum.network.addresses import Address
from kvorum.network.dial import RequestTimedOut
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kvorum.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kvorum.protocol.records import Record
from kvorum.protocol.schema import Message
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid

ONE, OTHER = ("one", 1), ("other", 2)
Answer = Callable[[DescribeTopicPartitionsRequest], DescribeTopicPartitionsResponse]


class AnsweringClient(ClusterClient):
    """A client whose requests are answered by a function."""

    def __init__(self, answer: Answer) -> None:
        super().__init__([])
        self.answer = answer
        self.requested: list[tuple[str, int]] = []

    async def ask(
        self, request: Message, response: type, address: Address | None = None
    ) -> DescribeTopicPartitionsResponse:  # type: ignore[override]  # of the one request there is here
        assert isinstance(request, DescribeTopicPartitionsRequest)
        cursor = request.cursor
        self.requested.append((request.topics[0].name, -1 if cursor is None else cursor.partition_index))
        return self.answer(request)


class Told:
    """A channel that answers, or does not."""

    def __init__(self, address: Address, requested: list[Address], silent: set[Address]) -> None:
        self.address, self.requested, self.silent = address, requested, silent

    async def ask(self, *_: object, **__: object) -> str:
        self.requested.append(self.address)
        if self.address in self.silent:
            raise RequestTimedOut("no answer", maybe_sent=True)
        return "an answer"


def replace_channels(monkeypatch: pytest.MonkeyPatch, make: Callable[[Address], Told]) -> None:
    """Have every connection made by this, shared or not."""

    @asynccontextmanager
    async def own(_: Connections, address: Address, timeout_ms: int) -> AsyncIterator[Told]:
        yield make(address)

    monkeypatch.setattr(Connections, "shared_channel", lambda _, address: make(address))
    monkeypatch.setattr(Connections, "own", own)


def test_an_unresponsive_node_is_queried_last_until_it_responds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paused broker takes connections and says nothing: without this every question would wait for it again."""
    requested: list[Address] = []
    silent = {ONE}
    client = ClusterClient([ONE, OTHER])
    replace_channels(monkeypatch, lambda address: Told(address, requested, silent))

    async def ask() -> None:
        await client.ask(ElectLeadersRequest(), ElectLeadersResponse)

    async def scenario() -> None:
        with pytest.raises(Unreachable, match="one:1: no answer"):
            await ask()  # it may have been done: nobody else is asked the same
        await ask()
        silent.clear()
        silent.add(OTHER)
        with pytest.raises(Unreachable, match="other:2"):
            await ask()
        await ask()  # both were silent: in the order they were given
        await ask()

    asyncio.run(scenario())
    assert requested == [ONE, OTHER, OTHER, ONE, ONE]


class Refusing(Told):
    """A channel that cannot connect to who is silent, and names two brokers."""

    async def ask(self, *_: object, **__: object) -> MetadataResponse:  # type: ignore[override]
        self.requested.append(self.address)
        if self.address in self.silent:
            raise RequestTimedOut("refused", maybe_sent=False)
        brokers = [MetadataResponseBroker(node_id=port, host=host, port=port) for host, port in (ONE, OTHER)]
        return MetadataResponse(brokers=brokers)


def test_once_informed_of_the_other_brokers_it_continues_without_the_one_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested: list[Address] = []
    silent: set[Address] = set()
    client = ClusterClient([ONE])
    replace_channels(monkeypatch, lambda address: Refusing(address, requested, silent))

    async def scenario() -> None:
        await client.metadata([])
        silent.add(ONE)
        await client.metadata([])
        await client.another().metadata([])
        await client.metadata([])

    asyncio.run(scenario())
    assert requested == [ONE, ONE, OTHER, ONE, OTHER, OTHER]


def topic(partitions: int) -> MetadataResponseTopic:
    """Return a topic as Metadata tells it."""
    return MetadataResponseTopic(
        name="t", partitions=[MetadataResponsePartition(partition_index=index) for index in range(partitions)]
    )


def page(first: int, count: int, following: int | None = None, name: str = "t") -> DescribeTopicPartitionsResponse:
    """Return an answer with some partitions; the ELR of each is [its number]."""
    rows = [
        DescribeTopicPartitionsResponsePartition(partition_index=p, eligible_leader_replicas=[p], last_known_elr=[])
        for p in range(first, first + count)
    ]
    cursor = None if following is None else ResponseCursor(topic_name=name, partition_index=following)
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(name="t", partitions=rows)], next_cursor=cursor
    )


def eligible(answer: Answer, partitions: int) -> tuple[dict[int, EligibleReplicas], list[tuple[str, int]]]:
    """Return what is found, and what was asked for it."""
    client = AnsweringClient(answer)
    return asyncio.run(client.eligible("t", range(partitions))), client.requested


def test_eligible_replicas_of_many_partitions_come_in_pages() -> None:
    def answer(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        first = 0 if request.cursor is None else request.cursor.partition_index
        return page(first, 2, first + 2 if first < 4 else None)

    found, requested = eligible(answer, 6)
    assert found == {index: EligibleReplicas([index], []) for index in range(6)}
    assert requested == [("t", -1), ("t", 2), ("t", 4)]


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: page(0, 1, 0),
        lambda request: page(0, 1, 1, name="u"),
        lambda request: DescribeTopicPartitionsResponse(
            topics=[DescribeTopicPartitionsResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        ),
    ],
    ids=["a cursor that does not move", "a cursor of another topic", "a topic just deleted"],
)
def test_an_answer_that_is_not_about_the_topic_ends_the_asking(answer: Answer) -> None:
    found, requested = eligible(answer, 2)
    assert set(found) == {0, 1} and found[1] == EligibleReplicas()
    assert len(requested) <= 2


def test_an_older_cluster_reports_no_eligible_replicas() -> None:
    def refuse(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "not served")

    assert eligible(refuse, 2)[0] == {0: EligibleReplicas(), 1: EligibleReplicas()}


def test_any_other_refusal_is_raised() -> None:
    def refuse(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")

    with pytest.raises(KafkaError):
        eligible(refuse, 1)


def leading_topic() -> MetadataResponseTopic:
    """Return a topic of one partition, which broker 1 leads."""
    return MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)])


class Stop(Exception):
    """Nothing beyond the request matters."""


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.create_topics([]),
        lambda client: client.delete_topic("t"),
        lambda client: client.create_partitions("t", 3),
        lambda client: client.elect_leaders(None),
        lambda client: Reassignments(client).list(),
        lambda client: Reassignments(client).alter({}),
        lambda client: produce(client, leading_topic(), [(0, Record(value=b""))]),
        lambda client: deleted_records.delete_records(client, {TopicPartition("t", 0): 1}),
        lambda client: add_voter(client, 1, Uuid(16), []),
    ],
    ids=["create", "delete", "grow", "elect", "list moves", "move", "produce", "delete records", "voter"],
)
def test_a_brokers_wait_is_shorter_than_that_of_the_caller(
    ask: Callable[[ClusterClient], Awaitable[object]],
) -> None:
    """Else its REQUEST_TIMED_OUT comes when nobody listens any more, and the reason is lost."""

    class Asked(ClusterClient):
        async def ask(self, request: Message, *_: object, **__: object) -> Any:  # type: ignore[override]
            if isinstance(request, MetadataRequest):
                broker = MetadataResponseBroker(node_id=1, host="one", port=1)
                return MetadataResponse(brokers=[broker], topics=[leading_topic()])
            assert request.timeout == client.wait_ms, request  # type: ignore[attr-defined]
            raise Stop

    client = Asked([ONE], timeout_ms=10_000)
    assert 5_000 < client.wait_ms < 9_000
    with pytest.raises(Stop):
        asyncio.run(in_task(ask(client)))


async def in_task(asking: Awaitable[object]) -> object:
    return await asking
