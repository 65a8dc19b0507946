"""Writes clients' operations into the history, from any thread, and counts them.

A lock keeps the lines in the order of their times. Values are numbered over the whole run, so each is sent once.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from zlib import crc32

from kvorum.chaos.history import AnyEvent, Fail, HistoryWriter, Info, Invoke, Note, Ok, OperationValue, Process

Completion: TypeAlias = type[Ok] | type[Fail] | type[Info]
VALUE_BYTES: Final = 100
"""Default size of a record's value, padding included."""


@dataclass(frozen=True, slots=True)
class AckedSend:
    """One acknowledged send."""

    partition: str
    invoked: float
    completed: float
    acks: str


@dataclass(slots=True)
class Counts:
    """Counts so far."""

    invoked: Counter[str] = field(default_factory=Counter)
    """By f."""
    completed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By f and "ok", "fail", "info"."""
    errors: Counter[str] = field(default_factory=Counter)
    records_read: int = 0


@dataclass(slots=True)
class _OpenInvocation:
    process: int
    f: str
    value: OperationValue
    t: float
    final: bool


class Recorder:
    """One per run. Thread safe."""

    def __init__(self, history: HistoryWriter, seconds: Callable[[], float] | None = None) -> None:
        """`seconds`: since the run began; a clock that starts now where none is given."""
        began = time.monotonic()
        self.seconds = seconds or (lambda: time.monotonic() - began)
        self.counts = Counts()
        self.acked: list[AckedSend] = []
        """Every acknowledged send, in the order of acknowledgement."""
        self.ends: dict[str, int] = {}
        """{partition: one past the highest acknowledged or polled offset}."""
        self.problems: list[str] = []
        """Problems found by clients that the vocabulary has no event for."""
        self.transactional = False
        """Some process has a transactional id: offsets have holes."""
        self._history = history
        self._lock = threading.RLock()
        self._open: dict[int, _OpenInvocation] = {}
        self._acks: dict[int, str] = {}
        self._op = self._process = self._value = 0

    def write(self, event: Callable[[float], AnyEvent]) -> None:
        """Write an event made for the time it is written at."""
        with self._lock:
            self._history.write(event(self.seconds()))

    def note(self, text: str) -> None:
        """Write a remark."""
        self.write(lambda t: Note(t=t, text=text))

    def problem(self, text: str) -> None:
        """Note something that makes the run a failed one."""
        with self._lock:
            self.problems.append(text)
            self.note(text)

    def process(
        self,
        client: str,
        *,
        acks: str = "all",
        idempotent: bool = True,
        isolation: str = "read_uncommitted",
        transactional_id: str | None = None,
    ) -> int:
        """Record a new process: a client that did not exist before. Return its number."""
        with self._lock:
            self._process += 1
            number = self._process
            self._acks[number] = acks
            self.transactional |= transactional_id is not None
            self.write(
                lambda t: Process(
                    t=t,
                    process=number,
                    client=client,
                    acks=acks,
                    idempotent=idempotent,
                    isolation=isolation,
                    transactional_id=transactional_id,
                )
            )
            return number

    def next_value(self) -> int:
        """Return a value that no other record has."""
        with self._lock:
            self._value += 1
            return self._value

    def invoke(
        self,
        process: int,
        f: str,
        value: OperationValue,
        *,
        final: bool = False,
        seek_to_beginning: bool = False,
        generation: int | None = None,
    ) -> int:
        """An operation begins: call it before anything can leave. Returns its number."""
        with self._lock:
            self._op += 1
            number, t = self._op, self.seconds()
            self._open[number] = _OpenInvocation(process, f, value, t, final)
            self.counts.invoked[f] += 1
            self._history.write(
                Invoke(
                    t=t,
                    op=number,
                    process=process,
                    f=f,
                    value=value,
                    final=final,
                    generation=generation,
                    seek_to_beginning=seek_to_beginning,
                )
            )
            return number

    def complete(
        self,
        op: int,
        kind: Completion,
        value: OperationValue | None = None,
        *,
        error: str | None = None,
        seek_to_beginning: bool = False,
        committed: bool | None = None,
        ended: float | None = None,
        generation: int | None = None,
        rebalance: Sequence[str] = (),
    ) -> None:
        """An operation ends: call it after its answer came. Without a value its own is repeated.

        Late events of a crashed process are left out: its operations are complete.
        """
        with self._lock:
            begun, t = self._open.pop(op, None), self.seconds()
            if begun is None:
                return
            found = begun.value if value is None else value
            self.counts.completed[begun.f, kind.__name__.lower()] += 1
            if error is not None:
                self.counts.errors[error] += 1
            if kind is Ok and committed is not False:
                self._learn(begun, found, t)
            self._history.write(
                kind(
                    t=t,
                    op=op,
                    process=begun.process,
                    f=begun.f,
                    value=found,
                    error=error,
                    final=begun.final,
                    seek_to_beginning=seek_to_beginning,
                    committed=committed,
                    ended=ended,
                    generation=generation,
                    rebalance=list(rebalance),
                )
            )

    def abandon(self, process: int) -> int:
        """Complete all open operations of a process that crashed as `info`; returns how many."""
        with self._lock:
            left = [op for op, begun in self._open.items() if begun.process == process]
            for op in left:
                self.complete(op, Info, error="CRASHED")
            return len(left)

    def _learn(self, begun: _OpenInvocation, value: OperationValue, t: float) -> None:
        for micro in value:
            if not isinstance(micro, list) or not micro:
                continue
            if micro[0] == "send":
                partition = str(micro[1])
                self.acked.append(AckedSend(partition, begun.t, t, self._acks.get(begun.process, "all")))
                if len(micro) > 3 and isinstance(micro[3], int):
                    self._reach(partition, micro[3] + 1)
            elif micro[0] == "poll" and len(micro) > 1 and isinstance(micro[1], dict):
                for partition, records in micro[1].items():
                    self.counts.records_read += len(records)
                    if records:
                        self._reach(partition, records[-1][0] + 1)

    def _reach(self, partition: str, end: int) -> None:
        if end > self.ends.get(partition, 0):
            self.ends[partition] = end


def encode_value(value: int, size: int = VALUE_BYTES) -> bytes:
    """Return the record that carries a value: a JSON object, padded to `size` bytes where it is shorter."""
    head = json.dumps({"v": value, "pad": ""}, separators=(",", ":"))
    padding = max(0, size - len(head))
    return f'{head[:-2]}{"x" * padding}"}}'.encode()


def decode_value(data: bytes | None) -> int:
    """Return the value a record carries; of bytes that no workload sent a negative number, which the checker knows.

    A damaged record is a finding, and no reason to stop reading.
    """
    try:
        found = json.loads(data or b"null")
    except ValueError:
        found = None
    if isinstance(found, Mapping) and isinstance(value := found.get("v"), int) and value > 0:
        return value
    return -1 - crc32(data or b"")


def split_partition(name: str) -> tuple[str, int]:
    """Return ("orders", 0) for "orders-0"."""
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def partition_names(topics: Mapping[str, int]) -> list[str]:
    """Return the names of all partitions of {topic: how many it has}."""
    return [f"{topic}-{number}" for topic, count in topics.items() for number in range(count)]


def partition_words(names: Sequence[str]) -> OperationValue:
    """Return names as an operation's value."""
    return [*names]
