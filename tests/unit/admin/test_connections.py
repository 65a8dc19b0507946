"""One who waits does not hold up others: which connection a request goes over, and whom it is asked of again."""

import asyncio
import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kvorum.client.wire import connections
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.client.wire.connections import IDLE_MAX, OWN_MAX, QUICK, READS, Connections
from kvorum.network.channel import Channel
from kvorum.network.cluster_check import ClusterCheck, EndpointType
from kvorum.network.dial import RequestTimedOut
from kvorum.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kvorum.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.protocol.messages.produce import ProduceRequest, ProduceResponse
from kvorum.protocol.schema import Message
from tests.unit.admin.brokers import WAIT_S, TestBroker, client_of


class Parked:
    """Answers that a test gives when it likes."""

    def __init__(self, answer: Message) -> None:
        self.answer = answer
        self.go_on = asyncio.Event()

    async def __call__(self, _: Any) -> Message:
        await self.go_on.wait()
        return self.answer


async def metadata(cluster: ClusterClient) -> MetadataResponse:
    async with asyncio.timeout(WAIT_S):
        return await cluster.ask(MetadataRequest(topics=[]), MetadataResponse)


def test_a_pending_commit_does_not_delay_reads() -> None:
    """A write with a paused follower once had every other question wait, and fail with it."""

    async def main() -> None:
        parked = Parked(ProduceResponse(responses=[]))
        broker = TestBroker({ProduceRequest: parked, MetadataRequest: lambda _: MetadataResponse(cluster_id="c")})
        async with broker.serving(), client_of(broker) as cluster:
            request = ProduceRequest(acks=-1, timeout=1, topic_data=[])
            writing = [asyncio.create_task(cluster.ask(request, ProduceResponse)) for _ in range(3)]
            await broker.until(lambda: broker.count(ProduceRequest) == 3)
            assert (await metadata(cluster)).cluster_id == "c"
            parked.go_on.set()
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(*writing)

    asyncio.run(main())


def test_a_timeout_fails_only_its_own_request() -> None:
    async def main() -> None:
        parked = Parked(ProduceResponse(responses=[]))
        broker = TestBroker({ProduceRequest: parked})
        async with broker.serving(), client_of(broker) as cluster:
            request = ProduceRequest(acks=-1, timeout=1, topic_data=[])
            other = asyncio.create_task(cluster.ask(request, ProduceResponse))
            await broker.until(lambda: broker.count(ProduceRequest) == 1)
            with pytest.raises(Unreachable, match="ProduceRequest"):
                await cluster.ask(request, ProduceResponse, timeout_ms=50)
            assert not other.done()
            parked.go_on.set()
            async with asyncio.timeout(WAIT_S):
                await other

    asyncio.run(main())


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Channel]:
    """Return the channels that are closed, as they are."""
    found: list[Channel] = []
    close = Channel.close

    async def closing(channel: Channel) -> None:
        found.append(channel)
        await close(channel)

    monkeypatch.setattr(Channel, "close", closing)
    return found


def test_a_connection_is_used_again_unless_an_answer_is_still_to_come_over_it(closed: list[Channel]) -> None:
    async def main() -> None:
        parked = Parked(ProduceResponse(responses=[]))
        broker = TestBroker({ProduceRequest: parked})
        async with broker.serving(), client_of(broker) as cluster:
            request = ProduceRequest(acks=-1, timeout=1, topic_data=[])
            given_up = asyncio.create_task(cluster.ask(request, ProduceResponse))
            await broker.until(lambda: broker.count(ProduceRequest) == 1)
            given_up.cancel()
            await asyncio.wait([given_up])
            assert len(closed) == 1
            writing = asyncio.create_task(cluster.ask(request, ProduceResponse))
            await broker.until(lambda: broker.count(ProduceRequest) == 2)  # it did not wait behind the other
            parked.go_on.set()
            async with asyncio.timeout(WAIT_S):
                await writing
                for _ in range(5):
                    await cluster.ask(request, ProduceResponse)
            assert len(closed) == 1 and broker.over[1:] == [broker.over[1]] * 6 and broker.over[0] != broker.over[1]

    asyncio.run(main())


def test_there_are_only_so_many_connections_and_few_are_kept(closed: list[Channel]) -> None:
    async def main() -> None:
        parked = Parked(ProduceResponse(responses=[]))
        broker = TestBroker({ProduceRequest: parked})
        async with broker.serving(), client_of(broker) as cluster:
            request = ProduceRequest(acks=-1, timeout=1, topic_data=[])
            writing = [asyncio.create_task(cluster.ask(request, ProduceResponse)) for _ in range(OWN_MAX)]
            await broker.until(lambda: broker.count(ProduceRequest) == OWN_MAX)
            with pytest.raises(Unreachable, match=f"{OWN_MAX} requests are already waiting"):
                await cluster.ask(request, ProduceResponse, timeout_ms=50)
            writing.append(asyncio.create_task(cluster.ask(request, ProduceResponse)))
            parked.go_on.set()
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(*writing)
            assert len(set(broker.over)) == OWN_MAX and len(closed) == OWN_MAX - IDLE_MAX

    asyncio.run(main())


def test_a_timeout_before_a_connection_is_free_reports_that_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OWN_MAX", 1)

    async def main() -> None:
        found = Connections("test", random.Random(1))
        async with found.own(("127.0.0.1", 1), 1_000):
            with pytest.raises(RequestTimedOut) as raised:
                async with found.own(("127.0.0.1", 1), 1):
                    pass
        assert not raised.value.maybe_sent

    asyncio.run(main())


@pytest.mark.parametrize("silent_first", [True, False])
def test_a_request_goes_to_the_next_broker_if_one_does_not_respond(silent_first: bool) -> None:
    """A paused broker takes connections and says nothing: it is given a third of the time, the last one all of it."""

    async def main() -> None:
        parked = Parked(MetadataResponse())
        silent = TestBroker({MetadataRequest: parked})
        other = TestBroker({MetadataRequest: lambda _: MetadataResponse(cluster_id="c")})
        brokers = [silent, other] if silent_first else [other, silent]
        async with silent.serving(), other.serving(), client_of(*brokers, timeout_ms=600) as cluster:
            assert (await metadata(cluster)).cluster_id == "c"
            assert (await metadata(cluster)).cluster_id == "c"
            assert silent.count(MetadataRequest) == silent_first, "asked last from then on"
            parked.go_on.set()

    asyncio.run(main())


def test_a_request_with_unknown_outcome_is_not_sent_to_another_broker() -> None:
    async def main() -> None:
        parked = Parked(ProduceResponse(responses=[]))
        silent = TestBroker({ProduceRequest: parked})
        other = TestBroker({ProduceRequest: lambda _: ProduceResponse(responses=[])})
        async with silent.serving(), other.serving(), client_of(silent, other, timeout_ms=300) as cluster:
            with pytest.raises(Unreachable):
                await cluster.ask(ProduceRequest(acks=-1, timeout=1, topic_data=[]), ProduceResponse)
            assert not other.requested
            parked.go_on.set()

    asyncio.run(main())


@pytest.mark.parametrize("dies", [True, False])
def test_a_dependent_request_continues_when_the_broker_dies_and_not_before(dies: bool) -> None:
    """Without a controller any broker waits for one: to ask all of them in turn would take as many times as long."""

    async def main() -> None:
        parked = Parked(DescribeQuorumResponse())
        first = TestBroker({DescribeQuorumRequest: parked})
        other = TestBroker({DescribeQuorumRequest: lambda _: DescribeQuorumResponse(error_message="other")})
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(other.serving())
            alive = await stack.enter_async_context(AsyncExitStack())
            await alive.enter_async_context(first.serving())
            cluster = await stack.enter_async_context(client_of(first, other, timeout_ms=60_000 if dies else 300))
            asking = asyncio.create_task(cluster.ask(DescribeQuorumRequest(topics=[]), DescribeQuorumResponse))
            await first.until(lambda: first.count(DescribeQuorumRequest) == 1)
            if dies:
                await alive.aclose()
                async with asyncio.timeout(WAIT_S):
                    assert (await asking).error_message == "other"
            else:
                with pytest.raises(Unreachable):
                    await asking
                assert not other.requested

    asyncio.run(main())


def test_requests_that_change_state_are_not_repeatable() -> None:
    names = {each.__name__ for each in READS}
    assert QUICK < READS and len(names) > 15
    assert all(
        name.startswith(("Describe", "List", "Fetch", "Find", "Metadata", "Offset", "Consumer")) for name in names
    )
    assert not names & {"OffsetCommitRequest", "OffsetDeleteRequest", "ConsumerGroupHeartbeatRequest"}


def test_a_write_never_reaches_a_broker_of_another_cluster() -> None:
    """A broker of another cluster may listen where one of this cluster did."""

    async def main() -> None:
        made = CreateTopicsResponse(topics=[CreatableTopicResult(name="made")])
        describe = {cluster_id: DescribeClusterResponse(cluster_id=cluster_id) for cluster_id in ("ours", "theirs")}
        foreign = TestBroker(
            {CreateTopicsRequest: lambda _: made, DescribeClusterRequest: lambda _: describe["theirs"]}
        )
        own = TestBroker({CreateTopicsRequest: lambda _: made, DescribeClusterRequest: lambda _: describe["ours"]})
        check = ClusterCheck("ours", EndpointType.BROKER)
        request = CreateTopicsRequest(topics=[CreatableTopic(name="made")])
        async with foreign.serving(), own.serving():
            async with client_of(foreign, check=check) as cluster:
                with pytest.raises(Unreachable, match="belongs to another cluster, theirs"):
                    await cluster.ask(request, CreateTopicsResponse)
            async with client_of(foreign, own, check=check) as cluster:
                await cluster.ask(request, CreateTopicsResponse)
        assert (foreign.count(CreateTopicsRequest), own.count(CreateTopicsRequest)) == (0, 1)

    asyncio.run(main())
