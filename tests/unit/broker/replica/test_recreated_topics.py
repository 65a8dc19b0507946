"""A topic deleted and made anew under its name: nothing of the one gets into, or is acknowledged for, the other."""

import asyncio
from pathlib import Path

from kvorum.broker.replica.fetch_session_client import FollowerFetch
from kvorum.broker.replica.fetcher import ReplicaFetcher
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.fetch import PartitionData
from kvorum.protocol.records import patch_place
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum import records
from tests.unit.broker.replica.manager_kit import World, brokers, produce, settled, topic, until
from tests.unit.broker.replica.replica_kit import TOPIC_ID, batch
from tests.unit.broker.replica.test_fetcher import KEY, OTHER, Pair, end_of, run
from tests.unit.broker.replica.test_manager import a_world


def made_anew(**how: object) -> list[records.MetadataRecord]:
    return [records.RemoveTopic(topic_id=TOPIC_ID), *topic(topic_id=OTHER, **how)]  # type: ignore[arg-type]


def test_a_replica_begins_only_once_its_topics_id_is_synced(tmp_path: Path) -> None:
    """Also one that an earlier process left without a record: it may have died before it synced the id."""

    async def test() -> None:
        async with a_world(tmp_path, *topic()) as world:
            log = world.logs.get_log(KEY)
            assert log is not None and log.is_topic_id_durable
            for directory in world.logs.dirs:
                directory.unlock()
            again = World(tmp_path)
            await again.logs.start()
            reopened = again.logs.get_log(KEY)
            assert reopened is not None and not reopened.is_topic_id_durable
            await again.metadata(*brokers(), *topic())
            assert reopened.is_topic_id_durable
            await again.close()

    run(test)


def test_while_a_topics_logs_are_taken_away_nothing_is_acknowledged_into_them(tmp_path: Path) -> None:
    """The metadata cache knows the new topic already, and so do clients; the disk is slow."""

    async def test() -> None:
        async with a_world(tmp_path, *topic(partitions=3)) as world:
            keys = [TopicPartition("orders", index) for index in range(3)]
            await world.logs._disk_work.acquire()
            applying = asyncio.ensure_future(world.metadata(*made_anew(partitions=3)))
            await settled()
            rows = [produce(world, b"for the new topic", key=key).result() for key in keys]
            world.logs._disk_work.release()
            await applying
            assert [row.error_code for row in rows] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
            assert [produce(world, b"again", key=key).result().base_offset for key in keys] == [0] * 3

    run(test)


def test_an_answer_about_the_old_topic_is_not_appended_to_the_new_one(tmp_path: Path) -> None:
    """Same name, same leader, same leader epoch, same offset: only the topic id tells."""

    async def test() -> None:
        pair = Pair(tmp_path)
        _, follower = await pair.start(*topic(replicas=(1, 2)), *topic("other", topic_id=OTHER, replicas=(1, 2)))
        [fetcher] = follower.manager._fetchers._fetchers.values()
        assert isinstance(fetcher, ReplicaFetcher)
        await until(lambda: pair.fetches)
        old = memoryview(batch(b"of the old topic"))
        patch_place(old, 0, 0, 0)
        late = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=old)
        requested = FollowerFetch(OTHER, 0, 0, -1, 0, 1 << 20)
        fetcher._handle(KEY, requested, late)
        assert end_of(follower) == 0
        fetcher._handle(KEY, requested._replace(topic_id=TOPIC_ID), late)
        assert end_of(follower) == 1
        await pair.close()

    run(test)


def test_deleting_removes_checkpoint_entries(tmp_path: Path) -> None:
    """A broker killed soon after has the new topic's records, not the old one's log start."""

    async def test() -> None:
        async with a_world(tmp_path, *topic()) as world:
            for _ in range(5):
                await produce(world, b"old")
            log = world.manager.partition_or_raise(KEY).log
            assert log is not None
            log.maybe_increment_log_start_offset(4)
            await world.logs.checkpoint_log_start_offsets()
            await world.logs.checkpoint_high_watermarks()
            await world.metadata(*made_anew())
            await produce(world, b"new")
            for directory in world.logs.dirs:
                directory.unlock()
            again = await World(tmp_path).start()
            await again.metadata(*brokers(), *topic(topic_id=OTHER))
            found = again.logs.get_log(KEY)
            assert found is not None
            assert (found.log_start_offset, found.log_end_offset) == (0, 1)
            await again.close()

    run(test)
