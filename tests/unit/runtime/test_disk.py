"""The operating system's Disk keeps what its Protocol says, as far as a process that lives can see."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvorum.runtime.disk import Disk, OsDisk


@pytest.fixture
def disk() -> Disk:
    return OsDisk()


def test_data_written_at_a_position_is_read_back(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "a"), create=True)
    file.pwrite(b"hello world", 0)
    file.pwrite(memoryview(b"WORLD"), 6)
    file.sync()
    assert file.pread(5, 6) == b"WORLD"
    assert file.pread(100, 6) == b"WORLD"
    assert file.pread(5, 100) == b""
    assert file.size() == 11
    file.close()


def test_a_write_beyond_the_end_leaves_zeros_between(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "a"), create=True)
    file.pwrite(b"x", 3)
    assert file.pread(4, 0) == b"\0\0\0x"
    file.close()


def test_any_buffer_is_written_by_its_bytes(disk: Disk, tmp_path: Path) -> None:
    """A view of wider items has fewer items than bytes; it is bytes that count."""
    file = disk.open(str(tmp_path / "a"), create=True)
    file.pwrite(memoryview(bytes(range(16))).cast("I"), 0)
    assert file.pread(16, 0) == bytes(range(16))
    file.close()


def test_a_short_write_is_continued(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, memoryview(data).cast("B")[:3], position))
    file = disk.open(str(tmp_path / "a"), create=True)
    file.pwrite(b"0123456789", 2)
    monkeypatch.undo()
    assert file.pread(20, 0) == b"\0\x000123456789"
    file.close()


def test_a_short_read_is_continued_to_the_end_of_the_file(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: real(fd, min(size, 3), position))
    file = disk.open(str(tmp_path / "a"))
    assert file.pread(8, 1) == b"12345678"
    assert file.pread(50, 1) == b"123456789"
    file.close()


def test_truncate_cuts_and_extends_with_zeros(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "a"), create=True)
    file.pwrite(b"abcdef", 0)
    file.truncate(2)
    file.truncate(4)
    assert file.pread(10, 0) == b"ab\0\0"
    file.close()


def test_a_file_that_is_missing_is_not_opened_unless_created(disk: Disk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "a"))
    with pytest.raises(FileNotFoundError):
        disk.read(str(tmp_path / "a"))
    disk.open(str(tmp_path / "a"), create=True).close()
    assert disk.read(str(tmp_path / "a")) == b""


def test_opening_with_create_keeps_existing_content(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"kept")
    disk.open(str(tmp_path / "a"), create=True).close()
    assert disk.read(str(tmp_path / "a")) == b"kept"


def test_closing_twice_does_not_close_another_file(disk: Disk, tmp_path: Path) -> None:
    first = disk.open(str(tmp_path / "a"), create=True)
    first.close()
    second = disk.open(str(tmp_path / "b"), create=True)  # gets the same descriptor
    first.close()
    second.pwrite(b"x", 0)
    assert first.fileno() == -1
    second.close()


def test_descriptors_are_not_inherited(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "a"), create=True)
    assert not os.get_inheritable(file.fileno())
    file.close()


def test_an_atomic_write_replaces_the_whole_file_and_leaves_nothing_else(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    disk.write_atomic(path, b"a longer first version")
    disk.write_atomic(path, memoryview(b"second"))
    assert disk.read(path) == b"second"
    assert disk.listdir(str(tmp_path)) == ["checkpoint"]


def test_a_failed_atomic_write_leaves_the_old_file(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "checkpoint")
    disk.write_atomic(path, b"old")

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no"):
        disk.write_atomic(path, b"new")
    assert disk.read(path) == b"old"


def test_an_atomic_write_in_the_working_directory_works(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    disk.write_atomic("here", b"x")
    assert disk.read("here") == b"x"


def test_folders_are_made_with_their_parents_and_listed_sorted(disk: Disk, tmp_path: Path) -> None:
    base = str(tmp_path / "a" / "b")
    disk.mkdir(base)
    disk.mkdir(base)
    for name in ("z", "m", "a"):
        disk.write_atomic(f"{base}/{name}", b"")
    assert disk.listdir(base) == ["a", "m", "z"]
    assert disk.is_dir(base) and not disk.is_dir(f"{base}/z")
    assert disk.exists(f"{base}/z") and not disk.exists(f"{base}/y")
    with pytest.raises(FileNotFoundError):
        disk.listdir(str(tmp_path / "missing"))


def test_rename_replaces_a_file_and_moves_a_folder(disk: Disk, tmp_path: Path) -> None:
    disk.write_atomic(str(tmp_path / "new"), b"new")
    disk.write_atomic(str(tmp_path / "old"), b"old")
    disk.rename(str(tmp_path / "new"), str(tmp_path / "old"))
    assert disk.read(str(tmp_path / "old")) == b"new"
    disk.mkdir(str(tmp_path / "dir"))
    disk.write_atomic(str(tmp_path / "dir" / "f"), b"f")
    disk.rename(str(tmp_path / "dir"), str(tmp_path / "moved"))
    disk.sync_dir(str(tmp_path))
    assert disk.read(str(tmp_path / "moved" / "f")) == b"f"


def test_removing_a_missing_file_is_no_error(disk: Disk, tmp_path: Path) -> None:
    disk.remove(str(tmp_path / "missing"))
    disk.remove_tree(str(tmp_path / "missing"))
    disk.write_atomic(str(tmp_path / "f"), b"")
    disk.remove(str(tmp_path / "f"))
    assert disk.listdir(str(tmp_path)) == []


def test_a_tree_is_removed_without_following_links(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "tree" / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "file").write_bytes(b"x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_bytes(b"x")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "tree" / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "alias").symlink_to(tmp_path / "outside")
    disk.remove_tree(str(tmp_path / "tree"))
    disk.remove_tree(str(tmp_path / "alias"))
    assert disk.listdir(str(tmp_path)) == ["outside"]
    assert disk.listdir(str(tmp_path / "outside")) == ["kept"]


def test_size_and_time_of_change_and_free_space_are_reported(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    disk.write_atomic(path, b"12345")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    assert disk.size(path) == 5
    assert disk.modified_ms(path) == 1_700_000_000_123
    assert 0 < disk.free_bytes(str(tmp_path)) <= disk.total_bytes(str(tmp_path))


def test_a_lock_is_had_by_one_and_free_again_after_it(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with disk.lock(path) as first:
        assert first
        with disk.lock(path) as second:
            assert not second
        with disk.lock(path) as third:
            assert not third, "a failed attempt must not take the lock away from its owner"
    with disk.lock(path) as again:
        assert again


def test_a_lock_is_dropped_with_the_process_that_had_it(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    script = (
        "import os, signal, sys\n"
        "from kvorum.runtime.disk import OsDisk\n"
        "with OsDisk().lock(sys.argv[1]) as got:\n"
        "    print(got, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with disk.lock(path) as mine:
            assert not mine
        other.kill()
    with disk.lock(path) as mine:
        assert mine
