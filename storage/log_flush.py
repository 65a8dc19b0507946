"""Syncing a log in three steps, so that the slow one may run outside the event loop.

`Log.begin_flush` collects the files to sync, `FlushPlan.run` syncs them (without a change of the log: it may run in a
thread), `Log.complete_flush` advances the recovery point. One plan of a log is in progress at a time. Writes in the
meantime are for the next flush; a truncation invalidates the plan's result.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kvorum.runtime import blocking, failpoints
from kvorum.runtime.disk import Disk, File
from kvorum.storage.durable_length import DurableLength
from kvorum.storage.names import LEADER_EPOCH_CHECKPOINT, join
from kvorum.storage.snapshots import write_snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPlan:
    """Files that one flush syncs. `generation` is the log's at its start: it counts truncations."""

    disk: Disk
    folder: str
    files: list[File]
    index_paths: list[str]
    epochs_text: str | None
    snapshots: list[tuple[str, bytes]]
    has_new_names: bool
    durable: DurableLength
    epochs_lock: blocking.Lock
    """Lock of the epochs' writers, so that epochs from before a truncation do not overwrite newer ones."""
    generation: int
    is_current: Callable[[], bool]
    """Returns whether the log was not truncated since: otherwise the collected state is stale."""

    def run(self) -> None:
        """Write and sync, in the order in which recovery relies on it.

        Raises OSError: the log directory must be taken offline.
        """
        failpoints.hit("log.flush.before")
        with self.epochs_lock:
            if self.epochs_text is not None and self.is_current():
                write_epochs(self.disk, self.folder, self.epochs_text)
        if self.is_current():
            write_snapshots(self.disk, self.snapshots)
        failpoints.hit("log.flush.sync.before")
        for file in self.files:
            file.sync()
        failpoints.hit("log.flush.sync.after")
        for path in self.index_paths:
            sync_if_there(self.disk, path)
        failpoints.hit("log.flush.indexes.after")
        if self.has_new_names:
            sync_names(self.disk, self.folder)
        failpoints.hit("log.flush.after")


def write_epochs(disk: Disk, folder: str, text: str) -> None:
    """Replace the leader-epoch-checkpoint. Raises OSError."""
    failpoints.hit("epochs.write.before")
    disk.write_atomic(join(folder, LEADER_EPOCH_CHECKPOINT), text.encode())
    failpoints.hit("epochs.write.after")


def sync_if_there(disk: Disk, path: str) -> None:
    """fdatasync a file that is not kept open, unless it was removed: its segment may be dropped meanwhile."""
    if not disk.exists(path):
        return
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()


def sync_names(disk: Disk, folder: str) -> None:
    """Make the names in a log's folder durable, and the folder's own."""
    disk.sync_dir(folder)
    disk.sync_dir(folder.rpartition("/")[0] or "/")
