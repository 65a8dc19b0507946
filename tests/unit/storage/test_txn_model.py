"""A log with transactions against a list of batches: what read_committed shows, whatever happens to log and disk.

The model knows of each batch its producer and, once the marker is there, its fate. A reader must be shown exactly the
records outside transactions and those of committed ones, up to the last stable offset, from any offset and in pieces of
any size; after restarts, crashes that take what was not synced, cuts, deleted segments and damaged indexes.
"""

import contextlib
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvorum.protocol.batch_header import BatchHeader, parse_header
from kvorum.protocol.control import marker
from kvorum.protocol.records import decode_records
from kvorum.storage.log import Log
from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_flush import FlushPlan
from kvorum.storage.names import TXN_INDEX_SUFFIX
from kvorum.storage.producer_replay import end_marker
from kvorum.storage.producer_state import Origin
from kvorum.storage.recovery import OpenOptions
from sim.disk import PowerLoss
from tests.unit.storage.kit import FOLDER, NOW_MS, StillClock, batch, new_disk, open_test_log, small_config
from tests.unit.storage.txn_kit import read_committed, read_committed_all, transactional

STEPS = st.tuples(
    st.sampled_from(["plain", "transactional", "transactional", "transactional", "end", "end", "replicate"]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
)
"""What is done, by which producer, a number with a meaning of its own for each, and whether as a follower."""
BACK = st.integers(0, 12)
"""Counted from the end: most that is cut is a transaction's last batches, or its marker."""


class Known:
    """What the model makes of the batches: who is within a transaction since when, and the fate of each offset."""

    def __init__(self, written: list[bytes]) -> None:
        self.open: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.ended: list[tuple[int, int]] = []
        """First offset and marker of each transaction that ended."""
        self.plain: list[tuple[int, bytes | None]] = []
        self.committed: list[tuple[int, bytes | None]] = []
        undecided: dict[int, list[tuple[int, bytes | None]]] = {}
        for data in written:
            header = parse_header(data)
            producer_id = header.producer_id
            records = [(each.offset, each.value) for each in decode_records(memoryview(data))]
            if header.has_producer_id:
                if header.producer_epoch != self.epochs.get(producer_id):
                    self.sequences[producer_id] = 0
                self.epochs[producer_id] = header.producer_epoch
            if header.is_control:
                found = end_marker(memoryview(data), 0)
                assert found is not None
                records = undecided.pop(producer_id, [])
                if producer_id in self.open:
                    self.ended.append((self.open.pop(producer_id), header.base_offset))
                if not found.is_aborted:
                    self.committed += records
            elif header.is_transactional:
                self.open.setdefault(producer_id, header.base_offset)
                undecided.setdefault(producer_id, []).extend(records)
                self.sequences[producer_id] = header.last_sequence + 1
            else:
                self.plain += records

    def visible(self, start: int, end: int) -> list[tuple[int, bytes | None]]:
        return sorted(each for each in (*self.plain, *self.committed) if start <= each[0] < end)

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = [*self.open.values(), *(first for first, last in self.ended if last >= high_watermark)]
        return min([high_watermark, *unstable])


class TransactionMachine(RuleBasedStateMachine):
    """The model is `written`: the bytes of each batch, in order. Appended as a leader's or as a follower's."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.config: LogConfig = small_config(segment_bytes=700, retention_ms=-1)
        self.disk = new_disk(seed)
        self.rng = random.Random(seed)
        self.clock = StillClock()
        self.written: list[bytes] = []
        self.checkpoint = self.checkpointed_start = 0
        self.names = 0
        self.plan: FlushPlan | None = None
        self.log: Log = self.open()

    def open(self, is_clean: bool = False) -> Log:
        self.plan = None
        options = OpenOptions(
            recovery_point=self.checkpoint, log_start_offset=self.checkpointed_start, is_clean=is_clean
        )
        return open_test_log(self.disk, self.config, clock=self.clock, options=options)

    @property
    def known(self) -> Known:
        return Known(self.written)

    @property
    def known_of_kept(self) -> Known:
        """What the batches tell of which a record is left: what only the others told need not be remembered."""
        return Known([data for data in self.written if parse_header(data).last_offset >= self.log.log_start_offset])

    @property
    def end_offset(self) -> int:
        return parse_header(self.written[-1]).next_offset if self.written else 0

    def values(self, count: int) -> list[bytes]:
        self.names += 1
        return [b"value %d %d" % (self.names, index) for index in range(count)]

    def take(self, data: memoryview, as_follower: bool, producer_id: int | None, version: int = 0) -> None:
        """Append, in either role; the bytes are patched to what lies in the log."""
        header = parse_header(data)
        if as_follower:
            self.log.append_as_follower(data, 0)
        elif header.is_control:
            self.log.append_as_leader(data, 0, Origin.COORDINATOR, transaction_version=version)
        elif producer_id is None:
            self.log.append_as_leader(data, 0)
        else:
            guard = self.log.begin_verification(producer_id, header.producer_epoch, header.base_sequence)
            assert producer_id in self.known.open if guard is None else producer_id not in self.known_of_kept.open
            self.log.append_as_leader(data, 0, guard=guard)
        self.written.append(bytes(data))

    # What is written

    @rule(steps=st.lists(STEPS, min_size=3, max_size=12))
    def write(self, steps: list[tuple[str, int, int, bool]]) -> None:
        for kind, producer_id, number, as_follower in steps:
            if kind == "plain":
                self.append_plain(number, as_follower)
            elif kind == "transactional":
                self.append_transactional(number, producer_id, as_follower)
            elif kind == "end":
                self.end(producer_id, number == 1, as_follower, version=2 if number == 3 else 0)
            else:
                self.replicate(number / 3)

    def append_plain(self, count: int, as_follower: bool) -> None:
        fields = {"base_offset": self.end_offset if as_follower else 0, "partition_leader_epoch": 0}
        self.take(batch(*self.values(count), timestamp=NOW_MS, **fields), as_follower, None)

    def append_transactional(self, count: int, producer_id: int, as_follower: bool) -> None:
        known = self.known
        data = transactional(
            *self.values(count),
            sequence=self.next_sequence(producer_id, known),
            producer_id=producer_id,
            epoch=known.epochs.get(producer_id, 0),
            base_offset=self.end_offset if as_follower else 0,
            leader_epoch=0,
        )
        self.take(data, as_follower, producer_id)

    def next_sequence(self, producer_id: int, known: Known) -> int:
        """What the log wants next: where all that a producer wrote was deleted, a crash may forget the number."""
        entry = self.log.producer_state.producers.get(producer_id)
        if entry is not None and not entry.batches:
            return 0
        return known.sequences.get(producer_id, 0)

    def end(self, producer_id: int, is_commit: bool, as_follower: bool, version: int) -> None:
        """End a transaction, or none; with transaction.version 2 the marker's epoch is one more."""
        epoch = self.known.epochs.get(producer_id, 0) + (version == 2)
        data = memoryview(
            marker(producer_id, epoch, is_commit=is_commit, coordinator_epoch=1, timestamp=self.clock.now_ms)
        )
        if as_follower:
            data[0:8] = self.end_offset.to_bytes(8, "big")
            data[12:16] = bytes(4)
        self.take(data, as_follower, producer_id, version)

    def replicate(self, place: float) -> None:
        """Move the high watermark up, to the end of some batch."""
        ends = [parse_header(data).next_offset for data in self.written]
        ahead = [offset for offset in ends if offset > self.log.high_watermark]
        if ahead:
            self.log.high_watermark = ahead[int(place * (len(ahead) - 1))]

    # What is synced, rolled, dropped and cut

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @precondition(lambda self: getattr(self, "plan", None) is None)
    @rule(include_active=st.booleans())
    def begin_flush(self, include_active: bool) -> None:
        self.plan = self.log.begin_flush(include_active=include_active)

    @precondition(lambda self: getattr(self, "plan", None) is not None)
    @rule()
    def finish_flush(self) -> None:
        assert self.plan is not None
        self.plan.run()
        self.log.complete_flush(self.plan)
        self.plan = None

    @rule()
    def checkpoint_offsets(self) -> None:
        self.checkpoint = self.log.recovery_point
        self.checkpointed_start = self.log.log_start_offset

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(back=BACK)
    def delete_records(self, back: int) -> None:
        offset = self.log.high_watermark - back
        if offset >= self.log.log_start_offset:
            self.log.maybe_increment_log_start_offset(offset)
        self.log.delete_old_segments(self.clock.now_ms)
        self.log.purge_deleted(self.clock.now_ms + 60_000)

    @rule(back=BACK)
    def truncate(self, back: int) -> None:
        offset = self.end_offset - back
        if offset >= self.log.log_start_offset:
            self.log.truncate_to(offset)
            self.cut(offset)

    def cut(self, offset: int) -> None:
        self.written = [data for data in self.written if parse_header(data).last_offset < offset]

    @rule()
    def days_pass(self) -> None:
        """Idle producers expire; transactions do not."""
        self.clock.now_ms += 2 * 86_400_000
        self.log.producers.expire(self.clock.now_ms)

    # What ends a process

    @rule(damage=st.booleans())
    def restart_cleanly(self, damage: bool) -> None:
        """With a transaction index damaged while nobody looked."""
        if self.plan is not None:
            self.finish_flush()
        self.log.close()
        self.checkpoint, self.checkpointed_start = self.log.recovery_point, self.log.log_start_offset
        names = [name for name in self.disk.listdir(FOLDER) if name.endswith(TXN_INDEX_SUFFIX)]
        if damage and names:
            path = f"{FOLDER}/{self.rng.choice(names)}"
            data = bytearray(self.disk.read(path))
            self.disk.write_atomic(path, bytes(data[:-1]) or b"x")
        self.log = self.open(is_clean=True)
        self.log.high_watermark = self.end_offset

    @rule(is_power_cut=st.booleans())
    def die(self, is_power_cut: bool) -> None:
        """By kill -9, which costs nothing that was written, or by the loss of power."""
        if is_power_cut:
            self.disk.crash()
        self.log = self.open()
        begins_anew = self.log.log_end_offset == self.log.log_start_offset
        assert is_power_cut or begins_anew or self.log.log_end_offset == self.end_offset
        self.after_crash()

    @rule(steps=st.integers(0, 12), kind=st.sampled_from(["flush", "roll", "close", "open"]))
    def cut_power_within(self, steps: int, kind: str) -> None:
        if self.plan is not None:
            self.finish_flush()
        self.disk.power(steps)
        with contextlib.suppress(PowerLoss):
            {"flush": self.log.flush, "roll": self.log.roll, "close": self.log.close, "open": self.open}[kind]()
        self.disk.power(None)
        self.disk.crash()
        self.log = self.open()
        self.after_crash()

    @rule(steps=st.integers(0, 12), back=BACK)
    def cut_power_within_truncation(self, steps: int, back: int) -> None:
        offset = self.end_offset - back
        if offset < self.log.log_start_offset:
            return
        self.disk.power(steps)
        with contextlib.suppress(PowerLoss):
            self.log.truncate_to(offset)
        self.disk.power(None)
        self.disk.crash()
        self.log = self.open()
        self.after_crash()

    def after_crash(self) -> None:
        self.cut(self.log.log_end_offset)
        if self.end_offset < self.log.log_end_offset:
            # The log ended before its start, and begins anew there.
            assert self.log.log_start_offset == self.log.log_end_offset
            self.written = [bytes(batch(b"deleted", base_offset=self.log.log_end_offset - 1))]
        self.log.high_watermark = self.end_offset

    # What must always hold

    @invariant()
    def the_last_stable_offset_is_right(self) -> None:
        if not hasattr(self, "log"):
            return
        log, start = self.log, self.log.log_start_offset
        wanted = max(self.known.last_stable_offset(log.high_watermark), start)
        wanted_at_most = max(self.known_of_kept.last_stable_offset(log.high_watermark), start)
        assert wanted <= log.last_stable_offset <= wanted_at_most

    @invariant()
    def committed_is_shown_and_nothing_else(self) -> None:
        if hasattr(self, "log"):
            wanted = self.known.visible(self.log.log_start_offset, self.log.last_stable_offset)
            assert read_committed_all(self.log) == wanted

    @precondition(lambda self: hasattr(self, "log") and self.log.log_start_offset < self.log.last_stable_offset)
    @rule(place=st.floats(0, 1), max_bytes=st.integers(1, 1500))
    def read(self, place: float, max_bytes: int) -> None:
        """From the middle, and in pieces."""
        start, stable = self.log.log_start_offset, self.log.last_stable_offset
        offset = start + int(place * (stable - start - 1))
        assert read_committed_all(self.log, offset, max_bytes) == self.known.visible(offset, stable)

    @precondition(lambda self: hasattr(self, "log") and self.log.log_start_offset < self.log.last_stable_offset)
    @rule(place=st.floats(0, 1))
    def a_read_is_told_no_more_than_it_needs(self, place: float) -> None:
        """Beyond an index interval no aborted transaction is told of that does not reach into what was read."""
        start, stable = self.log.log_start_offset, self.log.last_stable_offset
        offset = start + int(place * (stable - start - 1))
        info = self.log.read(offset, 1, stable)
        _, end = read_committed(self.log, offset, 1)
        for each in self.log.aborted_transactions(offset, info.parts):
            assert each.last_offset >= offset
            assert self.bytes_between(end, each.first_offset) <= 3 * self.config.index_interval_bytes

    def bytes_between(self, start: int, end: int) -> int:
        def is_between(header: BatchHeader) -> bool:
            return start <= header.base_offset and header.last_offset < end

        return sum(len(data) for data in self.written if is_between(parse_header(data)))


TransactionMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
TestTransactions = TransactionMachine.TestCase
