"""Faults on single log directories of a lab's brokers, which have several: failure, replacement, removal.

Directories are numbered from 1. The first one has no faults: it has the node's own files and its metadata log. A
directory fails by a rename: a file gets its name, so that nothing can be opened or created there, as on a disk that was
unmounted; open files stay writable, until the next segment or checkpoint.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvorum.chaos.faults.disks import DiskFaults
from kvorum.chaos.faults.events import ActiveFault, FaultError, FaultRegister
from kvorum.chaos.faults.processes import ProcessFaults
from kvorum.cluster.local.local import LocalCluster
from kvorum.storage.names import FUTURE_FOLDER_SUFFIX, parse_folder, parse_suffixed_folder

GONE: Final = ".gone"
"""Suffix of a failed directory's new name."""
KEY: Final = "log.dirs="


class NoSuchDirectory(FaultError):
    """A node has no such log directory, or it is one that stays."""


@dataclass(slots=True)
class DirectoryFaults:
    """The verbs on log directories."""

    cluster: LocalCluster
    register: FaultRegister
    processes: ProcessFaults
    disks: DiskFaults

    def path(self, name: str, number: int) -> str:
        """Return a log directory of a node by its number, 1 among them. Raises NoSuchDirectory."""
        found = self.disks.settings(name).list("log.dirs")
        if not 1 <= number <= len(found):
            raise NoSuchDirectory(f"{name} has {len(found)} log directories, number {number} does not exist")
        return found[number - 1]

    def fail(self, name: str, number: int) -> ActiveFault:
        """Rename a directory away; the end of the fault restores it with its content, and restarts a running node.

        Raises NoSuchDirectory.
        """
        path = self._removable_path(name, number)

        def do() -> None:
            os.rename(path, path + GONE)
            with open(path, "x"):
                pass

        def undo() -> None:
            os.remove(path)
            os.rename(path + GONE, path)
            if name in self.processes.running_nodes():
                self.processes.restart(name)

        return self.register.begin(
            "fail_directory", [name], f"log directory {number} of {name} fails", do=do, undo=undo
        )

    def replace(self, name: str, number: int) -> ActiveFault:
        """kill -9 a running node, and replace one of its directories by an empty one; it stays down until a start.

        Lossy. Raises NoSuchDirectory.
        """
        path = self._removable_path(name, number)

        def do() -> None:
            shutil.rmtree(path)
            self.cluster.format_lost(name)

        return self._lose("replace_directory", name, path, f"log directory {number} of {name} is replaced", do)

    def drop(self, name: str, number: int) -> ActiveFault:
        """kill -9 a running node, and remove a directory from log.dirs; the node stays down until a start.

        Lossy. Raises NoSuchDirectory.
        """
        path = self._removable_path(name, number)

        def do() -> None:
            config = self.cluster.node(name).config
            with open(config, encoding="utf-8") as file:
                lines = file.read().splitlines()
            kept = [each for each in self.disks.settings(name).list("log.dirs") if each != path]
            lines = [KEY + ",".join(kept) if line.startswith(KEY) else line for line in lines]
            with open(config, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")

        return self._lose(
            "drop_directory", name, path, f"log directory {number} of {name} is removed from log.dirs", do
        )

    def has_log(self, name: str, partition: str, number: int) -> bool:
        """Return whether a partition's log is in this directory of a node and in no other."""
        paths = self.disks.settings(name).list("log.dirs")
        moves = [
            found
            for path in paths
            if os.path.isdir(path)
            for each in os.listdir(path)
            if (found := parse_suffixed_folder(each, FUTURE_FOLDER_SUFFIX)) is not None and str(found) == partition
        ]
        return not moves and os.path.isdir(os.path.join(self.path(name, number), partition))

    def _removable_path(self, name: str, number: int) -> str:
        if number == 1:
            raise NoSuchDirectory(f"the first log directory of {name} cannot fail: it has the node's own files")
        return self.path(name, number)

    def _lose(self, kind: str, name: str, path: str, story: str, do: Callable[[], None]) -> ActiveFault:
        partitions = sorted(str(found) for each in os.listdir(path) if (found := parse_folder(each)) is not None)

        def kill() -> str:
            self.cluster.kill(name)
            do()
            return f"with the loss of {', '.join(partitions) or 'no partition'}"

        return self.processes.stop_nodes(kind, [name], story, kill, lossy=bool(partitions), partitions=partitions)
