"""History of a run: requests, responses and faults, one JSON object per line.

All parts of the lab write these events (workloads, faults, the metadata follower, the simulator) and the checker reads
them, live or later. The vocabulary is Jepsen's (jepsen.tests.kafka): an operation is an `invoke` and one
completion: `ok` certainly happened, `fail` certainly did not, `info` may have or may still. Rules for writers:

- Lines are in real-time order: an invoke is written before its request is sent, a completion after the response.
  An operation that never completes counts as `info`.
- Values are ints, each sent once to its partition. A partition is named `topic-0`.
- `t` is in seconds since the run began (virtual seconds in the simulator); the writer rounds to microseconds.
- A crashed process is never used again.

Kinds and fields that this release does not know are skipped and counted, so later releases can add some.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self, TypeAlias

import msgspec

HISTORY_VERSION: Final = 1
"""The version of the vocabulary, in the start event."""

LINE_SIZE_MAX: Final = 64 * 1024 * 1024
"""Bytes of one line: a replica event of a long log is the largest, some MiB. Anything longer is no history."""

PolledRecord: TypeAlias = list[int]
"""[offset, value], or [offset, value, leader epoch] if the client reports the epoch."""

MicroOp: TypeAlias = list[str | int | dict[str, list[PolledRecord]] | None]
"""["send", partition, value], completed ["send", partition, value, offset]; ["poll"], completed ["poll", {...}].

["offset", group, partition, offset]: an offset that a commit or a transaction commits, or that a fetch got (-1: none).
["copy", group, partition, value, partition, value]: the group made the second record out of the first (txn).
["amount", partition, value, amount]: that record moves money; the amounts of a transaction add up to nothing (txn).
"""

OperationValue: TypeAlias = list[str | int | MicroOp | None]
"""Micro-operations of a send, poll or txn; partitions of an assign or subscribe; words of an admin operation."""


class BrokenHistory(Exception):
    """An invalid history file, with the line and the error."""


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="kind", forbid_unknown_fields=True):
    """Common fields of all events: the kind (first in its line) and the time."""

    t: float


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster: its id and whether it is broker, controller or both."""

    id: int
    roles: list[str] = []


class ClusterShape(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at the start: nodes by name; `configs` are cluster-wide broker configs by Kafka's keys."""

    nodes: dict[str, NodeShape] = {}
    configs: dict[str, str] = {}


class TopicShape(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the workload and its configs by Kafka's keys."""

    partitions: int = 1
    replication_factor: int = 1
    configs: dict[str, str] = {}


class Start(Event, frozen=True, kw_only=True, tag="start", omit_defaults=True):
    """The first line: the scenario and the cluster. `expect` is for the scenario; the checker ignores it.

    `software`: {"kvorum": version, "python": version, ...} of the recorder, including client libraries.
    `command`: the command line, which repeats the run.
    """

    version: int = HISTORY_VERSION
    scenario: str = ""
    seed: int | None = None
    expect: dict[str, object] = {}
    cluster: ClusterShape = ClusterShape()
    topics: dict[str, TopicShape] = {}
    software: dict[str, str] = {}
    command: str = ""


class Process(Event, frozen=True, kw_only=True, tag="process"):
    """A client that begins: a producer, a consumer or both. Its guarantees determine the checks."""

    process: int
    client: str = ""
    acks: str = "all"
    idempotent: bool = True
    transactional_id: str | None = None
    isolation: str = "read_committed"


class Operation(Event, frozen=True, kw_only=True):
    """Common fields of invocations and completions; `op` joins the two.

    `f`: send, poll, assign, subscribe, txn, commit, offsets, admin, crash.
    `offsets` fetches a group's committed offsets, with require-stable.
    `committed`: of a txn's completion; `ended`: when the request that ends it could first leave, in its completion.
    `generation`: of a classic group, as which a commit or a txn commits offsets. `reset`: a commit that may go back.
    `seek_to_beginning`: of an assign; every position is forgotten then, else the
    partitions that stay assigned keep theirs. `rebalance`: partitions that a rebalance moved while a poll ran.
    `final`: belongs to the reads after the faults have healed.
    """

    op: int
    process: int
    f: str
    value: OperationValue = []
    error: str | None = None
    committed: bool | None = None
    ended: float | None = None
    generation: int | None = None
    reset: bool = False
    seek_to_beginning: bool = False
    rebalance: list[str] = []
    final: bool = False


class Invoke(Operation, frozen=True, kw_only=True, tag="invoke", omit_defaults=True):
    """An operation begins."""


class Ok(Operation, frozen=True, kw_only=True, tag="ok", omit_defaults=True):
    """It certainly happened."""


class Fail(Operation, frozen=True, kw_only=True, tag="fail", omit_defaults=True):
    """It certainly did not happen, and never will."""


class Info(Operation, frozen=True, kw_only=True, tag="info", omit_defaults=True):
    """It may have happened, or may still: every timeout and every lost connection."""


class Owned(Event, frozen=True, kw_only=True, tag="owned", omit_defaults=True):
    """All partitions of a group member from now on. Written after a gain is known, before a loss is reported.

    `generation`: the generation of a classic group, or the member's epoch (`protocol` "consumer"). `session`: seconds
    without a request after which the coordinator may reassign its partitions. `contact`: when its last request was sent
    that the coordinator accepted with a response without a rebalance; accepted commits renew it too, but report
    nothing. `rebalance`: seconds without such a response after which a rebalance continues without it (0: longer than
    any session). `instance`: a static member's.
    """

    process: int
    group: str
    partitions: list[str]
    protocol: str = "classic"
    member: str = ""
    instance: str = ""
    generation: int = -1
    session: float = 0.0
    rebalance: float = 0.0
    contact: float | None = None


class Stable(Event, frozen=True, kw_only=True, tag="stable"):
    """A partition's last stable offset and high watermark as its leader has them, when all should be at rest."""

    partition: str
    last_stable_offset: int
    high_watermark: int


class Fault(Event, frozen=True, kw_only=True, tag="fault"):
    """A fault begins or ends; `id` joins the two. `lossy`: its targets ("node-1", "node-1/broker") lost data.

    `partitions` are those of which they lost it, where a log directory was lost; none: all that they had.
    """

    fault: str
    id: int
    phase: str
    targets: list[str] = []
    lossy: bool = False
    story: str = ""
    partitions: list[str] = []


class Metadata(Event, frozen=True, kw_only=True, tag="metadata"):
    """A committed record of the metadata log, unchanged (quorum.records), followed live."""

    offset: int
    epoch: int = -1
    record: dict[str, object]


class Replica(Event, frozen=True, kw_only=True, tag="replica"):
    """One replica's log at the end: `batches` are [base offset, last offset, digest of the batch's bytes].

    `epochs` is the leader epoch cache, [epoch, start offset] each. A later event of the same replica replaces this one.
    """

    node: int
    partition: str
    start: int
    high_watermark: int
    end: int
    epochs: list[list[int]] = []
    batches: list[tuple[int, int, str]] = []


class Image(Event, frozen=True, kw_only=True, tag="image"):
    """The hash of one node's metadata image at an offset of the metadata log."""

    node: str
    offset: int
    hash: str


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """A remark for the reader of the story."""

    text: str


class Finish(Event, frozen=True, kw_only=True, tag="finish"):
    """The last line."""


AnyEvent: TypeAlias = (
    Start | Process | Invoke | Ok | Fail | Info | Owned | Stable | Fault | Metadata | Replica | Image | Note | Finish
)
KINDS: Final[dict[str, type[Event]]] = {
    "start": Start,
    "process": Process,
    "invoke": Invoke,
    "ok": Ok,
    "fail": Fail,
    "info": Info,
    "owned": Owned,
    "stable": Stable,
    "fault": Fault,
    "metadata": Metadata,
    "replica": Replica,
    "image": Image,
    "note": Note,
    "finish": Finish,
}
"""The struct of each kind. A read-only mapping."""


class HistoryWriter:
    """Takes events, in order: into a file, a line each, or into memory where no path is given (the simulator).

    One call is one line, also from several threads. Lines other than operations are flushed at once, so that a run
    that dies keeps its faults; operations are buffered.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Create or empty the file at `path`."""
        self.events: list[AnyEvent] = []
        """The written lines, in memory only (empty if a path is given)."""
        self.count = 0
        self._file: BinaryIO | None = path.open("wb") if path is not None else None
        self._encoder = msgspec.json.Encoder()

    def write(self, event: AnyEvent) -> None:
        """Append an event, its time rounded to microseconds."""
        t = round(event.t, 6)
        if t != event.t:
            event = msgspec.structs.replace(event, t=t)
        self.count += 1
        if self._file is None:
            self.events.append(event)
            return
        self._file.write(self._encoder.encode(event) + b"\n")
        if not isinstance(event, Operation):
            self._file.flush()

    def flush(self) -> None:
        """Hand all lines to the operating system."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file; nothing can be written after."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        """Return the writer; leaving the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class HistoryReader:
    """Decodes lines into events, one at a time, and counts skipped ones."""

    def __init__(self) -> None:
        """Create it before the first line."""
        self.lines = 0
        self.unknown_kinds: Counter[str] = Counter()
        """Lines of kinds this release does not know, by kind."""
        self.unknown_fields: Counter[str] = Counter()
        """Fields this release does not know, by `kind.field`."""
        self.torn = False
        """The last line was cut off in the middle: the run died while it wrote."""
        self._decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)

    def decode(self, line: bytes) -> AnyEvent | None:
        """Return the line's event, None for an unknown kind.

        Raises:
            BrokenHistory: not a JSON object, no kind or a field of the wrong type.
        """
        self.lines += 1
        try:
            return self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._decode_leniently(line)

    def read(self, path: Path) -> Iterator[AnyEvent]:
        """Stream a file's events.

        Raises:
            BrokenHistory: as `decode`; a last line without its end is left out and noted in `torn`.
        """
        with path.open("rb") as file:
            while line := file.readline(LINE_SIZE_MAX):
                if not line.endswith(b"\n"):
                    if len(line) == LINE_SIZE_MAX:
                        raise BrokenHistory(f"line {self.lines + 1} is longer than {LINE_SIZE_MAX} bytes")
                    try:
                        last = self.decode(line)
                    except BrokenHistory:
                        self.torn = self.lines > 1
                        if not self.torn:
                            raise
                        return
                    if last is not None:
                        yield last
                    return
                event = self.decode(line)
                if event is not None:
                    yield event

    def _decode_leniently(self, line: bytes) -> AnyEvent | None:
        """Decode again without fields that the kind does not have; the slow path."""
        try:
            fields = msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BrokenHistory(f"line {self.lines} is not a JSON object: {error}") from error
        kind = fields.get("kind")
        if not isinstance(kind, str):
            raise BrokenHistory(f"line {self.lines} has no kind")
        struct = KINDS.get(kind)
        if struct is None:
            self.unknown_kinds[kind] += 1
            return None
        unknown = fields.keys() - {"kind", *struct.__struct_fields__}
        self.unknown_fields.update(f"{kind}.{name}" for name in unknown)
        known = {name: value for name, value in fields.items() if name not in unknown}
        try:
            event: AnyEvent = msgspec.convert(known, AnyEvent)
        except msgspec.MsgspecError as error:
            raise BrokenHistory(f"line {self.lines} is not a valid {kind} event: {error}") from error
        return event


def read_history(path: Path) -> Iterator[AnyEvent]:
    """Stream the events of a history file. A `HistoryReader` also counts what was skipped.

    Raises:
        BrokenHistory: with the number of the line and its error.
        OSError: the file cannot be read.
    """
    return HistoryReader().read(path)
