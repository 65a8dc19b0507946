"""What a broker logs of its replicas at INFO: one line per batch of partitions, never one per partition."""

import asyncio

import pytest

from kvorum.broker.replica.delta import log_new_roles
from kvorum.storage.names import TopicPartition
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
        "broker became leader partitions=30 first=b-0",
        "broker became follower leader=2 partitions=25 first=a-0",
        "broker became follower leader=3 partitions=25 first=a-1",
    ]


def test_changes_of_in_sync_replicas_are_one_line_for_each_request(capfd: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        sending = Sending()
        partitions = [sending.partition("a", index) for index in range(20)]
        for partition in partitions:
            sending.joins(partition)
        await until_idle(sending)

    asyncio.run(test())
    assert info_lines(capfd) == ["broker isr changed isr=1,2 partitions=20 first=a-0"]
