"""A process without free file descriptors refuses connections; its log directories stay online and nothing is lost."""

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvorum.cluster.local.local import LocalCluster
from kvorum.network.arrival import Scarcity
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import disk as disk_module
from kvorum.runtime.disk import PROCESS_ERRNOS, DescriptorReserve, OsDisk, is_process_error
from kvorum.storage.recovery import OpenOptions
from tests.cluster.clients import Sender, assert_all_there_once_in_order, create_topic, eventually, read_all
from tests.cluster.conftest import clusters_in
from tests.unit.storage.kit import batch, new_disk, open_test_log, small_config
from tests.unit.storage.kit import read_all as read_log
from tests.unit.storage.test_log_manager import TOPIC_ID, World

LIMIT = 256


@contextmanager
def limited(pid: int, limit: int) -> Iterator[None]:
    """Lower a process's limit of open files for a while."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def log_of(cluster: LocalCluster) -> str:
    return Path(cluster.node("node-1").log("broker")).read_text()


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_too_many_connections_are_refused_and_those_that_exist_continue(tmp_path: Path) -> None:
    with clusters_in(tmp_path) as start:
        cluster = start("single.yaml")
        bootstrap = cluster.plan.bootstrap
        host, port = bootstrap.rsplit(":", 1)
        create_topic(bootstrap, "t", 4, 1)
        sender = Sender(bootstrap, "t")
        sender.send(100, 4)
        sender.flush_acked(100)
        pid = cluster.pid_of("node-1", "broker")
        with limited(pid, LIMIT):
            crowd: list[socket.socket] = []
            try:
                for _ in range(2 * LIMIT):
                    crowd.append(socket.create_connection((host, int(port)), 10))
                refused = eventually(lambda: sum(map(is_closed, crowd)), "no connection was refused")
                assert refused >= LIMIT
                sender.send(200, 4)
                sender.flush_acked(300)
                assert descriptors_of(pid) < LIMIT
            finally:
                for connection in crowd:
                    connection.close()
            eventually(lambda: descriptors_of(pid) < LIMIT // 2, "connections are not closed")
            assert_all_there_once_in_order(read_all(bootstrap, "t", 4), sender.sent.acked)
        lines = [line for line in log_of(cluster).splitlines() if "file descriptors are in use" in line]
        assert 1 <= len(lines) <= 3, lines
        assert "log directory offline" not in log_of(cluster)
        cluster.stop("node-1")
        assert cluster.exit_code("node-1") in (0, None)


def test_a_log_that_needs_a_descriptor_more_is_written_to_again_once_there_is_one(tmp_path: Path) -> None:
    """Each batch is a segment of its own here, with a file that stays open."""
    with clusters_in(tmp_path) as start:
        cluster = start("single.yaml")
        bootstrap = cluster.plan.bootstrap
        create_topic(bootstrap, "t", 1, 1, **{"segment.index.bytes": "4"})
        sender = Sender(bootstrap, "t", **{"batch.num.messages": 1, "max.in.flight": 5})
        sender.send(20)
        sender.flush_acked(20)
        pid = cluster.pid_of("node-1", "broker")
        with limited(pid, LIMIT):
            sender.send(2 * LIMIT)
            eventually(lambda: "Too many open files" in log_of(cluster), "descriptors never ran out")
        sender.flush_acked(20 + 2 * LIMIT)
        assert "log directory offline" not in log_of(cluster)
        assert_all_there_once_in_order(read_all(bootstrap, "t", 1), sender.sent.acked)


@pytest.mark.parametrize("number", sorted(PROCESS_ERRNOS))
@pytest.mark.parametrize("operation", ["open", "pwrite"])
def test_an_append_that_lacks_something_of_the_process_is_refused_whole(operation: str, number: int) -> None:
    failures: list[Exception] = []
    disk = new_disk()
    config = small_config(segment_bytes=400)
    log = open_test_log(disk, config, options=OpenOptions(on_io_error=failures.append))
    for _ in range(3):
        log.append_as_leader(batch(b"x" * 55), 0)
    before = read_log(log)
    disk.fail(operation, number)
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(batch(b"x" * 55), 0)  # begins a segment
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.failure, failures, read_log(log), log.log_end_offset) == (None, [], before, 3)
    for _ in range(5):
        log.append_as_leader(batch(b"x" * 55), 0)
    after = read_log(log)
    log.flush()
    assert read_log(open_test_log(disk, config)) == after and log.log_end_offset == 8


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.ENODEV, None])
def test_every_other_error_is_the_disks(number: int | None) -> None:
    assert not is_process_error(OSError(number, "text") if number is not None else OSError("text"))
    assert not is_process_error(ValueError())


def test_a_flush_that_lacks_a_descriptor_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    log = open_test_log(disk, small_config(segment_bytes=400))
    for _ in range(9):
        log.append_as_leader(batch(b"x" * 55), 0)
    disk.fail("open", errno.EMFILE)
    with pytest.raises(KafkaError):
        log.flush()
    assert (log.failure, log.recovery_point) == (None, 0)
    log.flush()
    assert log.recovery_point == 9


def test_a_truncation_that_ends_half_done_takes_the_log_out_of_service() -> None:
    failures: list[Exception] = []
    disk = new_disk()
    log = open_test_log(disk, small_config(segment_bytes=400), options=OpenOptions(on_io_error=failures.append))
    for _ in range(9):
        log.append_as_leader(batch(b"x" * 55), 0)
    disk.fail("sync_dir", errno.EMFILE)
    with pytest.raises(KafkaError):
        log.truncate_to(2)
    assert len(failures) == 1 and log.failure is not None


def test_files_are_opened_with_the_reserve_when_no_descriptor_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = DescriptorReserve()
    monkeypatch.setattr(disk_module, "reserve", held)
    disk = OsDisk()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held.fill(4)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken[0], *held._held) + 1, hard))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        disk.write_atomic(f"{tmp_path}/name", b"content")
        assert disk.read(f"{tmp_path}/name") == b"content"
        assert disk.listdir(str(tmp_path)) == ["name"]
        files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(3)]
        assert len(held._held) == 1
        for file in files:
            file.close()
        assert len(held._held) == 4
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in (*taken, *held._held):
            os.close(fd)


def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail)
        with pytest.raises(OSError, match="Too many open files"):
            OsDisk().remove_tree(str(tmp_path / "folder"))
    OsDisk().remove_tree(str(tmp_path / "folder"))
    OsDisk().remove_tree(str(tmp_path / "folder"))


def test_a_sync_that_fails_is_never_taken_for_a_lack_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    file = OsDisk().open(f"{tmp_path}/file", create=True)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="sync failed") as raised:
        file.sync()
    file.close()
    assert raised.value.errno == errno.EIO


def test_the_last_descriptors_are_kept_for_the_logs() -> None:
    scarcity = Scarcity()
    assert not scarcity.is_reached(895, 1024, protected=False)
    assert scarcity.is_reached(896, 1024, protected=False)
    assert not scarcity.is_reached(896, 1024, protected=True)
    assert scarcity.is_reached(960, 1024, protected=True)
    assert not scarcity.is_reached(1_047_551, 1_048_576, protected=False)
    assert scarcity.is_reached(1_047_552, 1_048_576, protected=False)
    assert not scarcity.is_reached(10**9, resource.RLIM_INFINITY, protected=False)


def test_a_start_without_descriptors_fails_and_takes_no_directory_offline() -> None:
    """A log that is there must not be taken for one that is not; the supervisor starts the process again."""

    async def work() -> None:
        world = World(dirs=["/data/a"])
        manager = await world.started()
        for partition in (TopicPartition("t", 0), TopicPartition("t", 1)):
            created = manager.get_or_create(partition, TOPIC_ID)
            await manager.sync_topic_id(created)
            created.append_as_leader(batch(), 0)
        world.disk._locks.clear()
        world.disk.fail("open", errno.EMFILE)
        with pytest.raises((OSError, ExceptionGroup)):
            await world.manager().start()
        assert world.offline == []
        again = await world.started_after_kill()
        assert [each.log_end_offset for each in again.logs()] == [1, 1]

    asyncio.run(work())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_a_new_log_that_lacks_a_descriptor_is_made_at_the_next_attempt(number: int) -> None:
    async def work() -> None:
        world = World(dirs=["/data/a"])
        manager = await world.started()
        world.disk.fail("open", number)
        with pytest.raises(KafkaError) as raised:
            manager.get_or_create(TopicPartition("t", 0), TOPIC_ID)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        created = manager.get_or_create(TopicPartition("t", 0), TOPIC_ID)
        world.disk.fail("sync_dir", number)
        with pytest.raises(KafkaError):
            await manager.sync_topic_id(created)
        assert not created.is_topic_id_durable
        await manager.sync_topic_id(created)
        assert created.is_topic_id_durable and world.offline == []

    asyncio.run(work())
