"""Reads the history once and derives the data of the rules: sends, positions of readers, transactions.

The structures are Jepsen's (jepsen.tests.kafka: writes-by-type, reads-by-type, writer-of, log), laid out so that each
event costs the same however long the history is. Decisions that are possible only at the end (which offsets are gaps,
which unknown outcomes happened) are kept as small candidates: only steps of a reader that are not «the next offset».
"""

from typing import NamedTuple

from kvorum.chaos.checker.partitions import Partition, Session, Step, UnknownRead
from kvorum.chaos.checker.sends import (
    FAIL,
    FINAL_THERE,
    INFO,
    NEVER,
    NOWHERE,
    OK,
    READ_COMMITTED,
    READ_FINAL,
    READ_OK,
    Sends,
)
from kvorum.chaos.history import Fail, Info, Invoke, Ok, Operation, Process


class Reader(NamedTuple):
    """A completed operation that polled, as the graph of dependencies needs it."""

    op: int
    process: int
    invoked_sequence: int
    completed_sequence: int
    t: float
    ok: bool
    transactional: bool


class Transaction(NamedTuple):
    """A completed txn: its outcome (OK, FAIL, INFO), its rows, and its own values that it polled."""

    op: int
    process: int
    t: float
    outcome: int
    rows: tuple[int, ...]


class OwnRead(NamedTuple):
    """A transaction polled a value it sent itself."""

    row: int
    offset: int
    op: int
    t: float


class PendingInvocation(NamedTuple):
    """An invocation that waits for its completion."""

    t: float
    sequence: int
    rows: tuple[int, ...]


class Reset(NamedTuple):
    """An assign or subscribe completed: the process keeps its place in these partitions only."""

    sequence: int
    process: int
    kept: frozenset[int]


class Derivation:
    """Data for the rules, derived from a history. Pass every operation in order, then call `finish`."""

    def __init__(self) -> None:
        """Create the object for an empty history."""
        self.sends = Sends()
        self.partitions: list[Partition] = []
        self.partition_index: dict[str, int] = {}
        self.processes: dict[int, Process] = {}
        self.sessions: dict[int, Session] = {}
        self.readers: list[Reader] = []
        self.read_edges: list[tuple[int, int]] = []
        """(row, index of reader) where the order of the two can matter to a cycle (kvorum.chaos.checker.cycles)."""
        self.transactions: list[Transaction] = []
        self.own_reads: list[OwnRead] = []
        self.committed_reads: dict[int, tuple[float, int]] = {}
        """By row of a transaction: when a poll at read_committed first got it, and which operation that was."""
        self.ended: dict[int, float] = {}
        """By txn: when the request that ends it could first leave."""
        self.resets: list[Reset] = []
        self.errors: dict[int, str] = {}
        """Errors of unsuccessful sends, by row."""
        self.without_offset: list[int] = []
        """Sends that succeeded without an offset in the response."""
        self.final_reads = False
        self.final_t = NEVER
        """When the last of the final polls ended, NEVER without any."""
        self.records_read = 0
        self._pending: dict[int, PendingInvocation] = {}

    def partition(self, name: str) -> Partition:
        """Return the partition of this name, a new one at its first mention."""
        index = self.partition_index.get(name)
        if index is None:
            index = self.partition_index[name] = len(self.partitions)
            self.partitions.append(Partition(name, index))
        return self.partitions[index]

    def process(self, event: Process) -> None:
        """Process a client's start event with its guarantees."""
        self.processes[event.process] = event

    def promises(self, process: int) -> Process:
        """Return the client's guarantees; an undeclared client must satisfy all."""
        return self.processes.get(process) or Process(t=0.0, process=process)

    def invoke(self, event: Invoke, sequence: int) -> None:
        """Process an invocation: each of its sends becomes a row."""
        rows: tuple[int, ...] = ()
        if event.f == "send" or event.f == "txn":
            rows = tuple(self._send(event, step, sequence) for step in event.value if _is_send(step))
        self._pending[event.op] = PendingInvocation(event.t, sequence, rows)

    def pending_rows(self, op: int) -> tuple[int, ...]:
        """Return the rows of an operation that has begun and not completed."""
        return self._pending[op].rows

    def complete(self, event: Ok | Fail | Info, sequence: int) -> PendingInvocation:
        """Process a completion; return its invocation (the completion itself without one)."""
        pending = self._pending.pop(event.op, None)
        if pending is None:
            pending = PendingInvocation(event.t, -1, ())
        match event.f:
            case "send" | "txn":
                rows = self._complete_sends(event, pending, sequence)
                if event.f == "txn":
                    self._complete_transaction(event, rows)
                    self._polls(event, pending, sequence, rows)
                return PendingInvocation(pending.t, pending.sequence, rows)
            case "poll":
                self._polls(event, pending, sequence, ())
            case "assign" | "subscribe":
                self._assign(event, sequence)
        return pending

    def finish(self) -> None:
        """Settle what waited for the end: operations without completion, values polled before they were sent."""
        kind = self.sends.kind
        for pending in self._pending.values():
            for row in pending.rows:
                kind[row] = INFO
        self._pending.clear()
        for partition in self.partitions:
            unknown = partition.unknown_reads
            partition.unknown_reads = []
            for read in unknown:
                row = partition.writers.get(read.value, -1)
                if row < 0:
                    partition.unknown_reads.append(read)
                else:
                    self._see(partition, row, read)
                    self.read_edges.append((row, read.reader))

    def _send(self, event: Operation, step: object, sequence: int) -> int:
        """Make the row of one send of an invocation (or of a completion that had none)."""
        assert isinstance(step, list) and isinstance(step[1], str) and isinstance(step[2], int)
        partition = self.partition(step[1])
        row = self.sends.add(
            partition=partition.index,
            value=step[2],
            process=event.process,
            op=event.op,
            transactional=event.f == "txn",
            t=event.t,
            sequence=sequence,
            floor=partition.offset_max if sequence >= 0 else NOWHERE,
        )
        partition.writers[step[2]] = row
        return row

    def _complete_sends(self, event: Ok | Fail | Info, pending: PendingInvocation, sequence: int) -> tuple[int, ...]:
        """Set outcome and returned offsets of the operation's rows."""
        sends = self.sends
        outcome = OK if isinstance(event, Ok) else FAIL if isinstance(event, Fail) else INFO
        if outcome == OK and event.f == "txn" and event.committed is False:
            outcome = FAIL  # it ended as it wished, by an abort: its values must never be seen
        rows = list(pending.rows)
        for row in rows:
            # A step that is missing in the completion was possibly never executed; only a failure is certain.
            sends.kind[row] = FAIL if outcome == FAIL else INFO
            sends.completed[row] = event.t
        for step in event.value:
            if not _is_send(step):
                continue
            assert isinstance(step, list) and isinstance(step[1], str) and isinstance(step[2], int)
            partition = self.partition(step[1])
            row = partition.writers.get(step[2], -1)
            if row < 0 or sends.op[row] != event.op:
                row = self._send(event, step, -1)
                rows.append(row)
                sends.completed[row] = event.t
            sends.kind[row] = outcome
            offset = step[3] if len(step) > 3 else None
            if outcome == OK:
                sends.completed_sequence[row] = sequence
            if isinstance(offset, int) and offset >= 0 and outcome != FAIL:
                self._acknowledge(partition, row, offset, event.t)
            elif outcome == OK and len(step) > 3:
                self.without_offset.append(row)
        if event.error is not None:
            self.errors.update((row, event.error) for row in rows)
        return tuple(rows)

    def _acknowledge(self, partition: Partition, row: int, offset: int, t: float) -> None:
        """Store the returned offset of a send."""
        sends = self.sends
        sends.acked_offset[row] = offset
        if sends.read_offset[row] not in (NOWHERE, offset):
            partition.elsewhere.add((row, sends.read_offset[row]))
        if sends.kind[row] == OK:
            partition.know(offset, t)

    def _complete_transaction(self, event: Ok | Fail | Info, rows: tuple[int, ...]) -> None:
        """Store the outcome of a txn that sent something."""
        if event.ended is not None:
            self.ended[event.op] = event.ended
        if rows:
            outcome = self.sends.kind[rows[0]]
            self.transactions.append(Transaction(event.op, event.process, event.t, outcome, rows))

    def _assign(self, event: Ok | Fail | Info, sequence: int) -> None:
        """Keep the positions of partitions that stay assigned; a failed assign changes nothing."""
        if isinstance(event, Fail):
            return
        session = self._session(event.process)
        names = [name for name in event.value if isinstance(name, str)]
        kept = frozenset(self.partition(name).index for name in names)
        session.assign(kept, subscribed=event.f == "subscribe", rewound=event.seek_to_beginning)
        self.resets.append(Reset(sequence, event.process, kept))
        if event.final:
            self.final_reads = True
            if event.seek_to_beginning:
                for index in kept:
                    self.partitions[index].final_from_start = True

    def _session(self, process: int) -> Session:
        session = self.sessions.get(process)
        if session is None:
            session = self.sessions[process] = Session(self.promises(process).isolation == "read_committed")
        return session

    def _polls(self, event: Ok | Fail | Info, pending: PendingInvocation, sequence: int, sent: tuple[int, ...]) -> None:
        """Process all records that an operation polled."""
        session = self._session(event.process)
        ok = isinstance(event, Ok)
        flags = 0
        if ok:
            flags = READ_OK | (READ_COMMITTED if session.read_committed else 0) | (READ_FINAL if event.final else 0)
            if event.final:
                self.final_reads, self.final_t = True, event.t
        reader = Reader(event.op, event.process, pending.sequence, sequence, event.t, ok, event.f == "txn")
        visit = PollContext(reader, len(self.readers), pending.t, flags, frozenset(sent))
        last: dict[int, int] = {}
        moved = frozenset(event.rebalance)
        edges_before = len(self.read_edges)
        unknown = False
        for step in event.value:
            if not isinstance(step, list) or step[0] != "poll" or len(step) < 2 or not isinstance(step[1], dict):
                continue
            for name, records in step[1].items():
                if records:
                    unknown |= self._poll(self.partition(name), records, session, visit, last, name in moved)
        if ok:
            session.advance(last, pending.t, self.partitions)
        if len(self.read_edges) > edges_before or unknown:
            self.readers.append(reader)

    def _poll(
        self,
        partition: Partition,
        records: list[list[int]],
        session: Session,
        visit: "PollContext",
        last: dict[int, int],
        moved: bool,
    ) -> bool:
        """Process one partition's records of one poll; return whether it contains a value of no known send."""
        sends = self.sends
        writers, read_offset, seen, last_read = partition.writers, sends.read_offset, sends.read_flags, sends.last_read
        completed_sequence, transactional, dependent = (
            sends.completed_sequence,
            sends.transactional,
            visit.reader.transactional,
        )
        flags, reader, began = visit.flags, visit.reader, visit.reader.invoked_sequence
        there = where_first(flags)
        inside = partition.index in last
        position = last[partition.index] if inside else session.positions.get(partition.index, NOWHERE)
        since = session.since.get(partition.index, 0.0)
        unknown = False
        for record in records:
            offset, value = record[0], record[1]
            if offset != position + 1 and position != NOWHERE and not (inside and moved):
                partition.steps.append(
                    Step(position, offset, reader.process, reader.op, since, reader.t, inside, session.subscribed)
                )
            position = offset
            inside = True
            row = writers.get(value, -1)
            if row < 0:
                unknown = True
                epoch = record[2] if len(record) > 2 else -1
                partition.unknown_reads.append(
                    UnknownRead(offset, value, epoch, reader.op, reader.process, visit.t, reader.t, visit.number, flags)
                )
                continue
            if read_offset[row] != offset:
                self._see_elsewhere(partition, row, offset, record, visit)
            seen[row] |= there if read_offset[row] == offset else flags
            last_read[row] = visit.t
            if (dependent or transactional[row]) and completed_sequence[row] > began:
                self.read_edges.append((row, visit.number))
            if transactional[row] and flags & READ_COMMITTED and row not in self.committed_reads:
                self.committed_reads[row] = (reader.t, reader.op)
            if row in visit.sent:
                self.own_reads.append(OwnRead(row, offset, reader.op, reader.t))
        last[partition.index] = position
        self.records_read += len(records)
        partition.read_count += len(records)
        if flags & READ_OK:
            partition.know(position, reader.t)
            partition.read_max = max(partition.read_max, position)
            if flags & READ_FINAL and position > partition.final_max:
                partition.final_max = position
                partition.final_t = reader.t
        return unknown

    def _see_elsewhere(
        self, partition: Partition, row: int, offset: int, record: list[int], visit: "PollContext"
    ) -> None:
        """Note where a value was polled: for the first time, or at one more offset."""
        sends, reader = self.sends, visit.reader
        if sends.read_offset[row] != NOWHERE:
            partition.elsewhere.add((row, offset))
            if visit.flags & READ_FINAL:
                partition.final_elsewhere.setdefault((row, offset), reader.t)
            return
        sends.read_offset[row] = offset
        sends.first_read[row] = reader.t
        sends.first_reader[row] = reader.op
        sends.epoch[row] = record[2] if len(record) > 2 else -1
        if sends.acked_offset[row] not in (NOWHERE, offset):
            partition.elsewhere.add((row, offset))

    def _see(self, partition: Partition, row: int, read: UnknownRead) -> None:
        """Store a poll whose line precedes the line of the send of its value."""
        sends = self.sends
        if sends.read_offset[row] == NOWHERE:
            sends.read_offset[row] = read.offset
            sends.first_read[row] = read.t
            sends.first_reader[row] = read.op
            sends.epoch[row] = read.epoch
        elif sends.read_offset[row] != read.offset:
            partition.elsewhere.add((row, read.offset))
            if read.flags & READ_FINAL:
                partition.final_elsewhere.setdefault((row, read.offset), read.t)
        if sends.acked_offset[row] not in (NOWHERE, read.offset):
            partition.elsewhere.add((row, read.offset))
        sends.read_flags[row] |= where_first(read.flags) if sends.read_offset[row] == read.offset else read.flags
        if sends.transactional[row] and read.flags & READ_COMMITTED:
            first = self.committed_reads.get(row, (NEVER, -1))
            self.committed_reads[row] = min(first, (read.t, read.op))
        sends.last_read[row] = max(sends.last_read[row], read.began)


class PollContext(NamedTuple):
    """Common values of all records of one polling operation."""

    reader: Reader
    number: int
    t: float
    flags: int
    sent: frozenset[int]


def where_first(flags: int) -> int:
    """Return the flags of a poll for a value that it met where that was polled first."""
    return flags | FINAL_THERE if flags & READ_FINAL else flags


def _is_send(step: object) -> bool:
    return isinstance(step, list) and len(step) >= 3 and step[0] == "send"
