"""A pipeline's positions while it does not run: read from its checkpoint, or forgotten."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvorum.pipelines.run.progress import committed_offsets
from kvorum.pipelines.run.state import Folder, StateError


def checkpoint_of(folder: Folder) -> Path:
    """Return a pipeline's checkpoint. Raises StateError if it is not on this machine."""
    given = json.loads(folder.spec.read_text(encoding="utf-8")).get("checkpoint") or str(folder.checkpoint)
    if "://" in given and not given.startswith("file://"):
        raise StateError(f"the checkpoint is in {given}, which only Spark can read")
    return Path(given.removeprefix("file://"))


def stopped(folder: Folder) -> dict[str, Any]:
    """Return the last micro-batch that is done and its positions; {} if there is none. Raises StateError."""
    return committed_offsets(str(checkpoint_of(folder)))


def reset(folder: Folder) -> None:
    """Forget the positions. Raises StateError while the pipeline runs."""
    with folder.held():
        shutil.rmtree(checkpoint_of(folder), ignore_errors=True)


def rows(index: int, source: Any) -> Iterator[dict[str, Any]]:
    """Yield a source's offset as rows: one a partition, or one a value."""
    if not isinstance(source, dict):
        yield {"source": index, "what": "-", "partition": None, "offset": source}
        return
    for name, value in source.items():
        if isinstance(value, dict):
            for partition, offset in value.items():
                yield {"source": index, "what": name, "partition": partition, "offset": offset}
        else:
            yield {"source": index, "what": name, "partition": None, "offset": value}
