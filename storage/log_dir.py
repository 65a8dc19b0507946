"""One of a broker's log directories: its identity, its lock, its checkpoints, and whether it still works."""

from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from kvorum.protocol.topic_partition import TopicPartition
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
from kvorum.storage.closed_logs import ClosedLog, read_closed_logs
from kvorum.storage.names import (
    DELETE_FOLDER_SUFFIX,
    FUTURE_FOLDER_SUFFIX,
    LOG_SUFFIX,
    PARTITION_METADATA,
    STRAY_FOLDER_SUFFIX,
    join,
    offset_of,
    parse_folder,
    parse_suffixed_folder,
)

METADATA_TOPIC: Final = "__cluster_metadata"
"""Its log may be in the same directory; the quorum opens it."""

FOREIGN_FOLDERS: Final = frozenset({".kvorum", "lost+found", "remote-log-index-cache"})
"""Folders beside the logs that need no warning: a node's pid files, a file system's own, Kafka's tiered storage."""
FOLDERS_NAMED_MAX: Final = 10

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
        """Contents of each checkpoint on disk, as read or written last."""
        self.closed_logs: dict[TopicPartition, ClosedLog] | None = None
        """The logs as the last clean shutdown left them, where that is known."""
        self.had_damage = False
        """Whether any log was found damaged at this start: the mark of the clean shutdown vouches for nothing then."""
        self._lock: AbstractContextManager[bool] | None = None

    @property
    def is_online(self) -> bool:
        """Whether its disk has worked so far."""
        return self.failure is None

    def open(self, cluster_id: str | None, node_id: int | None) -> None:
        """Lock the directory and read its meta.properties.

        Raises DirectoryLocked; CheckpointError: it belongs to another cluster or node (if given); OSError.
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
        self.closed_logs = None
        epoch = take_clean_shutdown(self._disk, self.path)
        self.is_clean = epoch is not None
        self.previous_broker_epoch = NO_BROKER_EPOCH if epoch is None else epoch
        if epoch is not None:
            self.closed_logs = read_closed_logs(self._disk, self.path, epoch)
        self.is_open = True

    def closed_log(self, partition: TopicPartition) -> ClosedLog | None:
        """Return the recorded state of a log's clean shutdown; None without one."""
        if not self.is_clean:
            return None
        if self.closed_logs is not None:
            return self.closed_logs.get(partition)
        end_offset = self.checkpoints[RECOVERY_POINTS].get(partition)
        return None if end_offset is None else ClosedLog(end_offset)

    def forget(self, partition: TopicPartition) -> None:
        """Remove the records of the last process about a partition: a new, empty log is created here."""
        for offsets in self.checkpoints.values():
            offsets.pop(partition, None)
        if self.closed_logs is not None:
            self.closed_logs.pop(partition, None)

    def recorded_logs(self) -> set[TopicPartition]:
        """Return the partitions that had a log here according to the last process."""
        if self.closed_logs is not None:
            return {*self.closed_logs}
        return {*self.checkpoints[RECOVERY_POINTS], *self.checkpoints[HIGH_WATERMARKS]}

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """Return a checkpoint; a damaged one counts as empty, which costs work but no record."""
        try:
            return read_offsets(self._disk, self.path, name)
        except CheckpointError as error:
            log.warning("damaged checkpoint ignored", error=error)
            return {}

    def find_folders(self) -> "Folders":
        """Return the folders of this directory, by name. Raises OSError.

        A folder of any other name is ignored, with one warning for all of them, and never touched. (Kafka does not
        start with such a folder.)
        """
        found = Folders({}, {}, [])
        unknown = []
        for name in self._disk.listdir(self.path):
            path = join(self.path, name)
            if not self._disk.is_dir(path):
                continue
            partition, future = parse_folder(name), parse_suffixed_folder(name, FUTURE_FOLDER_SUFFIX)
            if partition is not None and self._looks_like_log(name):
                if partition.topic != METADATA_TOPIC:
                    found.logs[path] = partition
            elif future is not None:
                found.futures[path] = future
            elif parse_suffixed_folder(name, DELETE_FOLDER_SUFFIX) is not None:
                found.deleted.append(path)
            elif name not in FOREIGN_FOLDERS and parse_suffixed_folder(name, STRAY_FOLDER_SUFFIX) is None:
                unknown.append(name)
        if unknown:
            named = ", ".join(map(repr, unknown[:FOLDERS_NAMED_MAX]))
            log.warning("folders that are not logs ignored", dir=self.path, count=len(unknown), names=named)
        return found

    def _looks_like_log(self, name: str) -> bool:
        """Return whether a folder with a log's name contains one: the directory may have other content."""
        names = self._disk.listdir(join(self.path, name))
        has_segment = any(offset_of(each, LOG_SUFFIX) is not None for each in names)
        return not names or has_segment or PARTITION_METADATA in names

    def unlock(self) -> None:
        """Let another process have the directory. Idempotent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.__exit__(None, None, None)


class Folders(NamedTuple):
    """The folders of a directory that are ours, by path."""

    logs: dict[str, TopicPartition]
    futures: dict[str, TopicPartition]
    deleted: list[str]
    """Renamed for deletion by an earlier process."""
