"""A checkpoint that cannot be written is named as one, before Spark starts and after a failure."""

import errno
from pathlib import Path
from typing import Any

import pytest

from kvorum.pipelines.run import checkpoint, failures
from kvorum.pipelines.run.checkpoint import CheckpointUnusable
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.state import Folder, State
from kvorum.pipelines.run.worker import worker_in
from kvorum.pipelines.spec import from_data


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let each new file in a folder fail."""
    real = Path.open

    def open_(path: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        if path.name.startswith(".probe-"):
            raise OSError(number, "refused")
        return real(path, mode, *arguments, **more)

    monkeypatch.setattr(Path, "open", open_)


def test_a_checkpoint_is_created_and_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    checkpoint.check(f"file://{folder}")
    assert folder.is_dir() and list(folder.iterdir()) == []
    checkpoint.check("s3a://bucket/checkpoint")


@pytest.mark.parametrize(
    ("number", "kind", "reason", "again"),
    [
        (errno.EROFS, CheckpointUnusable, "Read-only file system; make it writable", False),
        (errno.EACCES, CheckpointUnusable, "Permission denied; make it writable", False),
        (errno.ENOSPC, OSError, "No space left on device; free space there", True),
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, kind: type[Exception], reason: str, again: bool
) -> None:
    refuse(monkeypatch, number)
    with pytest.raises(kind) as caught:
        checkpoint.check(str(tmp_path))
    assert f"checkpoint {tmp_path}: {reason}, or set checkpoint to another folder" in str(caught.value)
    assert failures.passing(caught.value) is again


def test_a_pipeline_fails_at_once_without_starting_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refuse(monkeypatch, errno.EROFS)
    data = {
        "name": "p",
        "source": {"type": "generator"},
        "sink": {"type": "console"},
        "checkpoint": str(tmp_path / "c"),
    }
    folder = Folder(tmp_path, "p")
    with worker_in(folder, from_data(data), Launch(retries=5)) as worker:
        assert worker.run() == 1 and worker.session is None
    status = folder.status()
    assert status is not None and (status.state, status.restarts) == (State.FAILED, 0)
    assert str(status.reason).startswith(f"checkpoint {tmp_path / 'c'}: Read-only file system; ")


def test_a_query_has_begun_when_it_stored_offsets(tmp_path: Path) -> None:
    assert not checkpoint.has_begun(str(tmp_path))
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".0.crc").touch()
    assert not checkpoint.has_begun(str(tmp_path))
    (tmp_path / "offsets" / "0").touch()
    assert checkpoint.has_begun(str(tmp_path)) and checkpoint.has_begun("s3a://elsewhere/c")
