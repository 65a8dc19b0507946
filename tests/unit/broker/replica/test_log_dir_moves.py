"""Replicas move between the log directories of a broker: nothing is lost, and the controller knows before."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from kvorum.broker.replica import future_copy, log_dir_moves
from kvorum.broker.replica.move_figures import follow_moves
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta
from kvorum.quorum.image.partition import LOST_DIRECTORY
from kvorum.runtime import metric_names as names
from kvorum.runtime.disk import Disk
from kvorum.storage import future_logs
from kvorum.storage.checkpoints import sync_partition_metadata
from kvorum.storage.log import Log
from kvorum.storage.log_read import ReadInfo
from tests.unit.broker.replica.directories_kit import IDS, Broker, run
from tests.unit.broker.replica.manager_kit import produce, settled, topic, until
from tests.unit.broker.replica.replica_kit import KEY, TOPIC_ID, batch


def other(name: str) -> str:
    return "b" if name == "a" else "a"


def test_a_replica_moves_with_all_that_is_in_it_while_it_is_written_to(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        sent = [b"%d" % number for number in range(300)]
        for value in sent[:200]:
            assert produce(broker.world, value).result().error_code == 0
        await broker.alter("b")
        for value in sent[200:]:
            assert produce(broker.world, value).result().error_code == 0
            await asyncio.sleep(0)
        await until(lambda: broker.lies_in() == "b")
        assert produce(broker.world, b"after").result().base_offset == 300
        assert broker.read() == [*sent, b"after"]
        assert broker.folders() == ["b/orders-0"] and broker.named == "b"
        await broker.again()
        assert broker.read() == [*sent, b"after"] and broker.lies_in() == "b"

    run(test, tmp_path)


def test_the_controller_knows_before_the_copy_takes_over(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        produce(broker.world, b"2")
        await settled()
        assert broker.lies_in() == "a" and broker.folders() == ["a/orders-0", "b/future"]
        await broker.commit_held()
        await until(lambda: broker.lies_in() == "b")
        assert broker.read() == [b"1", b"2"]
        await settled()
        assert broker.reported[-1] == IDS["b"] and broker.named == "b"

    run(test, tmp_path)


def test_a_move_back_to_the_logs_directory_cancels_the_move(tmp_path: Path) -> None:
    """Also after the controller was told: it hears of the old place again."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        await broker.alter("a")
        assert broker.folders() == ["a/orders-0"]
        await broker.commit_held()
        await until(lambda: broker.named == "a")
        assert broker.lies_in() == "a" and broker.read() == [b"1"]

    run(test, tmp_path)


def test_a_move_continues_after_a_restart(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        for _ in range(50):
            produce(broker.world, b"x" * 100)
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        broker.held = None
        await broker.again()
        await until(lambda: broker.lies_in() == "b")
        assert len(broker.read()) == 50 and broker.folders() == ["b/orders-0"]

    run(test, tmp_path)


def test_a_log_that_is_cut_and_rewritten_is_copied_as_it_is(tmp_path: Path) -> None:
    """A new leader's truncation takes what the copy has already."""

    async def test(broker: Broker) -> None:
        for value in (b"1", b"2", b"3"):
            produce(broker.world, value)
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        log = broker.world.logs.get_log(KEY)
        assert log is not None
        log.truncate_to(1)
        await broker.world.metadata(
            records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=-1),
            records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=1),
        )
        produce(broker.world, b"new")
        await until(lambda: broker.world.logs.futures.get(KEY).log_end_offset == 2)  # type: ignore[union-attr]
        await broker.commit_held()
        await until(lambda: broker.lies_in() == "b")
        assert broker.read() == [b"1", b"new"]
        moved = broker.world.logs.get_log(KEY)
        assert moved is not None and moved.epoch_cache.entries == log.epoch_cache.entries

    run(test, tmp_path)


def test_deleted_records_are_not_copied_back(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        for value in (b"1", b"2", b"3"):
            produce(broker.world, value)
        log = broker.world.logs.get_log(KEY)
        assert log is not None
        log.maybe_increment_log_start_offset(2)
        await broker.move("b")
        moved = broker.world.logs.get_log(KEY)
        assert moved is not None and (moved.log_start_offset, moved.log_end_offset) == (2, 3)

    run(test, tmp_path)


def test_a_copy_goes_with_its_partition(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        await broker.world.metadata(records.RemoveTopic(topic_id=TOPIC_ID))
        assert broker.folders() == [] and broker.world.logs.futures.keys() == []

    run(test, tmp_path)


@pytest.mark.parametrize("failed", ["a", "b"])
def test_a_failed_directory_affects_only_its_own_replicas(tmp_path: Path, failed: str) -> None:
    """The copy's costs the move alone. The log's costs the replica: the controller is told of a again."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        await broker.commit_held()  # nothing suspends before the failure below
        broker.world.logs._table.take_offline(
            broker.world.logs.directory(f"{tmp_path}/{failed}"),  # type: ignore[arg-type]
            OSError("the disk"),
        )
        if failed == "b":
            assert broker.read() == [b"1"] and broker.lies_in() == "a"
        else:
            assert produce(broker.world, b"2").result().error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await until(lambda: broker.named == "a")
        assert broker.world.manager.moves.failed_count == 0, "the directory failed, not the move"

    run(test, tmp_path)


def test_a_copy_of_a_lost_log_is_no_replica(tmp_path: Path) -> None:
    """Its directory is offline after a restart, and the metadata name the copy's: the controller hears of the loss."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        await broker.commit_held()
        image = broker.world.cache.image
        broker.world.manager.moves.forget([KEY])
        await broker.world.close()
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "a").write_text("no directory")
        broker.reported.clear()
        broker.world = broker.made()
        await broker.world.start()
        await broker.take(image)
        await until(lambda: broker.reported == [LOST_DIRECTORY])
        assert produce(broker.world, b"2").result().error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run(test, tmp_path)


def test_a_replica_with_a_cancelled_move_is_lost_with_its_directory(tmp_path: Path) -> None:
    """The metadata still name the directory that it was to lie in, which works: nothing of the replica is there."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        await broker.commit_held()
        broker.held = []  # the controller does not hear of a any more
        await broker.alter("a")
        assert broker.named == "b" and broker.folders() == ["a/orders-0"]
        image = broker.world.cache.image
        await broker.world.close()
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "a").write_text("no directory")
        broker.reported.clear()
        broker.held = None
        broker.world = broker.made()
        await broker.world.start()
        await broker.take(image)
        await until(lambda: broker.reported == [LOST_DIRECTORY])
        assert produce(broker.world, b"2").result().error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run(test, tmp_path)


def test_the_answers_are_kafkas(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        moves, folder = broker.world.manager.moves, broker.folder

        async def code(name: str, key: TopicPartition = KEY) -> ErrorCode:
            try:
                await moves.alter(key, name if name.startswith("/") else f"{folder}/{name}")
            except KafkaError as error:
                return error.code
            return ErrorCode.NONE

        await broker.world.metadata(*topic("far", topic_id=Uuid(b"\x06" * 16), replicas=(2,), leader=2))
        assert await code("/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
        assert await code("b", TopicPartition("x" * 249, 0)) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await code("b", TopicPartition("nothing", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await code("b", TopicPartition("far", 0)) is ErrorCode.REPLICA_NOT_AVAILABLE
        assert await code("a") is ErrorCode.NONE and broker.folders() == ["a/orders-0"]
        broker.world.logs.cordon([f"{folder}/b"])
        assert await code("b") is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        broker.world.logs.cordon([])
        # What was not here is made where it was wanted, and the name is heeded once.
        await broker.world.metadata(*topic("nothing", topic_id=Uuid(b"\x08" * 16)))
        assert broker.lies_in(TopicPartition("nothing", 0)) == "b"

    run(test, tmp_path)


def test_a_cordoned_directory_gets_no_new_logs(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        broker.world.logs.cordon([f"{broker.folder}/b"])
        await broker.world.metadata(*topic("many", topic_id=Uuid(b"\x08" * 16), partitions=4))
        assert {broker.lies_in(TopicPartition("many", index)) for index in range(4)} == {"a"}

    run(test, tmp_path)


def test_copying_is_throttled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 40 kB a second 60 kB take over a second, in which the first is in the window."""
    monkeypatch.setattr(log_dir_moves, "CHUNK_BYTES", 4096)

    async def test(broker: Broker) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(60):
            produce(broker.world, b"x" * 1000)
        broker.world.manager.moves.quota.bound = 40_000
        began = loop.time()
        await broker.move("b")
        assert loop.time() - began > 0.5
        assert len(broker.read()) == 60

    run(test, tmp_path)


def reported(broker: Broker) -> tuple[float, float]:
    """Return MaxLag and FailedPartitionsCount as a scrape finds them."""
    gauge = broker.world.metrics.gauge
    found = (names.MOVES_MAX_LAG, names.MOVES_FAILED_PARTITIONS)
    lag, failed = (gauge(name).labels("ReplicaAlterLogDirs").read() for name in found)
    return lag, failed


def test_the_metrics_report_how_far_a_copy_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_moves, "CHUNK_BYTES", 4096)

    async def test(broker: Broker) -> None:
        follow_moves(broker.world.metrics, broker.world.manager.moves)
        for _ in range(20):
            produce(broker.world, b"x" * 1000)
        assert reported(broker) == (0, 0)
        broker.world.manager.moves.quota.bound = 0
        await broker.alter("b")
        assert reported(broker) == (20, 0), "nothing is copied yet"
        await until(lambda: broker.world.manager.moves.quota.wait_ms(broker.world.clock.monotonic_ms()) > 0)
        future = broker.world.logs.futures.get(KEY)
        assert future is not None and 0 < future.log_end_offset < 20
        assert reported(broker) == (20 - future.log_end_offset, 0)
        broker.world.manager.moves.quota.bound = None
        await until(lambda: broker.lies_in() == "b")
        assert reported(broker) == (0, 0)

    run(test, tmp_path)


def failing(*_: object) -> None:
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch that cannot be")


@pytest.mark.parametrize("ending", ["asked again", "another leader epoch", "given up", "partition gone"])
def test_a_move_that_met_an_error_counts_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    async def test(broker: Broker) -> None:
        follow_moves(broker.world.metrics, broker.world.manager.moves)
        produce(broker.world, b"1")
        monkeypatch.setattr(future_copy, "append", failing)
        await broker.alter("b")
        await until(lambda: reported(broker) == (0, 1))
        await broker.alter("b")
        assert reported(broker)[1] == 0, "it is tried again"
        await until(lambda: reported(broker)[1] == 1)
        assert broker.folders() == ["a/orders-0", "b/future"] and broker.read() == [b"1"]

        monkeypatch.undo()
        match ending:
            case "asked again":
                await broker.move("b")
            case "another leader epoch":
                await broker.world.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=1))
                await until(lambda: broker.lies_in() == "b")
            case "given up":
                await broker.alter("a")
                assert broker.folders() == ["a/orders-0"]
            case _:
                await broker.world.metadata(records.RemoveTopic(topic_id=TOPIC_ID))
        assert reported(broker) == (0, 0)

    run(test, tmp_path)


def test_a_copy_becomes_the_log_if_the_logs_directory_was_removed(tmp_path: Path) -> None:
    """As in Kafka: the metadata name the copy's directory, and all directories that are configured work."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        await broker.commit_held()
        image = broker.world.cache.image
        broker.world.manager.moves.forget([KEY])
        await broker.world.close()
        broker.settings["log.dirs"] = f"{tmp_path}/b"
        broker.world = broker.made()
        await broker.world.start()
        await broker.take(image)
        assert broker.read() == [b"1"] and broker.lies_in() == "b"

    run(test, tmp_path)


def test_a_crash_between_two_names_leaves_the_copy(tmp_path: Path) -> None:
    """The log keeps its own until the copy has its name: the metadata tell which of the two is the replica."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        await broker.move("b")
        produce(broker.world, b"2")
        image = broker.world.cache.image
        await broker.world.close()
        [old] = (tmp_path / "a").glob("orders-*-delete")
        old.rename(tmp_path / "a" / "orders-0")
        broker.world = broker.made()
        await broker.world.start()
        await broker.take(image)
        assert broker.read() == [b"1", b"2"] and broker.folders() == ["b/orders-0"]

    run(test, tmp_path)


def test_a_log_that_is_cut_while_its_copy_waits_for_the_quota_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before may show what was written since, behind records that are no more."""
    monkeypatch.setattr(log_dir_moves, "CHUNK_BYTES", 1)  # a batch at a time

    async def test(broker: Broker) -> None:
        world, moves = broker.world, broker.world.manager.moves
        for value in (b"1", b"2", b"3", b"4"):
            produce(world, value)
        log = world.logs.get_log(KEY)
        assert log is not None
        log._local._tail.clear()  # what has left memory is read from the file
        waits: list[asyncio.Event] = []

        def wait_ms(self: log_dir_moves.MoveQuota, now_ms: int) -> int:
            future = world.logs.futures.get(KEY)
            if future is None or future.log_end_offset != 2 or waits:
                return 0
            waits.append(asyncio.Event())
            return 50

        monkeypatch.setattr(log_dir_moves.MoveQuota, "wait_ms", wait_ms)
        broker.held = []
        await broker.alter("b")
        await until(lambda: waits)
        log.truncate_to(1)
        await world.metadata(
            records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=-1),
            records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, leader=1),
        )
        for value in (b"5", b"6", b"7"):
            produce(world, value)
        log._local._tail.clear()
        await until(lambda: broker.held)
        await broker.commit_held()
        await until(lambda: broker.lies_in() == "b")
        assert broker.read() == [b"1", b"5", b"6", b"7"]
        assert moves is world.manager.moves

    run(test, tmp_path)


def test_a_replica_that_is_taken_from_the_broker_ends_its_move(tmp_path: Path) -> None:
    """The metadata cache knows before the replicas do: a move that comes to its end in between is nobody's fault."""

    async def test(broker: Broker) -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        world = broker.world
        produce(world, b"1")
        image = world.cache.image
        delta = MetadataDelta(image)
        delta.replay(
            records.PartitionChange(
                topic_id=TOPIC_ID,
                partition_id=0,
                replicas=(2,),
                isr=(2,),
                leader=2,
                directories=(ZERO_UUID,),
            )
        )
        world.cache.image = delta.apply(image.offset + 1, 1)
        await broker.alter("b")
        await until(lambda: (future := world.logs.futures.get(KEY)) is not None and future.log_end_offset == 1)
        await settled()
        await world.manager.apply_delta(delta, world.cache.image)
        assert broker.folders() == [] and not faults

    run(test, tmp_path)


def test_nothing_is_copied_while_a_directory_is_offline(tmp_path: Path) -> None:
    """As in Kafka: a copy may lie there, and come back with it. To where the replica lies there is no way to go."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        (tmp_path / "c").mkdir()
        await broker.world.close()
        broker.settings["log.dirs"] += f",{tmp_path}/c"  # type: ignore[operator]
        image = broker.world.cache.image
        broker.world = broker.made()
        await broker.world.start()
        await broker.take(image)
        broker.world.logs._table.take_offline(
            broker.world.logs.directory(f"{tmp_path}/c"),  # type: ignore[arg-type]
            OSError("the disk"),
        )
        await broker.alter("a")
        with pytest.raises(KafkaError) as refused:
            await broker.alter("b")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR and broker.folders() == ["a/orders-0"]

    run(test, tmp_path)


def test_a_requested_offset_is_used_once(tmp_path: Path) -> None:
    """A topic made anew lies wherever there is room, not where its predecessor was moved to."""

    async def test(broker: Broker) -> None:
        await broker.move("b")
        await broker.world.metadata(records.RemoveTopic(topic_id=TOPIC_ID))
        await broker.world.metadata(*topic(topic_id=Uuid(b"\x08" * 16)))
        assert broker.lies_in() == "a"

    run(test, tmp_path)


def hold_sync(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, threading.Event]:
    """Have the sync of a copy's topic id tell that it has begun, and wait."""
    loop, began, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def held(disk: Disk, folder: str) -> None:
        if folder.endswith("-future"):
            loop.call_soon_threadsafe(began.set)
            assert release.wait(60)
        sync_partition_metadata(disk, folder)

    monkeypatch.setattr(future_logs, "sync_partition_metadata", held)
    return began, release


def test_a_move_continues_though_its_client_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is lost while the copy is made: nobody else would begin to copy."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        began, release = hold_sync(monkeypatch)
        altering = asyncio.ensure_future(broker.alter("b"))
        await began.wait()
        altering.cancel()
        await settled()
        release.set()
        await until(lambda: broker.lies_in() == "b")

    run(test, tmp_path)


def test_a_copy_is_not_promoted_before_its_topic_id_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the sync would look for a folder that has another name by then, and take the directory for broken."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        began, release = hold_sync(monkeypatch)
        altering = asyncio.ensure_future(broker.alter("b"))
        await began.wait()
        # Any change of the partition looks for copies to go on with.
        await broker.world.metadata(records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, isr=(1,)))
        await settled()
        await asyncio.sleep(0.05)
        release.set()
        await altering
        await until(lambda: broker.lies_in() == "b")
        assert broker.read() == [b"1"] and broker.world.logs.directory(f"{tmp_path}/b").is_online  # type: ignore[union-attr]

    run(test, tmp_path)


def test_records_that_wait_for_a_sync_are_synced_where_the_log_is_now(tmp_path: Path) -> None:
    """A promotion comes between: whoever waits is not answered by the log that has given up its place."""

    async def test(broker: Broker) -> None:
        world, produced = broker.world, []
        syncs = world.logs.futures._syncs
        sync_whole = syncs.sync_whole

        async def sync(each: Log) -> None:
            produced.append(produce(world, b"late", timeout_ms=60_000))
            await settled()  # it waits for the disk
            await sync_whole(each)

        syncs.sync_whole = sync  # type: ignore[method-assign]
        await broker.move("b")
        row = await produced[0]
        assert row.error_code == ErrorCode.NONE and broker.read() == [b"late"]
        log = world.logs.get_log(KEY)
        assert log is not None and log.recovery_point == log.log_end_offset == 1

    run(test, tmp_path, log_flush_interval_messages=1)


def test_a_log_that_ends_behind_its_last_batch_is_copied_when_it_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cut where compaction had left a gap. A copy cannot end there, and nobody asks again and again."""
    reads: list[None] = []
    read = future_copy.read

    def counted(current: Log, future: Log, max_bytes: int) -> ReadInfo | None:
        reads.append(None)
        return read(current, future, max_bytes)

    monkeypatch.setattr(future_copy, "read", counted)

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        log = broker.world.logs.get_log(KEY)
        assert log is not None
        behind = bytearray(batch(b"9"))
        behind[:8] = (9).to_bytes(8, "big")
        log.append_as_follower(memoryview(behind))
        log.truncate_to(5)
        assert log.log_end_offset == 5
        await broker.alter("b")
        future = broker.world.logs.futures.get(KEY)
        assert future is not None
        await until(lambda: future.log_end_offset == 1)
        await settled()
        await asyncio.sleep(0.05)
        assert len(reads) < 5
        produce(broker.world, b"2")
        await until(lambda: broker.lies_in() == "b")
        assert broker.read() == [b"1", b"2"]

    run(test, tmp_path)
