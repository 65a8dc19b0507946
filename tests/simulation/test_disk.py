"""SimDisk keeps exactly what runtime.disk promises: what was synced survives, the rest may go."""

import errno
import random
from collections.abc import Callable

import pytest

from kvorum.runtime.disk import Disk, OsDisk
from sim.disk import PowerLoss, SimDisk


def disk(seed: int = 1) -> SimDisk:
    made = SimDisk(random.Random(seed))
    made.mkdir("/d")
    made.sync_dir("")
    return made


def put(target: Disk, path: str, data: bytes, *, sync: bool) -> None:
    file = target.open(path, create=True)
    file.pwrite(data, 0)
    if sync:
        file.sync()
        target.sync_dir(path.rpartition("/")[0])
    file.close()


def test_synced_data_survives_and_the_rest_is_lost_kept_or_torn() -> None:
    outcomes = set()
    for seed in range(200):
        one = disk(seed)
        put(one, "/d/kept", b"k" * 2000, sync=True)
        one.open("/d/kept").pwrite(b"n" * 2000, 0)
        put(one, "/d/new", b"x", sync=False)
        one.crash()
        data = one.read("/d/kept")
        assert len(data) == 2000 and set(data) <= set(b"kn")
        outcomes.add(
            ("lost" if data == b"k" * 2000 else "kept" if data == b"n" * 2000 else "torn", one.exists("/d/new"))
        )
    assert outcomes == {(fate, name) for fate in ("lost", "kept", "torn") for name in (True, False)}


def test_a_rename_is_one_step_and_durable_after_sync_dir() -> None:
    states = set()
    for seed in range(100):
        one = disk(seed)
        put(one, "/d/a", b"old", sync=True)
        put(one, "/d/b", b"new", sync=True)
        one.rename("/d/b", "/d/a")
        if seed % 2:
            one.sync_dir("/d")
        one.crash()
        state = (one.read("/d/a"), one.exists("/d/b"))
        assert state in ((b"old", True), (b"new", False))
        if seed % 2:
            assert state == (b"new", False)
        states.add(state)
    assert len(states) == 2


def test_a_folder_is_a_name_too() -> None:
    gone = 0
    for seed in range(50):
        one = disk(seed)
        one.mkdir("/d/e")
        put(one, "/d/e/f", b"x", sync=True)
        one.crash()
        gone += not one.exists("/d/e/f")
        kept = disk(seed)
        kept.mkdir("/d/e")
        kept.sync_dir("/d")
        put(kept, "/d/e/f", b"x", sync=True)
        kept.crash()
        assert kept.read("/d/e/f") == b"x"
    assert 10 < gone < 40


def test_power_fails_after_the_given_steps() -> None:
    one = disk()
    file = one.open("/d/f", create=True)
    one.power(1)
    file.pwrite(b"a", 0)
    with pytest.raises(PowerLoss):
        file.sync()


def test_failures_come_when_requested_once_and_are_counted() -> None:
    one = disk()
    file = one.open("/d/f", create=True)
    one.fail("sync")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    one.capacity = 10
    with pytest.raises(OSError) as full:
        file.pwrite(bytes(11), 0)
    assert full.value.errno == errno.ENOSPC
    assert one.counts["sync"] == 2 and one.free_bytes("/d") == one.total_bytes("/d") == 10


@pytest.mark.parametrize("kind", ["simulated", "real"])
def test_both_disks_behave_alike(kind: str, tmp_path: object) -> None:
    one: Disk = disk() if kind == "simulated" else OsDisk()
    root = "/d" if kind == "simulated" else str(tmp_path)
    one.mkdir(f"{root}/x/y")
    one.write_atomic(f"{root}/x/f", b"data")
    file = one.open(f"{root}/x/f")
    file.pwrite(b"D", 6)
    assert one.read(f"{root}/x/f") == b"data\0\0D" and file.size() == 7
    file.truncate(2)
    assert file.pread(10, 1) == b"a"
    one.rename(f"{root}/x/f", f"{root}/x/y/g")
    assert one.listdir(f"{root}/x") == ["y"] and one.listdir(f"{root}/x/y") == ["g"]
    assert one.exists(f"{root}/x/y") and one.is_dir(f"{root}/x") and not one.is_dir(f"{root}/x/y/g")
    with one.lock(f"{root}/.lock") as first, one.lock(f"{root}/.lock") as second:
        assert first and not second
    with pytest.raises(FileNotFoundError):
        one.open(f"{root}/none")
    with pytest.raises(FileNotFoundError):
        one.listdir(f"{root}/none")
    one.remove(f"{root}/none")
    one.remove_tree(f"{root}/x")
    assert not one.exists(f"{root}/x/y/g") and not one.exists(f"{root}/x")
    file.close()


def test_a_killed_process_loses_its_files_and_locks_and_nothing_it_wrote() -> None:
    one = disk()
    file = one.open("/d/f", create=True)
    file.pwrite(b"abc", 0)
    holder = one.lock("/d/.lock")
    assert holder.__enter__()
    one.kill()
    with pytest.raises(AssertionError, match="survived"):
        file.pwrite(b"d", 3)
    with one.lock("/d/.lock") as free:
        assert free
    assert one.read("/d/f") == b"abc" and one.peek("/d/f", 1) == b"bc" and one.peek("/d/none") is None


def test_a_broken_folder_fails_all_operations_until_it_is_repaired() -> None:
    one = disk()
    put(one, "/d/file", b"x", sync=True)
    one.mkdir("/other")
    file = one.open("/d/file")
    one.broken.add("/d")
    one.repair()
    deeds: list[Callable[[], object]] = [
        lambda: file.pread(1, 0),
        lambda: file.pwrite(b"y", 0),
        file.sync,
        lambda: one.open("/d/file"),
        lambda: one.open("/d/new", create=True),
        lambda: one.listdir("/d"),
        lambda: one.mkdir("/d"),
        lambda: one.rename("/d/file", "/d/other"),
        lambda: one.remove("/d/file"),
        lambda: one.remove_tree("/d"),
        lambda: one.sync_dir("/d"),
    ]
    for deed in deeds:
        with pytest.raises(OSError) as failed:
            deed()
        assert failed.value.errno == errno.EIO
    one.kill()
    with pytest.raises(OSError):
        one.read("/d/file")
    put(one, "/other/file", b"z", sync=True)
    one.broken.discard("/d")
    assert one.read("/d/file") == b"x" and one.read("/other/file") == b"z"


def test_a_wiped_disk_is_empty_for_good() -> None:
    one = disk()
    put(one, "/d/f", b"x", sync=True)
    one.wipe()
    assert not one.exists("/d") and one.peek("/d/f") is None
    one.crash()
    assert not one.exists("/d/f")


@pytest.mark.parametrize("synced", [False, True])
def test_a_renamed_folder_is_restored_or_lost_with_its_content(synced: bool) -> None:
    """And what is in a new folder of the old name never mixes with what was in the old one."""
    outcomes = set()
    for seed in range(60):
        one = disk(seed)
        one.mkdir("/d/log")
        put(one, "/d/log/0", b"old", sync=True)
        put(one, "/d/log/1", b"old", sync=True)
        one.sync_dir("/d")
        one.rename("/d/log", "/d/log-delete")
        assert one.read("/d/log-delete/0") == b"old" and not one.exists("/d/log")
        if synced:
            one.sync_dir("/d")
        elif seed % 2:
            one.mkdir("/d/log")
            put(one, "/d/log/0", b"new", sync=True)
        one.crash()
        state = tuple(one.listdir(f"/d/{each}") if one.exists(f"/d/{each}") else [] for each in ("log", "log-delete"))
        if not synced and seed % 2:
            assert state[1] == ["0", "1"] and state[0] in ([], ["0"])
            assert not state[0] or one.read("/d/log/0") == b"new"
        else:
            assert state in (([], ["0", "1"]), (["0", "1"], []))
            outcomes.add(not state[0])
    assert outcomes == ({True} if synced else {True, False})
