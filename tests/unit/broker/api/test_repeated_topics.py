"""Requests of groups with many rows: a topic named twice is answered twice, many keys wait as long as one."""

import asyncio
from dataclasses import dataclass

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.find_coordinator import FindCoordinatorRequest
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kvorum.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.broker.api.api_kit import a_broker, asking
from tests.unit.broker.api.group_requests import Groups, running

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(2, 10))
def test_a_commit_that_names_a_topic_twice_is_answered_for_each_partition(version: int) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        topics = [
            OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition(partition_index=index)])
            for name, index in (("none", 0), ("none", 1), ("t", 0), ("t", 9), ("t", 1))
        ]
        request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)
        answer = await groups.ask(request, version)
        reported = {
            (topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions
        }
        assert reported == {("none", 0): UNKNOWN, ("none", 1): UNKNOWN, ("t", 9): UNKNOWN, ("t", 0): 0, ("t", 1): 0}

    running(work())


def test_a_deletion_that_names_a_topic_twice_is_answered_for_each_partition() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        committed = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)])
        await groups.ask(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[committed]), 9)
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
            for name, index in (("none", 0), ("none", 1), ("t", 0))
        ]
        answer = await groups.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0)
        reported = {
            (topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions
        }
        assert reported == {("none", 0): UNKNOWN, ("none", 1): UNKNOWN, ("t", 0): 0}

    running(work())


@dataclass
class SlowTopics:
    """A topic that cannot be made: each who asks waits."""

    async def ensure(self, name: str) -> None:
        await asyncio.sleep(1)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {name} yet")


def test_many_keys_wait_for_a_topic_that_is_missing_as_long_as_one() -> None:
    async def work() -> None:
        request = FindCoordinatorRequest(coordinator_keys=[f"g{number}" for number in range(100)])
        began = asyncio.get_running_loop().time()
        answer = await asking(a_broker(internal_topics=SlowTopics()), request, 4)
        assert asyncio.get_running_loop().time() - began < 2
        assert [row.key for row in answer.coordinators] == request.coordinator_keys
        assert {row.error_code for row in answer.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}

    running(work())
