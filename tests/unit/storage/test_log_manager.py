"""All logs of a broker: where they are put, how they come back, what a failing directory takes with it."""

import asyncio
import errno
from collections.abc import Coroutine, Iterable
from typing import Any

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.parts import FileSlice
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime.config import Settings
from kvorum.storage.checkpoints import CheckpointError, MetaProperties, write_meta_properties
from kvorum.storage.closed_logs import describe_files
from kvorum.storage.damage import LACKS_RECORDS, Lack
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_manager import LogManager
from sim.disk import SimDisk
from tests.unit.storage.kit import NOW_MS, StillClock, batch, idempotent, joined, new_disk, read_all, small_config

TOPIC_ID = Uuid(b"0123456789abcdef")
OTHER_ID = Uuid(b"fedcba9876543210")
A, B = "/data/a", "/data/b"


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("topic", number) for number in range(count)]


class World:
    """One broker's disk over several lives."""

    def __init__(self, dirs: Iterable[str] = (A, B), **settings: object) -> None:
        self.disk: SimDisk = new_disk()
        self.clock = StillClock()
        self.settings = Settings.of({"log.dirs": list(dirs), "node.id": 1, **settings})
        self.config = small_config()
        self.offline: list[str] = []

    def manager(self, **options: object) -> LogManager:
        return LogManager(
            self.disk,
            self.clock,
            self.settings,
            topic_config=lambda topic: self.config,
            on_offline=lambda path, error: self.offline.append(path),
            **options,  # type: ignore[arg-type]
        )

    async def started(self, **options: object) -> LogManager:
        manager = self.manager(**options)
        await manager.start()
        return manager

    async def started_after_kill(self) -> LogManager:
        """A process that dies lets its locks go, and the page cache stays."""
        self.disk._locks.clear()
        return await self.started()

    def logs_in(self, path: str) -> list[str]:
        return [name for name in self.disk.listdir(path) if self.disk.is_dir(f"{path}/{name}")]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def code_of(action: object) -> ErrorCode:
    assert callable(action)
    with pytest.raises(KafkaError) as raised:
        action()
    return raised.value.code


def test_new_logs_go_where_the_fewest_are() -> None:
    async def work() -> None:
        world = World()
        manager = await world.started()
        for partition in partitions(5):
            manager.get_or_create(partition, TOPIC_ID)
        assert (len(world.logs_in(A)), len(world.logs_in(B))) == (3, 2)
        assert manager.get_log(TopicPartition("topic", 9)) is None
        assert manager.get_or_create(partitions(1)[0], TOPIC_ID) is manager.get_log(partitions(1)[0])
        assert len(list(manager.logs())) == 5

    run(work())


def test_a_start_after_a_clean_shutdown_changes_no_file() -> None:
    """Else the start after one that was interrupted takes the logs for damaged, and the broker registers as unclean.

    The leader of epoch 5 wrote nothing.
    """

    async def work() -> None:
        world = World()
        manager = await world.started()
        partition = partitions(1)[0]
        log = manager.get_or_create(partition, TOPIC_ID)
        log.append_as_leader(batch(b"x"), 3)
        log.assign_epoch_start_offset(5, log.log_end_offset)
        folder = log.folder
        await manager.shutdown(broker_epoch=17)
        recorded = describe_files(world.disk, folder)
        again = await world.started()
        assert describe_files(world.disk, folder) == recorded
        found = again.get_log(partition)
        assert found is not None and found.latest_epoch == 3

    run(work())


def test_everything_exists_after_a_clean_shutdown() -> None:
    async def work() -> None:
        world = World()
        manager = await world.started()
        for partition in partitions(4):
            log = manager.get_or_create(partition, TOPIC_ID)
            for _ in range(10 + partition.partition):
                log.append_as_leader(batch(b"x" * 100), 3)
            log.high_watermark = 8
            log.maybe_increment_log_start_offset(2)
        await manager.shutdown(broker_epoch=17)
        syncs = world.disk.counts["sync"]
        again = await world.started()
        assert again.previous_broker_epoch == 17
        for partition in partitions(4):
            found = again.get_log(partition)
            assert found is not None
            offsets = (found.log_start_offset, found.high_watermark, found.recovery_point, found.log_end_offset)
            assert offsets == (2, 8, 10 + partition.partition, 10 + partition.partition)
            assert (found.topic_id, found.latest_epoch) == (TOPIC_ID, 3)
        assert world.disk.counts["sync"] == syncs, "a clean start needs no recovery"

    run(work())


def test_the_files_of_a_directory_are_kafkas() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        log.append_as_leader(batch(), 0)
        log.high_watermark = 1
        await manager.shutdown(5)
        read = world.disk.read
        assert read(f"{A}/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 1\n"
        assert read(f"{A}/replication-offset-checkpoint") == b"0\n1\ntopic 0 1\n"
        assert read(f"{A}/log-start-offset-checkpoint") == b"0\n0\n"
        assert read(f"{A}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":5}'
        assert set(world.disk.listdir(f"{A}/topic-0")) == {
            "00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
            "00000000000000000001.snapshot", "durable-length", "leader-epoch-checkpoint", "partition.metadata",
        }  # fmt: skip

    run(work())


def test_a_kill_loses_nothing_and_a_power_failure_only_unsynced_data() -> None:
    async def work() -> None:
        world = World()
        manager = await world.started()
        for partition in partitions(4):
            log = manager.get_or_create(partition, TOPIC_ID)
            for _ in range(5):
                log.append_as_leader(batch(), 0)
        killed = await world.started_after_kill()
        assert [each.log_end_offset for each in killed.logs()] == [5] * 4
        assert killed.previous_broker_epoch == -1
        for each in killed.logs():
            each.append_as_leader(batch(), 0)
        world.disk.crash()
        cut = await world.started()
        assert all(5 <= each.log_end_offset <= 6 for each in cut.logs())

    run(work())


def test_a_directory_belongs_to_one_process_one_node_one_cluster() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        world.disk.mkdir(A)
        write_meta_properties(world.disk, A, MetaProperties("cluster", 1, TOPIC_ID))
        first = await world.started(cluster_id="cluster")
        assert first.dirs[0].directory_id == TOPIC_ID
        with pytest.raises(CheckpointError, match="another process"):
            await world.started(cluster_id="cluster")
        await first.shutdown()
        with pytest.raises(CheckpointError, match=r"cluster\.id cluster"):
            await world.started(cluster_id="other")

    run(work())


def test_another_nodes_directory_is_refused() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        world.disk.mkdir(A)
        write_meta_properties(world.disk, A, MetaProperties("cluster", 2, TOPIC_ID))
        with pytest.raises(CheckpointError, match=r"node\.id 2"):
            await world.started()

    run(work())


def test_deleting_renames_at_once_and_removes_later() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        partition = partitions(1)[0]
        log = manager.get_or_create(partition, TOPIC_ID)
        for _ in range(3):
            log.append_as_leader(batch(b"x" * 100), 0)
        log.flush()
        slices = log._local.segments.first.file
        await manager.delete(partition)
        await manager.delete(partition)
        assert manager.get_log(partition) is None
        assert code_of(lambda: log.append_as_leader(batch(), 0)) is ErrorCode.KAFKA_STORAGE_ERROR
        [name] = world.logs_in(A)
        assert name.startswith("topic-0.") and name.endswith("-delete")
        again = manager.get_or_create(partition, OTHER_ID)
        assert (again.log_end_offset, again.topic_id) == (0, OTHER_ID)
        await manager.purge_deleted(NOW_MS + 59_999)
        assert slices.size() > 0 and len(world.logs_in(A)) == 2
        await manager.purge_deleted(NOW_MS + 60_000)
        assert world.logs_in(A) == ["topic-0"]

    run(work())


def test_half_deleted_folders_are_removed_at_start() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        manager.get_or_create(partitions(1)[0], TOPIC_ID)
        await manager.delete(partitions(1)[0])
        await manager.shutdown()
        await world.started()
        assert world.logs_in(A) == []

    run(work())


def test_a_stray_log_is_kept_aside() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        manager.get_or_create(partitions(1)[0], TOPIC_ID).append_as_leader(batch(), 0)
        assert manager.stray_logs(lambda log: log.topic_id == OTHER_ID) == []
        [stray] = manager.stray_logs(lambda log: log.topic_id == TOPIC_ID)
        await manager.set_aside_stray(stray)
        await manager.purge_deleted(NOW_MS + 10**9)
        [name] = world.logs_in(A)
        assert name.endswith("-stray")
        await manager.shutdown()
        assert list((await world.started()).logs()) == []
        assert world.logs_in(A) == [name]

    run(work())


@pytest.mark.parametrize(("first", "second"), [(A, B), (B, A)])
def test_of_two_logs_of_a_name_in_two_directories_the_earlier_topics_is_set_aside(first: str, second: str) -> None:
    """A directory was offline while the topic was deleted and made anew: both logs are there when it comes back."""

    async def work() -> None:
        world, [name] = World(), partitions(1)
        for directory, topic_id in ((first, TOPIC_ID), (second, OTHER_ID)):
            world.settings = Settings.of({"log.dirs": [directory], "node.id": 1})
            manager = await world.started()
            manager.get_or_create(name, topic_id).append_as_leader(batch(), 0)
            await manager.shutdown()
        world.settings = Settings.of({"log.dirs": [A, B], "node.id": 1})
        manager = await world.started()
        assert world.offline == []
        await manager.settle_rivals(lambda log: log.topic_id == TOPIC_ID)
        found = manager.get_log(name)
        assert found is not None and found.topic_id == OTHER_ID and found.log_end_offset > 0
        assert manager.dir_of(name) is not None and manager.dir_of(name).path == second  # type: ignore[union-attr]
        assert world.logs_in(second) == [str(name)]
        [stray] = world.logs_in(first)
        assert stray.endswith("-stray")
        assert manager.stray_logs(lambda log: log.topic_id == TOPIC_ID) == []
        await manager.shutdown()

    run(work())


def test_two_logs_of_one_topic_in_two_directories_are_nobodys_to_choose() -> None:
    async def work() -> None:
        world, [name] = World(), partitions(1)
        for directory in (A, B):
            world.settings = Settings.of({"log.dirs": [directory], "node.id": 1})
            manager = await world.started()
            manager.get_or_create(name, TOPIC_ID)
            await manager.shutdown()
        world.settings = Settings.of({"log.dirs": [A, B], "node.id": 1})
        manager = await world.started()
        await manager.settle_rivals(lambda log: False)
        assert len(world.offline) == 1

    run(work())


def test_a_log_of_another_topic_of_that_name_is_not_handed_out() -> None:
    async def work() -> None:
        manager = await World().started()
        manager.get_or_create(partitions(1)[0], TOPIC_ID)
        assert code_of(lambda: manager.get_or_create(partitions(1)[0], OTHER_ID)) is ErrorCode.INCONSISTENT_TOPIC_ID

    run(work())


def test_a_log_without_a_topic_id_gets_one() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        manager.get_or_create(partitions(1)[0], TOPIC_ID)
        await manager.shutdown()
        world.disk.remove(f"{A}/topic-0/partition.metadata")
        again = await world.started()
        [log] = again.logs()
        assert log.topic_id == ZERO_UUID
        assert again.get_or_create(partitions(1)[0], TOPIC_ID).topic_id == TOPIC_ID
        assert world.disk.exists(f"{A}/topic-0/partition.metadata")

    run(work())


def test_a_failing_disk_takes_its_directory_offline_and_no_other() -> None:
    async def work() -> None:
        world = World()
        manager = await world.started()
        logs = [manager.get_or_create(partition, TOPIC_ID) for partition in partitions(4)]
        world.disk.fail("pwrite", errno.EIO)
        assert code_of(lambda: logs[0].append_as_leader(batch(), 0)) is ErrorCode.KAFKA_STORAGE_ERROR
        assert world.offline == [A]
        assert [each.failure is not None for each in logs] == [True, False, True, False]
        logs[1].append_as_leader(batch(), 0)
        created = manager.get_or_create(TopicPartition("new", 0), OTHER_ID)
        assert manager.dir_of(created.partition) is manager.dirs[1]
        await manager.flush_dirty(NOW_MS)
        await manager.checkpoint_recovery_points()
        assert manager.apply_retention(NOW_MS) == 0
        await manager.shutdown()
        assert not world.disk.exists(f"{A}/.kafka_cleanshutdown")
        assert world.disk.exists(f"{B}/.kafka_cleanshutdown")
        assert world.offline == [A]

    run(work())


def test_without_any_directory_nothing_can_be_created() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        world.disk.fail("open", errno.EIO)
        assert code_of(lambda: manager.get_or_create(partitions(1)[0], TOPIC_ID)) is ErrorCode.KAFKA_STORAGE_ERROR
        assert code_of(lambda: manager.get_or_create(partitions(1)[0], TOPIC_ID)) is ErrorCode.KAFKA_STORAGE_ERROR
        assert world.offline == [A]

    run(work())


def test_a_log_damaged_below_its_recovery_point_lacks_records_and_the_others_are_whole() -> None:
    async def work() -> None:
        world = World()
        manager = await world.started()
        for partition in partitions(2):
            log = manager.get_or_create(partition, TOPIC_ID)
            log.append_as_leader(batch(), 0)
            log.flush()
        await manager.checkpoint_recovery_points()
        world.disk.flip_bit(f"{A}/topic-0/00000000000000000000.log", 70)
        again = await world.started_after_kill()
        assert world.offline == []
        assert [again.lack_of(each) for each in partitions(2)] == [Lack.END, Lack.NOTHING]
        third = await world.started_after_kill()
        assert third.lack_of(partitions(1)[0]) is Lack.END, "it is remembered until the replica is in use"
        third.get_or_create(partitions(1)[0], TOPIC_ID)
        assert third.lack_of(partitions(1)[0]) is Lack.NOTHING
        assert (await world.started_after_kill()).lack_of(partitions(1)[0]) is Lack.NOTHING

    run(work())


def test_a_log_in_two_directories_is_nobodys_to_choose() -> None:
    async def work() -> None:
        world = World()
        world.disk.mkdir(f"{A}/topic-0")
        world.disk.mkdir(f"{B}/topic-0")
        await world.started()
        assert len(world.offline) == 1

    run(work())


def test_a_sync_that_fails_in_a_thread_takes_the_directory_offline() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        for _ in range(30):
            log.append_as_leader(batch(b"x" * 100), 0)
        world.disk.fail("sync")
        await manager.flush_dirty(NOW_MS)
        assert world.offline == [A]
        assert log.failure is not None and log.recovery_point == 0

    run(work())


def test_rolled_segments_are_synced_by_the_next_flush() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        for _ in range(30):
            log.append_as_leader(batch(b"x" * 100), 0)
        await manager.flush_dirty(NOW_MS)
        assert 20 < log.recovery_point < 30
        await manager.checkpoint_recovery_points()
        world.disk.crash()
        again = await world.started()
        [found] = again.logs()
        assert log.recovery_point <= found.log_end_offset <= 30

    run(work())


def test_a_log_deleted_under_a_sync_is_no_fault() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        for _ in range(30):
            log.append_as_leader(batch(b"x" * 100), 0)
        await asyncio.gather(manager.flush_dirty(NOW_MS), manager.delete(partitions(1)[0]))
        assert world.offline == []
        assert manager.get_log(partitions(1)[0]) is None

    run(work())


def test_retention_and_its_files_go_by_their_delays() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        world.config = small_config(retention_ms=1000)
        manager = await world.started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        for _ in range(30):
            log.append_as_leader(batch(b"x" * 100), 0)
        log.high_watermark = 30
        [part, *_] = log.read(0, 10**6).parts
        assert manager.apply_retention(NOW_MS + 1000) == 0
        assert manager.apply_retention(NOW_MS + 1001) > 3
        assert joined([part])
        await manager.flush_dirty(NOW_MS + 61_001)
        await manager.purge_deleted(NOW_MS + 61_001)
        assert not [name for name in world.disk.listdir(f"{A}/topic-0") if name.endswith(".deleted")]
        assert not isinstance(part, FileSlice) or part.size
        assert read_all(log) == b""

    run(work())


def test_a_topics_new_configuration_reaches_its_logs() -> None:
    async def work() -> None:
        manager = await World().started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        other = manager.get_or_create(TopicPartition("other", 0), OTHER_ID)
        manager.update_topic_config("topic", LogConfig(max_message_bytes=70))
        assert code_of(lambda: log.append_as_leader(batch(b"x" * 100), 0)) is ErrorCode.MESSAGE_TOO_LARGE
        other.append_as_leader(batch(b"x" * 100), 0)

    run(work())


def test_the_metadata_log_and_strange_folders_are_left_alone() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        for name in ("__cluster_metadata-0", "lost+found", "backup-1"):
            world.disk.mkdir(f"{A}/{name}")
            world.disk.write_atomic(f"{A}/{name}/file", b"x")
        manager = await world.started()
        assert list(manager.logs()) == [] and world.offline == []

    run(work())


def test_damaged_checkpoints_cost_work_but_no_record() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        manager = await world.started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        log.append_as_leader(batch(), 0)
        log.high_watermark = 1
        await manager.checkpoint_high_watermarks()
        await manager.checkpoint_log_start_offsets()
        for name in ("recovery-point", "replication", "log-start"):
            world.disk.write_atomic(f"{A}/{name}-offset-checkpoint", b"\0\0\0")
        [found] = (await world.started_after_kill()).logs()
        assert (found.log_end_offset, found.high_watermark, found.recovery_point) == (1, 0, 1)

    run(work())


def test_idle_producers_are_forgotten_everywhere() -> None:
    async def work() -> None:
        world = World(**{"producer.id.expiration.ms": 5000})
        manager = await world.started()
        log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
        log.append_as_leader(idempotent(0), 0)
        manager.expire_producers(NOW_MS + 4999)
        assert log.producer_state.producers
        manager.expire_producers(NOW_MS + 5000)
        assert not log.producer_state.producers

    run(work())


async def clean_start_of_five_records(world: World) -> LogManager:
    manager = await world.started()
    log = manager.get_or_create(partitions(1)[0], TOPIC_ID)
    for _ in range(5):
        log.append_as_leader(batch(), 0)
    await manager.shutdown(1)
    return await world.started()


def test_a_topic_created_again_after_a_clean_start_lacks_nothing() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        (partition,) = partitions(1)
        manager = await clean_start_of_five_records(world)
        await manager.delete(partition)
        log = await manager.create(partition, OTHER_ID)
        assert not world.disk.exists(f"{log.folder}/{LACKS_RECORDS}")
        log.append_as_leader(batch(), 0)
        again = await world.started_after_kill()
        found = again.get_log(partition)
        assert (again.lack_of(partition), found and found.log_end_offset) == (Lack.NOTHING, 1)

    run(work())


def test_a_log_that_moves_away_and_back_after_a_clean_start_lacks_nothing() -> None:
    async def work() -> None:
        world = World()
        (partition,) = partitions(1)
        manager = await clean_start_of_five_records(world)
        for path in (B, A):
            target = next(each for each in manager.dirs if each.path == path)
            future = await manager.futures.create(partition, TOPIC_ID, target)
            assert not world.disk.exists(f"{future.folder}/{LACKS_RECORDS}")

            def catch_up(log: Log, copy: Log) -> bool:
                if copy.log_end_offset < log.log_end_offset:
                    copy.append_as_follower(memoryview(read_all(log)))
                return True

            assert await manager.futures.promote(partition, catch_up, lambda log: None)
        again = await world.started_after_kill()
        found = again.get_log(partition)
        assert (again.lack_of(partition), found and found.log_end_offset) == (Lack.NOTHING, 5)

    run(work())


def test_a_deleted_log_is_not_missed_after_a_kill() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        (partition,) = partitions(1)
        manager = await clean_start_of_five_records(world)
        await manager.checkpoint_recovery_points()
        await manager.delete(partition)
        again = await world.started_after_kill()
        assert again.lack_of(partition) is Lack.NOTHING

    run(work())


def test_a_missing_log_is_still_missed_after_the_next_kill() -> None:
    async def work() -> None:
        world = World(dirs=[A])
        first, second = partitions(2)
        manager = await world.started()
        for partition in (first, second):
            manager.get_or_create(partition, TOPIC_ID).append_as_leader(batch(), 0)
        await manager.checkpoint_recovery_points()
        world.disk.remove_tree(f"{A}/{first}")
        for _ in range(2):
            manager = await world.started_after_kill()
            assert (manager.lack_of(first), manager.lack_of(second)) == (Lack.ALL, Lack.NOTHING)
            await manager.checkpoint_recovery_points()
        manager.get_or_create(first, TOPIC_ID)
        await manager.checkpoint_recovery_points()
        manager = await world.started_after_kill()
        assert manager.lack_of(first) is Lack.NOTHING

    run(work())
