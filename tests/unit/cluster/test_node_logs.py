"""Segments as they lie on disks: real files, some of which are gone by the time they are looked at."""

from pathlib import Path
from struct import pack

import pytest

from kvorum.cluster.http.node_logs import NodeLogs
from kvorum.runtime.disk import OsDisk


def segment(folder: Path, offset: int, **files: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, data in files.items():
        (folder / f"{offset:020d}.{suffix}").write_bytes(data)


def logs_in(tmp_path: Path, disk: OsDisk | None = None) -> NodeLogs:
    return NodeLogs(disk or OsDisk(), 7, [str(tmp_path / name) for name in ("a", "b", "missing")])


def test_segments_are_reported_with_their_indexes(tmp_path: Path) -> None:
    home = tmp_path / "a" / "t-1-0"
    times = pack(">qi", 1_000, 5) + pack(">qi", 2_000, 9)
    segment(home, 0, log=bytes(500), index=bytes(16), timeindex=times, txnindex=b"", snapshot=b"x")
    segment(home, 10, log=bytes(70), timeindex=times + b"torn")
    segment(home, 20, index=bytes(8))
    (home / "leader-epoch-checkpoint").write_text("0\n0\n")
    (home / "00000000000000000000.log.deleted").write_bytes(b"x")
    segment(tmp_path / "b" / f"t-1-0.{'0' * 32}-future", 0, log=bytes(30))
    segment(tmp_path / "a" / f"t-1-0.{'1' * 32}-delete", 0, log=bytes(9))
    segment(tmp_path / "b" / "t-1-01", 0, log=bytes(9))
    found = {each.directory: each for each in logs_in(tmp_path).logs("t-1", 0)}
    assert set(found) == {str(tmp_path / "a"), str(tmp_path / "b")}
    own, copy = found[str(tmp_path / "a")], found[str(tmp_path / "b")]
    assert (own.future, copy.future, [each.size for each in copy.segments]) == (False, True, [30])
    first, second = own.segments
    assert (first.base_offset, first.size, first.index_size, first.time_index_size) == (0, 500, 16, 24)
    assert (first.txn_index_size, first.max_timestamp_ms, second.max_timestamp_ms) == (0, 2_000, 2_000)
    assert (second.base_offset, second.size, second.index_size, second.txn_index_size) == (10, 70, None, None)
    assert first.modified_ms > 1_600_000_000_000
    assert logs_in(tmp_path).logs("t", 1) == [] and logs_in(tmp_path).broker == 7


@pytest.mark.parametrize("gone", ["log", "timeindex", "folder"])
def test_files_removed_meanwhile_are_omitted(gone: str, tmp_path: Path) -> None:
    """By retention, or as a whole: between the look into the folder and the look at the file."""
    home = tmp_path / "a" / "t-0"
    for offset in (0, 10):
        segment(home, offset, log=bytes(5), timeindex=pack(">qi", 9, 1))

    class Removing(OsDisk):
        def listdir(self, path: str) -> list[str]:
            names = super().listdir(path)
            if gone == "folder" and path.endswith("/a"):
                for each in home.iterdir():
                    each.unlink()
                home.rmdir()
            elif gone != "folder" and path.endswith("t-0"):
                (home / f"{0:020d}.{gone}").unlink()
            return names

    (found,) = logs_in(tmp_path, Removing()).logs("t", 0)
    reported = [(each.base_offset, each.max_timestamp_ms) for each in found.segments]
    assert reported == {"log": [(10, 9)], "timeindex": [(0, None), (10, 9)], "folder": []}[gone]
