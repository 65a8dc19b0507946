"""Which logs there are, in which log directory each lies, and a directory going offline with all that lies in it.

Shared by the parts of the log manager, with the lock that orders their work at the disk. On the event loop only, but
for `io_failed`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from kvorum.runtime.logs import get_logger
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir
from kvorum.storage.names import TopicPartition

log = get_logger("storage")


class LogTable:
    """See the module."""

    def __init__(self, dirs: Iterable[LogDir], on_offline: Callable[[str, Exception], None] | None) -> None:
        """Begin without logs. `on_offline` is called once for a directory that fails, on the event loop."""
        self.dirs = list(dirs)
        """In the order of log.dirs."""
        self.disk_work = asyncio.Lock()
        """Held by whatever syncs, renames or removes: no two such works overlap, no file is taken away under one."""
        self.is_closed = False
        """Set by the shutdown, under `disk_work`: nothing is written afterwards."""
        self.rivals: list[tuple[LogDir, Log]] = []
        """Logs of partitions that have a log in another directory too, under another topic id: one of the two is an
        earlier topic's, deleted or made anew while its directory was offline. The metadata tells which."""
        self._on_offline = on_offline
        self._logs: dict[TopicPartition, Log] = {}
        self._dir_of: dict[TopicPartition, LogDir] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Take the running loop for the one that directories are told offline on."""
        self._loop = asyncio.get_running_loop()

    def add(self, directory: LogDir, opened: Log) -> None:
        """Take in a log that was opened or made."""
        assert opened.partition not in self._logs, "a partition has one log here"
        self._logs[opened.partition] = opened
        self._dir_of[opened.partition] = directory

    def remove(self, partition: TopicPartition) -> LogDir:
        """Forget a log; return the directory it lies in."""
        del self._logs[partition]
        return self._dir_of.pop(partition)

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log, None if there is none here."""
        return self._logs.get(partition)

    def logs(self) -> Iterator[Log]:
        """Go through a copy of all logs."""
        return iter(list(self._logs.values()))

    def dir_of(self, partition: TopicPartition) -> LogDir | None:
        """Return the directory of a partition's log."""
        return self._dir_of.get(partition)

    def logs_in(self, directory: LogDir) -> list[Log]:
        """Return the logs of a directory."""
        return [each for partition, each in self._logs.items() if self._dir_of[partition] is directory]

    def emptiest(self) -> LogDir | None:
        """Return the online directory with the fewest logs, the first of equals; None if all are offline."""
        online = [each for each in self.dirs if each.is_online]
        return min(online, key=lambda each: sum(other is each for other in self._dir_of.values()), default=None)

    def take_offline(self, directory: LogDir, error: Exception) -> None:
        """Give a directory up: its logs fail from now on, and the listener is told, once."""
        if directory.failure is not None:
            return
        directory.failure = error
        log.error("log directory offline", dir=directory.path, error=error)
        for each in (*self.logs_in(directory), *(rival for place, rival in self.rivals if place is directory)):
            each.abandon(error)
        if self._on_offline is not None:
            self._on_offline(directory.path, error)

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
