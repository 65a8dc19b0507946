"""Faults on the disks of a lab's nodes: wiped, tails lost, bits flipped, full, read-only."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from kvorum.chaos.faults.disk_damage import (
    JOURNAL,
    FlippedBit,
    NothingToDamage,
    flip_bits,
    journal_of,
    lose_unsynced,
    segment_of,
)
from kvorum.chaos.faults.events import ActiveFault, FaultRegister, Unsupported
from kvorum.chaos.faults.processes import ProcessFaults
from kvorum.chaos.faults.small_disk import SmallDisk
from kvorum.chaos.faults.topology import BROKER, CONTROLLER
from kvorum.cluster.local.formatting import controller_directory, log_directories, raft_directory
from kvorum.cluster.local.local import LocalCluster
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.config import Settings
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import OsDisk
from kvorum.storage.checkpoints import read_meta_properties

JOURNAL_FOLDER: Final = "journal"
"""In a controller's Raft directory."""
FLIPPED_SHOWN_MAX: Final = 3


class NoSmallDisk(Unsupported):
    """A fault that needs the node's directory on its own small disk."""


@dataclass(slots=True)
class DiskFaults:
    """The verbs on disks."""

    cluster: LocalCluster
    register: FaultRegister
    processes: ProcessFaults
    small: Mapping[str, SmallDisk]
    rng: Random

    def settings(self, name: str) -> Settings:
        """Return a node's configuration."""
        return load_node(self.cluster.node(name).config, environment={}, has_secrets=False).settings

    def directories(self, name: str, role: str) -> list[str]:
        """Return the directories of one of a node's processes, as this process reaches them."""
        settings = self.settings(name)
        has_controller = CONTROLLER in settings.list("process.roles")
        own = [controller_directory(settings)] if has_controller else []
        found = own if role == CONTROLLER else [each for each in log_directories(settings) if each not in own]
        return [self._outside(name, each) for each in found]

    def identity(self, name: str) -> Uuid:
        """Return the id of a controller's directory. Raises NothingToDamage for one that is not formatted."""
        (folder,) = self.directories(name, CONTROLLER)
        found = read_meta_properties(OsDisk(), folder)
        if found is None:
            raise NothingToDamage(f"{folder} of {name} is not formatted")
        return found.directory_id

    def _outside(self, name: str, path: str) -> str:
        disk = self.small.get(name)
        inside = disk is not None and os.path.commonpath([disk.directory, path]) == disk.directory
        return disk.outside(path) if disk is not None and inside else path

    def wipe(self, target: str) -> ActiveFault:
        """kill -9 a node, remove its data (of a process: only this one's), and format its directories again.

        The node stays down until a start. Raises NoSmallDisk for a node with a small disk: a mount cannot be removed.
        """
        name, _, only = target.partition("/")
        if name in self.small:
            raise NoSmallDisk(f"the small disk of {name} cannot be wiped")
        roles = [only] if only else self.settings(name).list("process.roles")
        folders = [each for role in (BROKER, CONTROLLER) if role in roles for each in self.directories(name, role)]

        def do() -> None:
            self.cluster.kill(name)
            for folder in folders:
                if os.path.exists(folder):
                    shutil.rmtree(folder)
            self.cluster.format_lost(name)

        what = f"the disks of its {only}" if only else "all its disks"
        return self.processes.stop_nodes("wipe", [name], f"{name} killed and {what} wiped", do, lossy=True)

    def lose_tail(self, names: Sequence[str]) -> ActiveFault:
        """kill -9 nodes at once and remove unsynced data from their disks, as a power failure may.

        They stay down until a start. The durable-length files determine the loss; a controller's journal
        acknowledges only synced data, and is unchanged.
        """

        def do() -> str:
            self.processes.kill_now(names)
            lost = {
                name: lose_unsynced([*self.directories(name, BROKER), *self.directories(name, CONTROLLER)])
                for name in names
            }
            return (
                ", ".join(
                    f"{name} lost {each.lost_bytes} bytes of {os.path.basename(each.folder)}, above offset "
                    f"{each.synced.recovery_point}"
                    for name, tails in lost.items()
                    for each in tails
                )
                or "no unsynced data"
            )

        return self.processes.stop_nodes("lose_tail", names, f"power loss of {', '.join(names)}", do, lossy=True)

    def flip_bits(self, name: str, what: str, count: int = 1, position: int | None = None) -> list[FlippedBit]:
        """Flip bits in a segment of a partition ("orders-0"), or in the controller's journal ("journal").

        A running node is not stopped for it. Raises NothingToDamage.
        """
        if what == JOURNAL:
            path = journal_of(f"{raft_directory(self.settings(name))}/{JOURNAL_FOLDER}")
        else:
            path = segment_of(self.directories(name, BROKER), what, self.rng)
        flipped: list[FlippedBit] = []

        def do() -> str:
            flipped.extend(flip_bits(path, count, self.rng, position))
            shown = ", ".join(f"bit {each.bit} of byte {each.position}" for each in flipped[:FLIPPED_SHOWN_MAX])
            return f"{shown}{', ...' if len(flipped) > FLIPPED_SHOWN_MAX else ''} of {os.path.basename(path)}"

        story = f"{count} bits of {what} flipped on {name}"
        self.register.at_once("flip_bits", [name], story, do, lossy=True)
        return flipped

    def fill(self, name: str) -> ActiveFault:
        """Leave no byte free on a node's small disk; its end gives the room back. Raises NoSmallDisk."""
        disk = self.small_disk(name)
        return self.register.begin("disk_full", [name], f"the disk of {name} is full", do=disk.fill, undo=disk.empty)

    def read_only(self, name: str) -> ActiveFault:
        """Make a node's small disk read-only for opens; open files stay writable. Raises NoSmallDisk."""
        disk = self.small_disk(name)
        return self.register.begin(
            "read_only", [name], f"the disk of {name} is read-only", do=disk.make_read_only, undo=disk.make_writable
        )

    def small_disk(self, name: str) -> SmallDisk:
        """Return a node's small disk. Raises NoSmallDisk."""
        if name not in self.small:
            raise NoSmallDisk(f"{name} has no small disk: set small_disks of the lab")
        return self.small[name]
