"""What a broker logs of its replicas at INFO: one line per batch of partitions, never one per partition."""

import asyncio
from pathlib import Path

import pytest

from kvorum.broker.replica.delta import log_new_roles
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum import records
from tests.unit.broker.replica.manager_kit import grant, produce, topic, until
from tests.unit.broker.replica.replica_kit import TOPIC_ID
from tests.unit.broker.replica.test_fetcher import Pair, end_of
from tests.unit.broker.replica.test_isr_manager import Sending, until_idle


def info_lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line.partition(" INFO ")[2] for line in capfd.readouterr().err.splitlines() if " INFO " in line]


def test_new_roles_are_one_line_for_all_it_leads_and_one_for_each_other_leader(
    capfd: pytest.CaptureFixture[str],
) -> None:
    sending = Sending()
    followed = [sending.partition("a", index) for index in range(50)]
    for index, partition in enumerate(followed):
        partition.leader_id = 2 + index % 2
    log_new_roles([TopicPartition("b", index) for index in range(30)], followed)
    assert info_lines(capfd) == [
        "broker became leader partitions=30 first=b-0,b-1,b-2",
        "broker became follower leader=2 partitions=25 first=a-0,a-2,a-4",
        "broker became follower leader=3 partitions=25 first=a-1,a-3,a-5",
    ]


def test_changes_of_in_sync_replicas_are_one_line_for_each_request(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        sending = Sending()
        partitions = [sending.partition("a", index) for index in range(20)]
        for partition in partitions:
            sending.joins(partition)
        await until_idle(sending)

    asyncio.run(test())
    assert info_lines(capfd) == ["broker isr changed isr=1,2 partitions=20 first=a-0,a-1,a-2"]


def test_rejected_isr_changes_are_one_line_for_each_request_and_error(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        sending = Sending()
        sending.controller.answers = [lambda request: grant(request, ErrorCode.INELIGIBLE_REPLICA)]
        for partition in [sending.partition("a", index) for index in range(20)]:
            sending.joins(partition)
        await until_idle(sending)

    asyncio.run(test())
    assert info_lines(capfd) == [
        'broker isr changes rejected error=INELIGIBLE_REPLICA then="roll back" partitions=20 first=a-0,a-1,a-2'
    ]


def test_truncated_logs_are_one_line_for_each_response(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Broker 1 has a record in each of 20 partitions that broker 2, the next leader, does not have."""

    async def test() -> None:
        pair = Pair(tmp_path)
        first, second = await pair.start(*topic(replicas=(1, 2), partitions=20))
        keys = [TopicPartition("orders", index) for index in range(20)]
        await second.manager._fetchers.close()
        for key in keys:
            await produce(first, b"lost", acks=1, key=key)
        changes = [
            records.PartitionChange(topic_id=TOPIC_ID, partition_id=key.partition, leader=2, isr=(2,)) for key in keys
        ]
        await second.metadata(*changes)
        await first.metadata(*changes)
        await until(lambda: all(end_of(first, key) == 0 for key in keys))
        await pair.close()

    asyncio.run(asyncio.wait_for(test(), 60))
    expected = "broker logs truncated to the leader's logs leader=2 partitions=20 first=orders-0,orders-1,orders-2"
    assert [line for line in info_lines(capfd) if line.startswith("broker logs")] == [expected]
