"""One of a broker's log directories: its identity, its lock, what its checkpoints say, and whether it still works."""

from contextlib import AbstractContextManager
from typing import Final

from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime.disk import Disk
from kvorum.runtime.logs import get_logger
from kvorum.storage.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    LOG_START_OFFSETS,
    NO_BROKER_EPOCH,
    RECOVERY_POINTS,
    CheckpointError,
    read_meta_properties,
    read_offsets,
    take_clean_shutdown,
)
from kvorum.storage.names import (
    DELETE_FOLDER_SUFFIX,
    PARTITION_METADATA,
    TopicPartition,
    is_marked_folder,
    join,
    parse_folder,
    parse_future_folder,
)

METADATA_TOPIC: Final = "__cluster_metadata"
"""Its log may lie in the same directory; the quorum opens it."""

CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANED_OFFSETS)

log = get_logger("storage")


class DirectoryLocked(CheckpointError):
    """Another process has the directory."""


class LogDir:
    """A directory of logs. `failure` is set once it is offline, for good: a disk that failed is not trusted again."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Touch nothing yet."""
        self._disk = disk
        self.path = path
        self.directory_id: Uuid = ZERO_UUID
        self.failure: Exception | None = None
        self.is_clean = False
        """Whether the process before this one shut down cleanly."""
        self.is_open = False
        """Whether `open` succeeded: before that nothing may be written, the directory may be another process's."""
        self.is_loaded = False
        """Whether all its logs are in the table. Before that a checkpoint would drop the rows of the others."""
        self.previous_broker_epoch = NO_BROKER_EPOCH
        self.checkpoints: dict[str, dict[TopicPartition, int]] = {name: {} for name in CHECKPOINTS}
        """What each checkpoint on disk says: as it was read, or written last."""
        self._lock: AbstractContextManager[bool] | None = None

    @property
    def is_online(self) -> bool:
        """Whether its disk has worked so far."""
        return self.failure is None

    def open(self, cluster_id: str | None, node_id: int | None) -> None:
        """Lock the directory and read what it says of itself.

        Raises DirectoryLocked; CheckpointError: it belongs to another cluster or node (where these are given); OSError.
        """
        self._disk.mkdir(self.path)
        lock = self._disk.lock(join(self.path, LOCK))
        if not lock.__enter__():
            lock.__exit__(None, None, None)
            raise DirectoryLocked(f"{self.path} is in use by another process (its {LOCK} is taken)")
        self._lock = lock
        meta = read_meta_properties(self._disk, self.path)
        if meta is not None:
            self.directory_id = meta.directory_id
            for name, wanted, found in (
                ("cluster.id", cluster_id, meta.cluster_id),
                ("node.id", node_id, meta.node_id),
            ):
                if wanted is not None and wanted != found:
                    raise CheckpointError(f"{self.path} belongs to {name} {found}, this is {wanted}")
        self.checkpoints = {name: self._read(name) for name in CHECKPOINTS}
        epoch = take_clean_shutdown(self._disk, self.path)
        self.is_clean = epoch is not None
        self.previous_broker_epoch = NO_BROKER_EPOCH if epoch is None else epoch
        self.is_open = True

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """Return a checkpoint; a damaged one counts as empty, which costs work but no record."""
        try:
            return read_offsets(self._disk, self.path, name)
        except CheckpointError as error:
            log.warning("checkpoint is damaged, starting without it", error=error)
            return {}

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions whose logs lie here. Raises OSError."""
        found = []
        for name in self._disk.listdir(self.path):
            if not self._disk.is_dir(join(self.path, name)):
                continue
            partition = parse_folder(name)
            if partition is not None and partition.topic != METADATA_TOPIC and self._looks_like_log(name):
                found.append(partition)
        return found

    def future_folders(self) -> dict[str, TopicPartition]:
        """Return the paths of the folders with future logs, and whose they are. Raises OSError."""
        names = sorted(self._disk.listdir(self.path))
        found = {join(self.path, name): partition for name in names if (partition := parse_future_folder(name))}
        return {path: partition for path, partition in found.items() if self._disk.is_dir(path)}

    def _looks_like_log(self, name: str) -> bool:
        """Tell whether a folder of a log's name holds one: something else may live in the directory too."""
        names = self._disk.listdir(join(self.path, name))
        return PARTITION_METADATA in names or any(each.endswith(".log") for each in names) or not names

    def marked_folders(self) -> list[str]:
        """Return the paths of folders renamed for deletion by an earlier process. Raises OSError."""
        return [
            join(self.path, name)
            for name in self._disk.listdir(self.path)
            if is_marked_folder(name) and name.endswith(DELETE_FOLDER_SUFFIX)
        ]

    def unlock(self) -> None:
        """Let another process have the directory. Idempotent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.__exit__(None, None, None)
