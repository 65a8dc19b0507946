"""Replicas whose log could not be opened for want of file descriptors come online by themselves."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kvorum.broker.replica import housekeeping
from kvorum.broker.replica.types import Role
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum import records
from kvorum.runtime.disk import OsDisk
from tests.unit.broker.replica.manager_kit import World, brokers, produce, topic, until
from tests.unit.broker.replica.replica_kit import TOPIC_ID

KEY = TopicPartition("orders", 0)


class Lack:
    """Lets no file be opened while `number` is an errno."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number: int | None = None
        opened = OsDisk.open

        def open_(disk: OsDisk, *arguments: Any, **options: Any) -> object:
            if self.number is not None:
                raise OSError(self.number, "no")
            return opened(disk, *arguments, **options)

        monkeypatch.setattr(OsDisk, "open", open_)
        monkeypatch.setattr(housekeeping, "REOPEN_INTERVAL_MS", 5)


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


async def world_without(lack: Lack, number: int, folder: Path, leader: int) -> tuple[World, list[TopicPartition]]:
    """A broker whose new replica has no log for this reason, and the replicas that came online later."""
    world = await World(folder).start()
    world.manager.start()
    online: list[TopicPartition] = []
    world.manager.on_reopened(lambda key, registration: online.append(key))
    await world.metadata(*brokers())
    lack.number = number
    await world.metadata(*topic(replicas=(1, 2), isr=(leader,), leader=leader))
    assert world.manager.hosted.by_name[KEY].role is Role.OFFLINE
    return world, online


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_new_leader_serves_once_there_are_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    lack = Lack(monkeypatch)

    async def test() -> None:
        world, online = await world_without(lack, number, tmp_path, 1)
        assert produce(world, b"a", acks=1).result().error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(0.05)
        assert not online
        lack.number = None
        await until(lambda: online)
        assert online == [KEY]
        assert produce(world, b"a", acks=1).result().error_code == ErrorCode.NONE
        await world.close()

    run(test)


def test_a_replica_that_is_taken_away_meanwhile_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lack = Lack(monkeypatch)

    async def test() -> None:
        world, online = await world_without(lack, errno.EMFILE, tmp_path, 1)
        await world.metadata(records.RemoveTopic(topic_id=TOPIC_ID))
        lack.number = None
        await asyncio.sleep(0.05)
        assert not online and KEY not in world.manager.hosted.by_name
        assert world.logs.get_log(KEY) is None
        await world.close()

    run(test)


def test_a_failed_disk_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lack = Lack(monkeypatch)

    async def test() -> None:
        world, online = await world_without(lack, errno.EIO, tmp_path, 1)
        lack.number = None
        await asyncio.sleep(0.05)
        assert not online and world.manager.hosted.by_name[KEY].role is Role.OFFLINE
        await world.close()

    run(test)
