"""MetadataLog: the interface between Raft and all users of metadata.

Above it there are record batches with Kafka offsets; below it (`kvorum.quorum.raft.replicated`) there are pysyncobj, a
journal, snapshots and frames; beside it `kvorum.quorum.raft.memory_log` is the same thing with one voter and no disk.

Guarantees of the log:

- *compare-and-append*: a batch is applied only if it lands at the offset its author expected and in the author's own
  epoch; otherwise every node drops it alike;
- every node applies the same batches at the same offsets, with the same bytes (base offset and leader epoch filled in);
- `append`'s future has three outcomes: applied here (result), certainly never (NotController, Dropped), unknown
  (UnknownOutcome: it may still be committed);
- callbacks come on the event loop, in order: `on_leader_changed` before `on_active`, a batch before the future of its
  append, `on_inactive` before any batch of a later epoch;
- a listener that needs long for a batch or a snapshot returns the work as steps: nothing else of the log is applied,
  and no snapshot is captured, before the last of them; `on_leader_changed` and `on_inactive` may come in between.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from typing_extensions import Buffer

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.steps import Steps

COMMAND_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger change goes as begin/end-transaction records (KIP-868); one frame must never hold up heartbeats for long."""
COMMAND_RECORDS_MAX: Final = 10_000
"""The same limit in records, as in Kafka's controller: a broker must be able to apply them in one step."""
APPENDS_IN_FLIGHT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Appended, not yet applied: beyond this `append` refuses (Dropped), the caller answers with a retriable error."""


WHAT_TO_DO: Final = (
    "this controller has metadata that the quorum gave up or never had (after `kvorum quorum readmit`, or because of a "
    "faulty disk): move its metadata directory away, and format it again with `kvorum format -g`"
)
"""Message for an operator: such a controller ends."""


class MetadataLogError(Exception):
    """Why an append or a read index failed.

    MetadataLogError
    +-- NotController     this node does not lead (any more): certainly not appended
    +-- Dropped           leads, but the batch was rejected or dropped: certainly not applied, and never will be
    +-- UnknownOutcome    leadership was lost meanwhile: the next leader may commit it, or not
    """


class NotController(MetadataLogError):
    """This node is not the active leader in the given epoch; nothing was appended. See `leader_id`."""


class Dropped(MetadataLogError):
    """Rejected, or dropped on applying: wrong offset, too large, too much in flight. It will never be applied."""


class ReadmissionRefused(Exception):
    """A leader exists, which readmits a wiped voter itself, without a loss."""


class UnknownOutcome(MetadataLogError):
    """Leadership was lost between append and commit. Only the committed log of a later leader shows the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A voter's identity: a controller whose directory id differs neither votes nor counts."""

    node_id: int
    directory_id: Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """Progress of a replica of the metadata log, according to its leader (DescribeQuorum).

    Times are wall milliseconds, -1 if unknown. `log_end_offset` is in Kafka offsets; -1 if nothing is known yet.
    `is_voter` is false for a controller whose directory is not (yet) in the committed voter set.
    """

    node_id: int
    directory_id: Uuid
    is_voter: bool
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotId:
    """Id of a snapshot: all records below `end_offset`, the last batch of it in `epoch` (KIP-630)."""

    end_offset: int
    epoch: int


class SnapshotBusy(Exception):
    """A snapshot is being written: there is one at a time."""


class NothingToSnapshot(Exception):
    """There is no state to write, yet or any longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """The newest snapshot; it has everything that was applied at the time of the request."""

    snapshot_id: SnapshotId
    size: int
    """Size of the file."""
    written: bool
    """False: it existed already, without changes since."""


@dataclass(slots=True, kw_only=True)
class SnapshotContent:
    """State of the layer above at exactly the current high watermark, as chunks of bytes.

    `chunks` is consumed off the event loop, so it iterates over something immutable; equal states give equal bytes.
    """

    chunks: Iterator[bytes]


class SnapshotView(Protocol):
    """A durable, checked snapshot. Close it after use; the file stays readable until then."""

    snapshot_id: SnapshotId
    size: int

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes of the content from `position`."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """Yield the content from the start, in pieces of any size."""
        ...

    def close(self) -> None:
        """Release the file. Idempotent."""
        ...


class SnapshotSource(Protocol):
    """The layer above, as the source of the state."""

    def capture(self) -> SnapshotContent:
        """Return the state at the current high watermark. Called on the loop, cheap: keep a reference, copy nothing."""
        ...


class MetadataLogListener(Protocol):
    """Listener of the metadata log. Called on the event loop; an exception ends the process (no divergence)."""

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> Steps[None] | None:
        """Process the next committed batch. Offset and epoch are in its bytes too; the timestamp is its largest."""
        ...

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> Steps[None] | None:
        """Throw the state away and take the snapshot's. The caller closes the view. Never while active."""
        ...

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Record the leader (None: unknown) and its term."""
        ...

    def on_active(self, epoch: int) -> None:
        """Start to decide: this node leads, and all that earlier leaders committed has been applied here."""
        ...

    def on_inactive(self) -> None:
        """Stop deciding: futures of open appends fail right after this."""
        ...


class MetadataLog(Protocol):
    """One node's end of the replicated metadata log."""

    @property
    def node_id(self) -> int:
        """This node."""
        ...

    @property
    def leader_id(self) -> int | None:
        """The leader, as known by this node."""
        ...

    @property
    def epoch(self) -> int:
        """The Raft term; on the active leader it is the controller epoch it appends with."""
        ...

    @property
    def high_watermark(self) -> int:
        """One past the last applied record. (Committed and applied are the same for users of this interface.)"""
        ...

    @property
    def log_end_offset(self) -> int:
        """On the active leader, one past the last appended record: the expected offset of the next append."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The end offset of the newest durable snapshot: earlier batches may be removed. 0 without one."""
        ...

    def is_active(self) -> bool:
        """Return whether this node leads, its term's first entry is applied, and a majority responded recently."""
        ...

    def append(self, batch: Buffer, expected_offset: int, controller_epoch: int) -> asyncio.Future[int]:
        """Append one Kafka record batch (v2); the future carries its base offset once it is applied here.

        Base offset and partition leader epoch are filled in; the rest of the bytes stay. The future fails with
        NotController or Dropped (certainly not applied) or UnknownOutcome.
        """
        ...

    def read_index(self) -> asyncio.Future[int]:
        """Return a linearizable high watermark: no append acknowledged before this call is at or above it.

        It costs one round of heartbeats, shared by all calls of the same moment. Fails with NotController.
        """
        ...

    def voters(self) -> tuple[Voter, ...]:
        """Return the committed voter set, by node id; empty before the first one is committed."""
        ...

    def replicas(self) -> tuple[ReplicaState, ...]:
        """Return this leader's view of each controller, itself included; empty on a node that does not lead."""
        ...

    def resign(self) -> asyncio.Future[int | None]:
        """Hand leadership to the voter that is furthest; the future carries the next leader, None after a timeout.

        For a controlled shutdown. Appends are refused from the call on. At once None when this node does not lead.
        """
        ...

    def add_listener(self, listener: MetadataLogListener) -> None:
        """Call the listener from now on. Add all before `start`: earlier batches are not repeated."""
        ...

    def set_snapshot_source(self, source: SnapshotSource) -> None:
        """Set the source of the state for snapshots. Without one there are none."""
        ...

    def take_snapshot(self) -> asyncio.Future[SnapshotId | None]:
        """Write a snapshot now; the future carries its id once durable, None if there is nothing new to write."""
        ...

    def latest_snapshot(self) -> SnapshotView | None:
        """Open the newest durable snapshot (FetchSnapshot), or return None. The caller closes it."""
        ...
