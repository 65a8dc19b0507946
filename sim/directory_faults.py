"""Executes a plan's faults of log directories (see log_dir_failures): failures, losses, returns.

A failed directory fails at every operation, in this life of the broker and the next ones, until it is repaired. A
replaced or removed one loses its content; each loss is reported to broker_incarnations, by partition. A broker always
keeps one working directory: without any it could only end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.storage.checkpoints import read_meta_properties
from kvorum.storage.names import parse_folder
from sim.cluster import CLUSTER_ID, SimCluster
from sim.fault_targets import Targets
from sim.link_faults import Story
from sim.log_dir_failures import BREAKS, REPLACED, TERMINATE, loss_request
from sim.machine import BROKER, SimProcess, State
from sim.node_settings import settings_of
from sim.plan import Fault

DOWN_S: Final = 0.2
"""Minimum down time of a broker that starts with a failed directory."""


@dataclass
class FaultEnd:
    """Whether a fault has been ended; the end of a run ends it early."""

    is_over: bool = False


class DirectoryFaults:
    """Directory faults of one run. Each method returns None if it has no effect."""

    def __init__(self, cluster: SimCluster, targets: Targets) -> None:
        """Store the cluster and the finder of targets."""
        self._cluster = cluster
        self._targets = targets
        self._incarnations = cluster.invariants.incarnations

    def lose(self, fault: Fault) -> Story | None:
        """Restart a broker without the content of a directory."""
        request, process = loss_request(fault), self._broker(fault)
        path = None if process is None else self._directory(process, request.directory)
        if process is None or path is None:
            return None
        story, over, lives = self._story(process, path), FaultEnd(), process.lives
        if request.breaks:
            self._break(process, path)
            self._later(fault.amount, over, lambda: self._stop(process, request.stop))
            story += f" {BREAKS}, and"
        else:
            self._stop(process, request.stop)
        to_come = "is replaced by an empty directory" if request.how == REPLACED else "is taken out of log.dirs"

        def undo() -> list[str]:
            over.is_over = True
            self._end(process)
            process.disk.broken.discard(path)
            # If another fault's end has started it meanwhile, it has all its data, and may lead with it.
            partitions = self._lose(process, path, request.how) if process.lives == lives else []
            process.start()
            return partitions

        return f"{story} {to_come}, after {request.stop}{self._targets.leads(process.machine)}", [process.name], undo

    def break_directory(self, fault: Fault) -> Story | None:
        """Make a directory fail until it is repaired, also over restarts of the broker."""
        request, process = loss_request(fault), self._broker(fault)
        path = None if process is None else self._directory(process, request.directory)
        if process is None or path is None:
            return None
        leads, over = self._targets.leads(process.machine), FaultEnd()
        self._break(process, path)
        self._later(fault.amount, over, lambda: self._stop(process, request.stop))
        self._later(fault.amount + DOWN_S, over, lambda: self._start_again(process))

        def undo() -> None:
            over.is_over = True
            process.disk.broken.discard(path)
            self._end(process)
            process.start()

        story = f"{self._story(process, path)} breaks, also over a restart after {request.stop}{leads}"
        return story, [process.name], undo

    def return_directory(self, fault: Fault) -> Story | None:
        """Add a removed directory to log.dirs again."""
        process = self._broker(fault)
        gone = [] if process is None else [each for each in process.all_log_dirs if each not in process.log_dirs]
        if process is None or not gone:
            return None
        path = gone[0]
        self._stop(process, loss_request(fault).stop)

        def undo() -> None:
            self._end(process)
            if path not in process.log_dirs:
                self._configure(process, [each for each in process.all_log_dirs if each in (path, *process.log_dirs)])
                process.vouches = False
            process.start()

        return f"{self._story(process, path)} is in log.dirs again with its old content", [process.name], undo

    # Processes and directories.

    def _broker(self, fault: Fault) -> SimProcess | None:
        machine = self._targets.machine(fault.target)
        process = None if machine is None or machine.dark else machine.processes.get(BROKER)
        return process if process is not None and process.is_running else None

    def _directory(self, process: SimProcess, named: str) -> str | None:
        """Return the path of a directory by its number or by a partition; None for an unknown or the only directory."""
        working = [each for each in process.log_dirs if each not in process.disk.broken]
        if named.isdecimal():
            found = [each for each in process.log_dirs if each == process.all_log_dirs[int(named) - 1]]
        else:
            found = [each for each in process.log_dirs if process.disk.is_dir(f"{each}/{named}")]
        others = [each for each in working if each != found[0]] if found else []
        return found[0] if found and others else None

    def _story(self, process: SimProcess, path: str) -> str:
        return f"{path} of {process.name}"

    def _later(self, seconds: float, over: FaultEnd, do: Callable[[], None]) -> None:
        def unless_over() -> None:
            if not over.is_over:
                do()

        loop = self._cluster.loop
        loop.call_at_host(None, loop.time() + seconds, unless_over)

    def _stop(self, process: SimProcess, how: str) -> None:
        in_order = process.broker is not None and process.broker.not_ready() is None and not process.host.paused
        if how == TERMINATE and process.state is State.RUNNING and in_order:
            process.terminate()
        else:
            self._end(process)

    def _start_again(self, process: SimProcess) -> None:
        if process.state is State.STOPPING:
            self._end(process)
        process.start()

    def _end(self, process: SimProcess) -> None:
        if process.is_running:
            self._incarnations.record_kill(process.machine.node_id)
            process.kill()

    def _break(self, process: SimProcess, path: str) -> None:
        process.disk.broken.add(path)
        process.disk_faulted, process.vouches = True, False
        self._cluster.disks_failed.add(process.machine.node_id)

    def _lose(self, process: SimProcess, path: str, how: str) -> list[str]:
        """Remove the content of a directory; return the partitions whose logs were in it."""
        others = [each for each in process.log_dirs if each != path and each not in process.disk.broken]
        if path not in process.log_dirs or not others:
            return []
        self._cluster.disks_failed.add(process.machine.node_id)
        gone = self.note_loss(process, path)
        if how == REPLACED:
            process.disk.remove_tree(path)
            process.machine.format_directory(process, path, CLUSTER_ID, None)
            process.vouches = False
        else:
            self._configure(process, [each for each in process.log_dirs if each != path])
        return gone

    def note_loss(self, process: SimProcess, path: str) -> list[str]:
        """Report to the observer the logs in a directory of a stopped broker; return their partitions."""
        disk = process.disk
        disk.broken.discard(path)
        disk.repair()
        identity = read_meta_properties(disk, path)
        assert identity is not None, "each directory is formatted"
        names = [name for folder in disk.listdir(path) if (name := parse_folder(folder)) is not None]
        gone = [name for name in names if self._lay_here(process, path, name, identity.directory_id)]
        self._incarnations.record_lost_directory(process.machine.node_id, gone, identity.directory_id)
        return sorted(map(str, gone))

    def use_all(self, process: SimProcess) -> None:
        """Add all directories to log.dirs again."""
        self._configure(process, list(process.all_log_dirs))

    def _lay_here(self, process: SimProcess, path: str, name: TopicPartition, directory_id: Uuid) -> bool:
        """Return whether this was the partition's log: another one may be elsewhere, older or newer."""
        if not any(process.disk.is_dir(f"{each}/{name}") for each in process.log_dirs if each != path):
            return True
        topic = self._cluster.metadata.newest.topics.topic(name.topic)
        known = None if topic is None else topic.partition(name.partition)
        node_id = process.machine.node_id
        return known is not None and node_id in known.replicas and known.directory(node_id) == directory_id

    def _configure(self, process: SimProcess, log_dirs: list[str]) -> None:
        process.log_dirs = log_dirs
        machine = process.machine
        process.settings = settings_of(self._cluster.options, machine.node_id, list(machine.processes), log_dirs)
