"""A replica as the invariants last saw it, in one life of its broker."""

from typing import Final

from kvorum.broker.replica.isr import IsrState
from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import Role
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.partition import PartitionRegistration
from sim.ledger import ReplicaLog, Violation
from sim.machine import SimProcess

Key = tuple[Uuid, int]
NOWHERE: Final = -1


class ReplicaState:
    """A replica in one life of its broker, at the last check."""

    __slots__ = (
        "end",
        "epoch",
        "folder",
        "high_watermark",
        "isr_state",
        "key",
        "led_epoch",
        "log",
        "partition",
        "partition_epoch",
        "role",
        "shadow",
        "start",
    )

    def __init__(self, key: Key, shadow: ReplicaLog, folder: str, partition: Partition) -> None:
        """Create it with a log on a disk."""
        self.key = key
        self.partition = partition
        self.log = partition.log
        self.end = shadow.end
        self.shadow = shadow
        self.folder = folder
        self.role = Role.NONE
        self.epoch = NOWHERE
        self.led_epoch = NOWHERE
        self.partition_epoch = NOWHERE
        self.high_watermark = 0
        self.start = 0 if partition.log is None else partition.log.log_start_offset
        self.isr_state: IsrState | None = None

    def is_new_log(self, start: int) -> bool:
        """Return whether a follower's empty log begins there: its leader's history parts from its own below its start.

        A log whose records retention has all deleted knows its last leader epochs from its last checkpoint alone.
        """
        following, log = self.partition.role is Role.FOLLOWING, self.partition.log
        return following and log is not None and log.log_start_offset == log.log_end_offset == start


def check_log_start(process: SimProcess, name: str, before: ReplicaState, after: ReplicaState) -> None:
    """Compare a log that replaced another one of its replica, in another directory, with that one."""
    start = max(before.shadow.start, after.shadow.start)  # a copy may still have records that were deleted meanwhile
    held = [entry for entry in before.shadow.entries if entry.base_offset >= start]
    found = [entry for entry in after.shadow.entries if entry.base_offset >= start]
    if held != found or before.end != after.end:
        raise Violation(
            "MoveKeepsAll",
            f"{process.name} moved {name} from {before.folder} to {after.folder}: {len(held)} batches up to "
            f"{before.end} became {len(found)} up to {after.end}, or others",
        )


def is_there(process: SimProcess, folder: str) -> bool:
    """Return whether the log directory of a log is in use and works."""
    return any(folder.startswith(f"{each}/") for each in process.log_dirs if each not in process.disk.broken)


def electable_outsiders(partition: Partition, registration: PartitionRegistration) -> list[int]:
    """Return the brokers that the controller may elect although a leader that can commit does not wait for them."""
    state = partition.isr_state
    if len(state.isr) < partition.effective_min_isr:
        return []
    return sorted({*registration.isr, *registration.elr} - state.maximal_isr)
