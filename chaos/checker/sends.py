"""The table of all sends: one row per value, in columns, in the order of invocation.

Columns are typed arrays, about 110 bytes per row in all, so that a run of a million operations fits into a laptop's
memory.
"""

from array import array
from typing import Final

NOWHERE: Final = -1
"""An offset that is not known."""

NEVER: Final = float("inf")
"""The time of an event that did not happen."""

PENDING: Final = 0
OK: Final = 1
FAIL: Final = 2
INFO: Final = 3
"""The completion of a send's operation. PENDING becomes INFO at the end of the history."""

READ_OK: Final = 1
READ_COMMITTED: Final = 2
READ_FINAL: Final = 4
FINAL_THERE: Final = 8
"""Readers of a value: an ok poll; one at read_committed; a final read; one at the place of its first poll."""

SEQUENCE_MAX: Final = (1 << 62) - 1
"""The line number of a completion that never came: after every line."""


class Sends:
    """The columns. Only `add` makes rows; the derivation fills them in."""

    __slots__ = (
        "acked_offset",
        "completed",
        "completed_sequence",
        "epoch",
        "first_read",
        "first_reader",
        "floor",
        "invoked",
        "invoked_sequence",
        "kind",
        "last_read",
        "op",
        "partition",
        "process",
        "read_flags",
        "read_offset",
        "transactional",
        "value",
    )

    def __init__(self) -> None:
        """Create it without rows."""
        self.partition = array("i")
        self.value = array("q")
        self.process = array("q")
        self.op = array("q")
        self.kind = bytearray()
        self.transactional = bytearray()
        self.invoked = array("d")
        self.completed = array("d")
        """NEVER where no completion came."""
        self.invoked_sequence = array("q")
        """Line number of the invocation; -1 where the history has none: then it may have begun at any time."""
        self.completed_sequence = array("q")
        """Line number of an ok completion; SEQUENCE_MAX otherwise: an unknown outcome may come at any time."""
        self.acked_offset = array("q")
        self.floor = array("q")
        """The highest offset that was acknowledged to or polled by any client when this send began (NOWHERE: none)."""
        self.read_offset = array("q")
        """Position at which it was first polled; other positions are in the partition's `elsewhere`."""
        self.epoch = array("q")
        """The leader epoch of its first poll, -1 if the client did not report it."""
        self.read_flags = bytearray()
        self.first_read = array("d")
        """When it was first polled by any operation."""
        self.first_reader = array("q")
        """The operation that did, -1 for none."""
        self.last_read = array("d")
        """When the last poll that returned it began; -1.0 for none."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.value)

    def add(
        self,
        *,
        partition: int,
        value: int,
        process: int,
        op: int,
        transactional: bool,
        t: float,
        sequence: int,
        floor: int,
    ) -> int:
        """Append a pending row and return its number."""
        self.partition.append(partition)
        self.value.append(value)
        self.process.append(process)
        self.op.append(op)
        self.kind.append(PENDING)
        self.transactional.append(transactional)
        self.invoked.append(t)
        self.completed.append(NEVER)
        self.invoked_sequence.append(sequence)
        self.completed_sequence.append(SEQUENCE_MAX)
        self.acked_offset.append(NOWHERE)
        self.floor.append(floor)
        self.read_offset.append(NOWHERE)
        self.epoch.append(-1)
        self.read_flags.append(0)
        self.first_read.append(NEVER)
        self.first_reader.append(-1)
        self.last_read.append(-1.0)
        return len(self.value) - 1

    def position(self, row: int) -> int:
        """Return the offset at which the value certainly stood: acknowledged or polled there; else NOWHERE."""
        return self.acked_offset[row] if self.has_offset(row) else self.read_offset[row]

    def has_offset(self, row: int) -> bool:
        """Return whether the send succeeded and its response had an offset."""
        return self.kind[row] == OK and self.acked_offset[row] != NOWHERE

    def evident(self, row: int) -> float:
        """Return when it was first certain that the value is in the log: acknowledged or polled; NEVER for neither."""
        acked = self.completed[row] if self.kind[row] == OK else NEVER
        return min(acked, self.first_read[row])
