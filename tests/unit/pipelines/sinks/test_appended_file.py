"""Micro-batches of lines in one file: each once, wherever a process is killed."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvorum.pipelines.sinks import file_stream
from kvorum.pipelines.sinks.file_stream import AppendedFile, OutputChanged

BATCHES = [[b"a\n", b"zw\xc3\xb6lf\n"], [], [b"b\n" * 10], [b"c\n"]]
WHOLE = b"".join(line for batch in BATCHES for line in batch)


class Killed(BaseException):
    """The process ends here."""


def die_at(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process die at a system call that changes something; a write writes a part before."""
    calls = itertools.count(1)

    def patched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **more: Any) -> Any:
            if next(calls) == call:
                if name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise Killed
            return real(*arguments, **more)

        return run

    for name in ("write", "fsync"):
        monkeypatch.setattr(file_stream.os, name, patched(name, getattr(os, name)))
    for name in ("replace", "unlink"):
        monkeypatch.setattr(file_stream.Path, name, patched(name, getattr(Path, name)))


def run_with_death_at(call: int, path: Path, checkpoint: Path) -> bool:
    """Append all micro-batches, with one restart; return whether the process died."""
    died = False
    with pytest.MonkeyPatch.context() as patch:
        die_at(call, patch)
        for number, lines in enumerate(BATCHES):
            try:
                AppendedFile(path, checkpoint).append(number, lines)
            except Killed:
                died = True
                patch.undo()
                AppendedFile(path, checkpoint).append(number, lines)
                AppendedFile(path, checkpoint).append(number, lines)  # killed again before Spark's commit
    return died


def test_each_line_is_in_the_file_once_wherever_the_process_dies(tmp_path: Path) -> None:
    for call in itertools.count(1):
        path = tmp_path / f"out-{call}"
        died = run_with_death_at(call, path, tmp_path / f"checkpoint-{call}")
        assert path.read_bytes() == WHOLE, f"death at call {call}"
        if not died:
            break
    assert call > 20


def test_the_stored_lines_are_completed_although_the_rows_come_in_another_order(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        real = os.write
        patch.setattr(file_stream.os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:3]) and 1 / 0)
        with pytest.raises(ZeroDivisionError):
            AppendedFile(path, tmp_path / "c").append(0, [b"a\n", b"b\n", b"c\n"])
    assert path.read_bytes() == b"a\nb"
    AppendedFile(path, tmp_path / "c").append(0, [b"c\n", b"b\n", b"a\n"])
    assert path.read_bytes() == b"a\nb\nc\n"


def test_lines_of_other_programs_stay_and_a_mixed_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before\n")
    file = AppendedFile(path, tmp_path / "c")
    file.append(0, [b"a\n"])
    with path.open("ab") as other:
        other.write(b"between\n")
    file.append(0, [b"a\n"])
    with pytest.MonkeyPatch.context() as patch:
        real = os.write
        patch.setattr(file_stream.os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:1]) and 1 / 0)
        with pytest.raises(ZeroDivisionError):
            file.append(1, [b"b\n"])
    with path.open("ab") as other:
        other.write(b"mixed\n")
    with pytest.raises(OutputChanged, match=f"file {path} was changed by another program while micro-batch 1"):
        file.append(1, [b"b\n"])
    assert path.read_bytes() == b"before\na\nbetween\nbmixed\n", "nothing is removed"
