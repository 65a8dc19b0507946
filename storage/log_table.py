"""Table of logs by log directory, and directories going offline with all their logs.

Shared by the parts of the log manager, with the lock that orders their disk operations. On the event loop only, except
`io_failed`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime.disk import is_process_error
from kvorum.runtime.logs import get_logger
from kvorum.storage.damage import Lack
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir

log = get_logger("storage")


class LogTable:
    """See the module."""

    def __init__(self, dirs: Iterable[LogDir], on_offline: Callable[[str, Exception], None] | None) -> None:
        """Start without logs. `on_offline` is called once for a directory that fails, on the event loop."""
        self.dirs = list(dirs)
        """In the order of log.dirs."""
        self.disk_work = asyncio.Lock()
        """Held during every sync, rename and removal: they do not overlap, and no file is removed during a sync."""
        self.is_closed = False
        """Set by the shutdown, under `disk_work`: no writes afterwards."""
        self.rivals: list[tuple[LogDir, Log]] = []
        """Logs of partitions that have a log with another topic id in another directory.

        One of the two belongs to an earlier topic that was deleted or recreated while its directory was offline. The
        metadata decide.
        """
        self.futures: dict[TopicPartition, tuple[LogDir, Log]] = {}
        """Copies in other directories that will replace a partition's log, one per partition."""
        self.preferred: dict[TopicPartition, LogDir] = {}
        """Directories for logs that do not exist yet. Only in memory, as in Kafka."""
        self.arriving: dict[TopicPartition, LogDir] = {}
        """Folders in which files of a new log are being created."""
        self.cordoned: frozenset[str] = frozenset()
        """The paths of directories that get no new logs (KIP-1066)."""
        self.lacking: dict[TopicPartition, Lack] = {}
        """Lost parts of logs, until their replicas are in use again."""
        self._on_offline = on_offline
        self._logs: dict[TopicPartition, Log] = {}
        self._dir_of: dict[TopicPartition, LogDir] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Use the running loop for reports of offline directories."""
        self._loop = asyncio.get_running_loop()

    def add(self, directory: LogDir, opened: Log) -> None:
        """Add a log that was opened or created."""
        assert opened.partition not in self._logs, "a partition has one log here"
        self._logs[opened.partition] = opened
        self._dir_of[opened.partition] = directory

    def remove(self, partition: TopicPartition) -> LogDir:
        """Remove a log; return its directory."""
        del self._logs[partition]
        return self._dir_of.pop(partition)

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log, None if there is none here."""
        return self._logs.get(partition)

    def logs(self) -> Iterator[Log]:
        """Iterate over a copy of all logs, without future ones."""
        return iter(list(self._logs.values()))

    def all_logs(self) -> Iterator[Log]:
        """Iterate over a copy of all logs, future ones included."""
        return iter([*self._logs.values(), *(each for _, each in self.futures.values())])

    def dir_of(self, partition: TopicPartition) -> LogDir | None:
        """Return the directory of a partition's log."""
        return self._dir_of.get(partition)

    def place_of(self, each: Log) -> LogDir | None:
        """Return the directory of a log or future log; None if the table does not have it."""
        place, future = self.futures.get(each.partition, (None, None))
        if future is each:
            return place
        return self._dir_of[each.partition] if self._logs.get(each.partition) is each else None

    def logs_in(self, directory: LogDir) -> list[Log]:
        """Return the logs of a directory, future ones included: a partition has one or the other."""
        found = [each for partition, each in self._logs.items() if self._dir_of[partition] is directory]
        return found + [each for place, each in self.futures.values() if place is directory]

    def open_logs_in(self, directory: LogDir) -> list[Log]:
        """Return all logs in a directory, including those of `rivals`: the rows of its checkpoints."""
        return self.logs_in(directory) + [each for place, each in self.rivals if place is directory]

    def place_for(self, partition: TopicPartition, named: Uuid = ZERO_UUID) -> LogDir | None:
        """Return the directory of a new log: the requested one, else the one with its `named` entry, else the emptiest.

        None if all are offline.
        """
        places = [self.preferred.get(partition), self._by_id(named)]
        return next((each for each in places if each is not None and each.is_online), None) or self._emptiest()

    def _by_id(self, directory_id: Uuid) -> LogDir | None:
        if directory_id == ZERO_UUID:  # also of those that are not formatted
            return None
        return next((each for each in self.dirs if each.directory_id == directory_id), None)

    def _emptiest(self) -> LogDir | None:
        """Return the online directory with the fewest logs, the first of equals.

        Cordoned ones come last: a new log must get a directory.
        """
        online = [each for each in self.dirs if each.is_online]
        open_ = [each for each in online if each.path not in self.cordoned] or online
        if len(open_) == 1:
            return open_[0]
        places = (*self._dir_of.values(), *self.arriving.values(), *(place for place, _ in self.futures.values()))
        counts = Counter(map(id, places))
        return min(open_, key=lambda each: counts[id(each)], default=None)

    def take_offline(self, directory: LogDir, error: Exception) -> None:
        """Take a directory offline: its logs fail from now on, and the listener is called once."""
        if directory.failure is not None:
            return
        directory.failure = error
        log.error("log directory offline", dir=directory.path, error=error)
        for each in self.open_logs_in(directory):
            each.abandon(error)
        if self._on_offline is not None:
            self._on_offline(directory.path, error)

    def disk_failed(self, directory: LogDir, error: Exception) -> bool:
        """Take a directory offline for an error of its disk or of its content; return whether it was one.

        Missing descriptors or memory are not: the caller fails with a retriable error, or retries later.
        """
        if is_process_error(error):
            log.warning("file operation failed: no descriptors or memory", dir=directory.path, error=error)
            return False
        self.take_offline(directory, error)
        return True

    def io_failed(self, directory: LogDir, error: Exception) -> None:
        """Take a directory offline on the event loop, also if its disk failed in a thread."""
        try:
            is_on_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_on_loop = False
        if is_on_loop or self._loop is None:
            self.take_offline(directory, error)
        else:
            self._loop.call_soon_threadsafe(self.take_offline, directory, error)
