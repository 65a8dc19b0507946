"""New partitions on a cluster that publishes them after its response, as Apache Kafka does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kvorum.client import Cluster, ErrorCode, KafkaError, NewTopic, TopicPartition
from kvorum.client.partitions import offsets
from kvorum.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kvorum.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.unit.admin.managed import ManagedCluster


class LateCluster(ManagedCluster):
    """The next requests for topics, and then those for offsets, are answered as before a change."""

    late_metadata = 0
    late_leaders = 0

    def own_answers(self) -> dict[type, Callable[[Any, int, Any], Any]]:
        return {**super().own_answers(), ListOffsetsRequest: LateCluster._late_ends}

    def _metadata(self, request: Any) -> MetadataResponse:
        answer = super()._metadata(request)
        if request.topics and self.late_metadata:
            self.late_metadata -= 1
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.topics = [MetadataResponseTopic(name=each.name, error_code=unknown) for each in answer.topics]
        return answer

    def _late_ends(self, broker: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        answer = self._ends_of(broker, request)
        if self.late_leaders:
            self.late_leaders -= 1
            for row in (row for topic in answer.topics for row in topic.partitions):
                row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> LateCluster:
    monkeypatch.setattr(offsets, "PUBLICATION_PAUSE_SECONDS", 0)
    monkeypatch.setattr(offsets, "RETRY_PAUSE_SECONDS", 0)
    return LateCluster()


def test_new_partitions_are_served_when_the_call_returns(late: LateCluster) -> None:
    async def run() -> None:
        async with Cluster(late) as cluster:
            late.late_metadata, late.late_leaders = 2, 3
            await cluster.topics.create("a", partitions=2)
            assert (late.late_metadata, late.late_leaders) == (0, 0)
            late.late_leaders = 2
            await cluster.partitions.add("a", 3)
            assert late.late_leaders == 0
            late.late_metadata = 1
            await cluster.topics.create_many([NewTopic(name="b"), NewTopic(name="a")])
            assert late.late_metadata == 0

    asyncio.run(run())


def test_a_topic_whose_leaders_are_not_available_is_created(late: LateCluster) -> None:
    async def run() -> None:
        async with Cluster(late) as cluster:
            late.late_leaders = 10_000
            assert (await cluster.topics.create("a")).partition_count == 1
            late.codes[ListOffsetsRequest] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert (await cluster.topics.create("b")).partition_count == 1

    asyncio.run(run())


def test_offsets_of_partitions_that_their_leader_has_not_published_are_requested_again(late: LateCluster) -> None:
    async def run() -> None:
        async with Cluster(late) as cluster:
            late.place("a", [1, 2])
            late.late_leaders = 2
            found = await cluster.partitions.list_offsets([TopicPartition("a", 0)])
            assert found[TopicPartition("a", 0)].offset == 0
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await cluster.partitions.list_offsets([TopicPartition("a", 9)])

    asyncio.run(run())
