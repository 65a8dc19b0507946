"""A pipeline's checkpoint as a folder: whether it can be written, and the positions in it."""

import errno
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kvorum.pipelines.run.progress import parsed
from kvorum.pipelines.run.state import Folder, StateError

PROBE_BYTES: Final = 64 << 10
"""As large as the files that a small query writes per micro-batch."""


class CheckpointUnusable(ValueError):
    """A checkpoint that no later attempt can write either."""


def local(checkpoint: str) -> Path | None:
    """Return the folder; None if it is not on this machine."""
    path = checkpoint.removeprefix("file://").removeprefix("file:")
    return None if "://" in path else Path(path)


def problem(checkpoint: str) -> OSError | None:
    """Return why nothing can be written to a checkpoint of this machine; None if something can."""
    folder = local(checkpoint)
    if folder is None:
        return None
    probe = folder / f".probe-{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with probe.open("wb") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        return error
    return None


def reason(checkpoint: str, error: OSError) -> str:
    """Return the line for people."""
    what = os.strerror(error.errno) if error.errno else str(error)
    hint = "free space there" if is_full(error) else "make it writable"
    return f"checkpoint {checkpoint}: {what}; {hint}, or set checkpoint to another folder"


def is_full(error: OSError) -> bool:
    """Return whether space may be freed: the pipeline is tried again then."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def check(checkpoint: str) -> None:
    """Raise CheckpointUnusable for a checkpoint that cannot be written, OSError for one that is full."""
    error = problem(checkpoint)
    if error is None:
        return
    if is_full(error):
        raise OSError(error.errno, reason(checkpoint, error))
    raise CheckpointUnusable(reason(checkpoint, error))


def has_begun(checkpoint: str) -> bool:
    """Return whether a query may have stored offsets in it: then startingOffsets has no effect."""
    folder = local(checkpoint)
    return folder is None or any(each.name.isdecimal() for each in (folder / "offsets").glob("*"))


def committed(checkpoint: str) -> dict[str, Any]:
    """Return the last committed micro-batch: {"batch": n, "sources": [offset...]}; {} if there is none or no folder.

    Raises OSError, ValueError.
    """
    folder = local(checkpoint)
    numbers = [int(path.name) for path in (folder / "commits").glob("*") if path.name.isdigit()] if folder else []
    if folder is None or not numbers:
        return {}
    lines = (folder / "offsets" / str(max(numbers))).read_text(encoding="utf-8").splitlines()
    return {"batch": max(numbers), "sources": [parsed(line) if line != "-" else None for line in lines[2:]]}


def of_pipeline(folder: Folder) -> str:
    """Return the checkpoint of a stopped pipeline. Raises StateError if it is not on this machine."""
    given = json.loads(folder.spec.read_text(encoding="utf-8")).get("checkpoint") or str(folder.checkpoint)
    if local(given) is None:
        raise StateError(f"the checkpoint is in {given}, which only Spark can read")
    return str(given)


def reset(folder: Folder) -> None:
    """Delete the checkpoint of a stopped pipeline. Raises StateError while it runs."""
    with folder.held():
        path = local(of_pipeline(folder))
        assert path is not None
        shutil.rmtree(path, ignore_errors=True)


def rows(index: int, source: Any) -> Iterator[dict[str, Any]]:
    """Yield a source's offset as rows: one per partition, or one per value."""
    if not isinstance(source, dict):
        yield {"source": index, "what": "-", "partition": None, "offset": source}
        return
    for name, value in source.items():
        by_partition = value if isinstance(value, dict) else {None: value}
        for partition, offset in by_partition.items():
            yield {"source": index, "what": name, "partition": partition, "offset": offset}
