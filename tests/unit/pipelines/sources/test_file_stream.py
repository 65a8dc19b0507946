"""A file that grows: each complete line is read once, over splits, restarts, rotation and truncation."""

import json
import logging
import os
import re
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kvorum.pipelines.sources import file_lines, file_stream
from kvorum.pipelines.sources.file_lines import complete, end_of_lines, lines_of
from kvorum.pipelines.sources.file_stream import FileChanged, FileStreamReader, LineRange

PARTS = ["a", "", "zwölf", "\N{CHIPMUNK}", "日本", "\n", "\r\n", "\r", "\n", "x" * 9, "\u2028", "\x85"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


def whole_lines(content: bytes) -> list[bytes]:
    """Return the lines with a terminator, found another way than by the code under test."""
    return [matched[1] for matched in re.finditer(rb"([^\r\n]*)(\r\n|\n|\r(?=[^\n]))", content)]


class Query:
    """A streaming query as Spark runs one: the offset is stored before a micro-batch and survives a restart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader = FileStreamReader(str(path))
        self.committed: dict[str, Any] = json.loads(json.dumps(self.reader.initialOffset()))
        self.planned: dict[str, Any] | None = None
        self.lines: list[bytes | None] = []

    def restart(self) -> None:
        self.reader = FileStreamReader(str(self.path))

    def plan(self) -> bool:
        if self.planned is None:
            end = json.loads(json.dumps(self.reader.latestOffset(self.committed, ReadAllAvailable())))
            self.planned = end if end != self.committed else None
        return self.planned is not None

    def read(self) -> list[bytes | None]:
        assert self.planned is not None
        found: list[bytes | None] = []
        for partition in self.reader.partitions(self.committed, self.planned):
            for batch in self.reader.read(partition):
                found += batch.column("value").to_pylist()
        return found

    def commit(self) -> None:
        self.lines += self.read()
        assert self.planned is not None
        self.committed, self.planned = self.planned, None

    def run(self) -> list[bytes | None]:
        while self.plan():
            self.commit()
        return self.lines


@given(TEXTS.map(str.encode), st.integers(1, 40), st.integers(1, 7), st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_lines_do_not_depend_on_how_the_file_is_cut(content: bytes, limit: int, block: int, chunk: int) -> None:
    position, found, positions = 0, list[bytes | None](), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_lines, "BLOCK_BYTES", block)
        while (end := end_of_lines(lambda a, b: content[a:b], position, len(content), limit)) > position:
            chunks = (content[at : min(at + chunk, end)] for at in range(position, end, chunk))
            for starts, values in lines_of(chunks, position):
                found += values
                positions += starts
            position = end
    assert found == whole_lines(content)
    assert position == complete(content), "the incomplete last line is left"
    assert [content[at:].startswith(line or b"") for at, line in zip(positions, found, strict=True)] == [True] * len(
        found
    )


@given(
    st.lists(st.one_of(TEXTS.map(str.encode), st.sampled_from(["plan", "commit", "restart", "rotate"])), max_size=25)
)
@settings(max_examples=150, deadline=None)
def test_each_line_is_read_once_over_appends_restarts_and_rotations(steps: list[bytes | str]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_stream, "BATCH_BYTES", 16)
        patch.setattr(file_stream, "CHUNK_BYTES", 5)
        path = Path(folder) / "app.log"
        query, contents, is_seen = Query(path), [b""], False
        for step in [*steps, "commit"]:
            match step:
                case bytes():
                    cut = len(step) // 2  # in the middle of a line, or of a character
                    for part in (step[:cut], step[cut:]):
                        with path.open("ab") as file:
                            file.write(part)
                        contents[-1] += part
                        is_seen = query.plan() or is_seen or query.committed["inode"] is not None
                case "plan":
                    is_seen = query.plan() or is_seen
                case "commit":
                    if query.plan():
                        query.commit()
                        is_seen = True
                case "restart":
                    query.restart()
                    if query.planned is not None:
                        query.read()  # the micro-batch was written, but the process was killed before the commit
                case "rotate" if is_seen and contents[-1]:
                    query.run()  # one rotation between two looks
                    path.rename(Path(folder) / f"app.log.{len(contents)}")
                    contents.append(b"")
        assert query.run() == [line for content in contents for line in whole_lines(content)]


def test_the_rest_of_a_rotated_file_is_read_before_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"1\n2\n")
    query = Query(path)
    assert query.run() == [b"1", b"2"]
    with path.open("ab") as file:
        file.write(b"3\n4\n")
    assert query.plan()
    path.rename(tmp_path / "app.log.1")
    path.write_bytes(b"5\n")
    query.restart()
    assert query.run() == [b"1", b"2", b"3", b"4", b"5"], "the planned micro-batch is in the renamed file"


def test_a_new_file_with_the_old_content_is_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"1\n2\n")
    query = Query(path)
    query.run()
    (tmp_path / "draft").write_bytes(b"1\n2\n3\n")
    os.replace(tmp_path / "draft", path)
    assert query.run() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("content", [b"", b"5\n", b"9\n8\n7\n6\n5\n"], ids=["empty", "shorter", "longer"])
def test_new_content_is_read_from_its_beginning_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"1\n2\n3\n")
    query = Query(path)
    query.run()
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        query.run()
    with path.open("ab") as file:
        file.write(b"1\n2\n3\n4\n")
    assert query.run()[3:] == whole_lines(path.read_bytes())
    assert f"file {path} was truncated: 6 bytes were read before" in caplog.text
    os.replace(path, tmp_path / "moved")
    (tmp_path / "moved").unlink()
    path.write_bytes(b"other\n")
    assert query.run()[-1] == b"other"


def test_a_planned_micro_batch_whose_lines_are_gone_fails_by_name(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"1\n2\n")
    query = Query(path)
    assert query.plan()
    path.write_bytes(b"x\ny\n")
    with pytest.raises(FileChanged, match=f"file {path} was replaced or truncated: bytes 0 to 4 of a micro-batch"):
        query.commit()


def test_a_file_is_waited_for_and_another_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "later.txt"
    query = Query(path)
    assert query.run() == []
    path.write_bytes(b"1\npartial")
    assert query.run() == [b"1"]
    other = tmp_path / "other.txt"
    other.write_bytes(b"a\n")
    query.path = other
    query.restart()
    assert query.run() == [b"1", b"a"]


def test_a_position_set_by_hand_is_where_reading_starts(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"1\n2\n3\n")
    query = Query(path)
    query.reader = FileStreamReader(str(path), 2)
    query.committed = query.reader.initialOffset()
    assert query.run() == [b"2", b"3"]


def test_available_now_ends_with_what_existed_at_its_start(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"1\n2\n")
    query = Query(path)
    query.reader.prepareForTriggerAvailableNow()
    with path.open("ab") as file:
        file.write(b"3\n")
    assert query.run() == [b"1", b"2"]
    query.restart()
    assert query.run() == [b"1", b"2", b"3"]


def test_a_line_beyond_the_limit_has_no_value_and_the_lines_beside_it_do() -> None:
    content = b"a\n" + b"x" * 30 + b"\r\nb\r" + b"y" * 11 + b"\nc\n"
    for chunk in (3, 7, 100):
        chunks = (content[at : at + chunk] for at in range(0, len(content), chunk))
        found = [pair for starts, values in lines_of(chunks, 0, 10) for pair in zip(starts, values, strict=True)]
        assert found == [(0, b"a"), (2, None), (34, b"b"), (36, None), (48, b"c")]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_not_a_regular_file_is_rejected(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with ExitStack() as files, pytest.raises(ValueError, match="is not a regular file; FilesSource"):
        file_stream.open_named(path, files)


def test_a_replay_is_the_same_task(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"1\n")
    query = Query(path)
    assert query.plan() and query.planned is not None
    (first,) = query.reader.partitions(query.committed, query.planned)
    query.restart()
    (second,) = query.reader.partitions(query.committed, query.planned)
    assert isinstance(first, LineRange) and first.is_determined and repr(first) == repr(second)
