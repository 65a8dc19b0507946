"""Damage on the bytes of logs that the storage room wrote, and what it makes of them afterwards."""

import os
from pathlib import Path
from random import Random

import pytest

from kvorum.chaos.faults.disk_damage import (
    NothingToDamage,
    flip_bits,
    journal_of,
    lose_unsynced,
    segment_of,
    used_size,
)
from kvorum.runtime.disk import OsDisk
from kvorum.storage import durable_length
from kvorum.storage.durable_length import DurableLength


def log_folder(tmp_path: Path, name: str = "orders-0") -> Path:
    """Three segments of 1000 bytes, of which the first and 400 bytes of the second are synced."""
    folder = tmp_path / name
    folder.mkdir()
    for base in (0, 50, 90):
        for suffix in (".log", ".index", ".timeindex"):
            (folder / f"{base:020d}{suffix}").write_bytes(b"x" * 1000)
    (folder / f"{60:020d}.snapshot").write_bytes(b"s")
    (folder / f"{90:020d}.snapshot").write_bytes(b"s")
    (folder / "partition.metadata").write_bytes(b"version: 0\n")
    durable_length.write(OsDisk(), str(folder), DurableLength(70, 50, 400), sync=False)
    return folder


def test_unsynced_data_is_lost_and_synced_data_is_kept(tmp_path: Path) -> None:
    folder = log_folder(tmp_path)
    (lost,) = lose_unsynced([str(tmp_path)])
    assert (lost.folder, lost.lost_bytes, lost.synced.recovery_point) == (str(folder), 600 + 1000, 70)
    left = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert left[f"{0:020d}.log"] == 1000 and left[f"{50:020d}.log"] == 400
    assert not any(name.startswith(f"{90:020d}") for name in left)
    assert f"{60:020d}.snapshot" in left and "partition.metadata" in left
    assert not lose_unsynced([str(tmp_path)]), "what is left is synced"


def test_a_log_that_nothing_is_recorded_of_and_one_that_is_being_deleted_are_left_alone(tmp_path: Path) -> None:
    foreign = log_folder(tmp_path, "foreign-0")
    os.remove(foreign / "durable-length")
    going = log_folder(tmp_path, f"gone-0.{'0' * 32}-delete")
    assert not lose_unsynced([str(tmp_path)])
    assert (foreign / f"{90:020d}.log").exists() and (going / f"{90:020d}.log").exists()


def test_flipped_bits_are_where_it_says_and_repeatable(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x55" * 100 + bytes(1000))
    assert used_size(str(path)) == 100
    flipped = flip_bits(str(path), 3, Random(7))
    data = path.read_bytes()
    assert all(each.position < 100 for each in flipped)
    changed = [index for index, byte in enumerate(data[:100]) if byte != 0x55]
    assert changed == sorted({each.position for each in flipped}) and data[100:] == bytes(1000)
    path.write_bytes(b"\x55" * 100)
    assert flip_bits(str(path), 3, Random(7)) == flipped
    (only,) = flip_bits(str(path), 1, Random(1), position=5)
    assert only.position == 5


def test_there_must_be_something_to_damage(tmp_path: Path) -> None:
    with pytest.raises(NothingToDamage, match="absent-0 has no segment"):
        segment_of([str(tmp_path)], "absent-0", Random(1))
    (tmp_path / "empty").write_bytes(bytes(10))
    with pytest.raises(NothingToDamage, match="is empty"):
        flip_bits(str(tmp_path / "empty"), 1, Random(1))
    (tmp_path / "short").write_bytes(b"short")
    for position in (5, 10**30):
        with pytest.raises(NothingToDamage, match="does not exist"):
            flip_bits(str(tmp_path / "short"), 1, Random(1), position)
    with pytest.raises(NothingToDamage, match="no journal"):
        journal_of(str(tmp_path))


def test_a_path_is_the_name_of_no_partition(tmp_path: Path) -> None:
    """The logs of another cluster on this machine are not this one's to damage."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    folder = log_folder(other)
    for name in (f"../other/{folder.name}", str(folder), "orders-0/../../other/orders-0"):
        with pytest.raises(NothingToDamage, match="is not a partition"):
            segment_of([str(mine)], name, Random(1))


def test_a_partition_s_segments_and_the_newest_journal_are_found(tmp_path: Path) -> None:
    folder = log_folder(tmp_path)
    (folder / f"{90:020d}.log").write_bytes(b"")
    found = {segment_of(["/nowhere", str(tmp_path)], "orders-0", Random(seed)) for seed in range(20)}
    assert found == {str(folder / f"{base:020d}.log") for base in (0, 50)}
    for number in (1, 2):
        (tmp_path / f"{number:020d}.journal").write_bytes(b"j")
    assert journal_of(str(tmp_path)) == str(tmp_path / f"{2:020d}.journal")
