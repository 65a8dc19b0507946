"""Folders and files that people leave beside logs: never taken for a log's, never renamed, never removed."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.disk import OsDisk
from kvorum.storage.checkpoints import decode_offsets
from kvorum.storage.epoch_cache import EpochCache
from kvorum.storage.log_manager import LogManager
from kvorum.storage.names import (
    DELETE_FOLDER_SUFFIX,
    FUTURE_FOLDER_SUFFIX,
    STRAY_FOLDER_SUFFIX,
    future_folder,
    marked_folder,
    offset_of,
    parse_folder,
    parse_suffixed_folder,
    segment_file,
)
from sim.disk import SimDisk
from tests.unit.storage.kit import NOW_MS, batch, new_disk, read_all, small_config
from tests.unit.storage.test_log_manager import TOPIC_ID, A, World

PARTITION = TopicPartition("orders", 1)
UNIQUE = "0123456789abcdef" * 2
NAME_CHARACTERS = "0123456789abf._-+ \u0661\u0967\uff11Z"
"""Digits of other scripts among them."""
SUFFIXES = (DELETE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX, FUTURE_FOLDER_SUFFIX)

NAMES = st.one_of(
    st.text(NAME_CHARACTERS, max_size=12),
    st.builds("{}-{}".format, st.text("ab.-_", min_size=1, max_size=4), st.text("0123456789_+ \u0661", max_size=12)),
)


@given(NAMES)
def test_a_folder_name_is_parsed_only_if_it_is_written_like_that(name: str) -> None:
    partition = parse_folder(name)
    assert partition is None or (str(partition) == name and name.isascii())


@given(NAMES, st.sampled_from(SUFFIXES))
def test_so_is_the_name_of_a_future_or_deleted_folder(name: str, suffix: str) -> None:
    full = f"{name}.{UNIQUE}{suffix}"
    partition = parse_suffixed_folder(full, suffix)
    if partition is not None:
        write = future_folder if suffix == FUTURE_FOLDER_SUFFIX else lambda p, unique: marked_folder(p, unique, suffix)
        assert write(partition, UNIQUE) == full
    assert parse_folder(full) is None
    assert not any(parse_suffixed_folder(full, other) for other in SUFFIXES if other != suffix)


@given(st.integers(0, 2**31 - 1), st.text("ab._-", min_size=1, max_size=20))
def test_written_names_are_parsed(number: int, topic: str) -> None:
    partition = TopicPartition(topic, number)
    assert parse_folder(str(partition)) == partition
    assert parse_suffixed_folder(future_folder(partition, UNIQUE), FUTURE_FOLDER_SUFFIX) == partition


@given(st.text("0123456789.log\u0661", max_size=26), st.sampled_from([".log", ".index", ".snapshot"]))
def test_a_file_name_is_a_segments_only_if_it_is_written_like_that(name: str, suffix: str) -> None:
    offset = offset_of(name, suffix)
    assert offset is None or segment_file("f", offset, suffix) == f"f/{name}"


@pytest.mark.parametrize(
    "name", ["99999999999999999999.log", "00000000000000000000.bak.log", "0000000000000000000\u0661.log", "0.log"]
)
def test_names_that_are_no_segments(name: str) -> None:
    assert offset_of(name, ".log") is None


@pytest.mark.parametrize("row", ["orders 01 5", "orders 1 +5", "orders 1_0 5", "orders 1 -5", "orders \u0661 5"])
def test_a_checkpoint_row_that_is_not_written_like_that_is_damage(row: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        decode_offsets(f"0\n1\n{row}\n".encode())


@pytest.mark.parametrize("row", ["01 5", "1 +5", "1_0 5", "-1 5", "1 \u0661"])
def test_an_epoch_that_is_not_written_like_that_is_damage(row: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        EpochCache.parse(f"0\n1\n{row}\n")


def tree(disk: SimDisk, folder: str) -> set[str]:
    found = set()
    for name in disk.listdir(folder):
        path = f"{folder}/{name}"
        found |= {path} | (tree(disk, path) if disk.is_dir(path) else set())
    return found


def make_log(manager: LogManager) -> None:
    log = manager.get_or_create(PARTITION, TOPIC_ID)
    for _ in range(20):
        log.append_as_leader(batch(b"x" * 100), 3)
    log.high_watermark = 20


STRAY_NAMES = [
    *("orders-01", "orders-+1", "orders- 1", "orders-1_0", "orders-\u0661", "orders-1 ", "orders-1.bak", "orders"),
    *(f"orders-01.{UNIQUE}{suffix}" for suffix in SUFFIXES),
    f"orders-1.{UNIQUE[1:]}-delete",
    "backup-delete",
    "orders-99999999999",
]


@pytest.mark.parametrize("content", ["empty", "copy"])
@pytest.mark.parametrize("name", STRAY_NAMES)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
def test_a_stray_folder_is_ignored_with_a_warning(
    name: str, content: str, clean: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        world = World([A])
        manager = await world.started()
        make_log(manager)
        if clean:
            await manager.shutdown(1)
        else:
            world.disk.kill()
        stray = f"{A}/{name}"
        world.disk.mkdir(stray)
        if content == "copy":
            for each in world.disk.listdir(f"{A}/{PARTITION}"):
                world.disk.write_atomic(f"{stray}/{each}", world.disk.read(f"{A}/{PARTITION}/{each}"))
        before = tree(world.disk, stray)
        for _ in range(2):
            again = await world.started()
            await again.settle_rivals(lambda log: False)
            [log] = again.logs()
            assert log.partition == PARTITION
            assert log.log_end_offset == 20
            assert read_all(log)
            await again.purge_deleted(NOW_MS + 10**9)
            await again.shutdown(1)
        assert tree(world.disk, stray) == before
        assert not world.offline

    asyncio.run(work())
    warned = [line for line in capfd.readouterr().err.splitlines() if "folders that are not logs ignored" in line]
    assert len(warned) == 2
    assert all(repr(name).strip("'") in line for line in warned)


STRAY_FILES = [
    *("notes.tmp", "notes.index", "old.deleted", "x.cleaned", "x.log.swap", "x.snapshot"),
    *("00000000000000000000.bak.log", "00000000000000000000.log.bak", "99999999999999999999.log"),
    "00000000000000000005.log.orig.deleted",
]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
def test_stray_files_in_a_logs_folder_are_left_alone(clean: bool) -> None:
    async def work() -> None:
        world = World([A])
        manager = await world.started()
        make_log(manager)
        await manager.shutdown(1)
        for name in STRAY_FILES:
            world.disk.write_atomic(f"{A}/{PARTITION}/{name}", b"a person's")
        if not clean:
            world.disk.remove(f"{A}/.kafka_cleanshutdown")
        again = await world.started()
        [log] = again.logs()
        assert log.log_end_offset == 20
        log.truncate_to(5)
        await again.shutdown(1)
        assert all(world.disk.read(f"{A}/{PARTITION}/{name}") == b"a person's" for name in STRAY_FILES)

    asyncio.run(work())


@pytest.mark.parametrize("link_first", [True, False])
def test_a_link_to_a_log_in_another_directory_is_no_second_log(tmp_path: Path, link_first: bool) -> None:
    """Of two logs of one partition one is given up; here that would be the only one."""

    async def work() -> None:
        paths = [str(tmp_path / name) for name in ("a", "b")]
        world = World(paths[:1])
        world.disk = OsDisk()  # type: ignore[assignment]
        manager = await world.started()
        make_log(manager)
        await manager.shutdown(1)
        os.mkdir(paths[1])
        os.symlink(f"{paths[0]}/{PARTITION}", f"{paths[1]}/{PARTITION}")
        world.settings = World(paths[::-1] if link_first else paths).settings
        again = await world.started()
        await again.settle_rivals(lambda log: False, lambda log, place: place.path == paths[1])
        await again.purge_deleted(NOW_MS + 10**9)
        [log] = again.logs()
        assert log.log_end_offset == 20
        assert read_all(log)
        assert not world.offline
        await again.shutdown(1)

    asyncio.run(work())
    assert (tmp_path / "a" / str(PARTITION)).is_dir()


def test_a_file_with_a_folders_name_is_left_alone() -> None:
    async def work() -> None:
        world = World([A])
        world.disk = new_disk()
        world.config = small_config()
        world.disk.mkdir(A)
        names = [f"orders-1.{UNIQUE}{suffix}" for suffix in SUFFIXES] + ["orders-1"]
        for name in names:
            world.disk.write_atomic(f"{A}/{name}", b"")
        manager = await world.started()
        assert not list(manager.logs())
        assert not world.offline
        assert set(names) <= set(world.disk.listdir(A))

    asyncio.run(work())
