"""A log against a list of batches, under every operation, kill -9, and the loss of all that was not synced.

After a kill nothing may be missing. After a power cut the log must be a prefix of what was written, not shorter than
its recovery point said, with the leader epochs and the producers that belong to exactly these batches. A power cut may
also come in the middle of an operation, which then has happened or not.
"""

import contextlib
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvorum.protocol.batch_header import BatchHeader, parse_header
from kvorum.protocol.compression import Codec
from kvorum.storage import durable_length
from kvorum.storage.epoch_cache import EpochCache, EpochEntry
from kvorum.storage.log import Log
from kvorum.storage.log_flush import FlushPlan
from kvorum.storage.producer_state import BATCHES_KEPT, BatchMetadata
from kvorum.storage.recovery import OpenOptions
from sim.disk import PowerLoss
from tests.unit.storage.kit import (
    NOW_MS,
    StillClock,
    batch,
    idempotent,
    joined,
    new_disk,
    open_test_log,
    read_all,
    small_config,
)

offsets = st.integers(0, 200)


class LogMachine(RuleBasedStateMachine):
    """The model is `written`: the bytes of each batch, in order."""

    @initialize(seed=st.integers(0, 2**32), preallocate=st.booleans())
    def begin(self, seed: int, preallocate: bool) -> None:
        self.config = small_config(preallocate=preallocate)
        self.disk = new_disk(seed)
        self.rng = random.Random(seed)
        self.clock = StillClock()
        self.written: list[bytes] = []
        self.starts: list[EpochEntry] = []
        """Epoch starts without a record yet: lost in a crash, and that is fine."""
        self.base_offset = 0
        self.log_start_offset = 0
        self.epoch = 0
        self.sequence: dict[int, int] = {}
        self.checkpoint = 0
        self.checkpointed_start = 0
        self.plan: FlushPlan | None = None
        self.log: Log = self.open()

    def open(self, is_clean: bool = False) -> Log:
        self.plan = None
        options = OpenOptions(
            recovery_point=self.checkpoint, log_start_offset=self.checkpointed_start, is_clean=is_clean
        )
        return open_test_log(self.disk, self.config, clock=self.clock, options=options)

    # What is written

    @property
    def headers(self) -> list[BatchHeader]:
        return [parse_header(data) for data in self.written]

    @property
    def end_offset(self) -> int:
        return self.headers[-1].next_offset if self.written else self.base_offset

    def note(self, data: memoryview) -> None:
        self.written.append(bytes(data))

    @rule(count=st.integers(1, 5), size=st.sampled_from([1, 40, 150]), codec=st.sampled_from(list(Codec)))
    def append(self, count: int, size: int, codec: Codec) -> None:
        self.clock.now_ms += 1
        data = batch(*[self.rng.randbytes(size) for _ in range(count)], timestamp=self.clock.now_ms, codec=codec)
        info = self.log.append_as_leader(data, self.epoch)
        assert (info.first_offset, info.last_offset) == (self.end_offset, self.end_offset + count - 1)
        self.note(data)

    @rule(count=st.integers(1, 3), producer_id=st.integers(1, 3))
    def append_idempotent(self, count: int, producer_id: int) -> None:
        sequence = self.sequence.get(producer_id, 0)
        data = idempotent(sequence, count, producer_id, timestamp=self.clock.now_ms)
        self.log.append_as_leader(data, self.epoch)
        self.note(data)
        self.sequence[producer_id] = sequence + count

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=6), torn=st.integers(0, 60))
    def append_as_follower(self, counts: list[int], torn: int) -> None:
        offset, fetched = self.end_offset, b""
        for count in counts:
            data = batch(*[b"x" * 50] * count, base_offset=offset, partition_leader_epoch=self.epoch)
            offset += count
            fetched += bytes(data)
            self.note(data)
        cut = bytes(batch(b"y" * 50, base_offset=offset, partition_leader_epoch=self.epoch))[:torn]
        self.log.append_as_follower(memoryview(fetched + cut), self.epoch)

    @rule(step=st.integers(1, 2))
    def new_epoch(self, step: int) -> None:
        self.epoch += step
        self.log.assign_epoch_start_offset(self.epoch, self.end_offset)
        self.starts.append(EpochEntry(self.epoch, self.end_offset))

    # What is synced, rolled, dropped and cut

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.plan is not None or self.log.recovery_point == self.end_offset

    @precondition(lambda self: getattr(self, "plan", None) is None)
    @rule()
    def flush_inactive(self) -> None:
        plan = self.log.begin_flush(include_active=False)
        plan.run()
        self.log.complete_flush(plan)

    @precondition(lambda self: getattr(self, "plan", None) is None)
    @rule()
    def begin_flush(self) -> None:
        """As the log manager does: the plan runs in a thread while the log goes on."""
        self.plan = self.log.begin_flush()

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

    @rule(offset=offsets)
    def delete_records(self, offset: int) -> None:
        self.log.high_watermark = self.end_offset
        if offset <= self.end_offset:
            self.log.maybe_increment_log_start_offset(offset)
            self.log_start_offset = max(self.log_start_offset, offset)
        self.log.delete_old_segments(self.clock.now_ms)
        self.log.purge_deleted(self.clock.now_ms + 60_000)

    @rule(offset=offsets)
    def truncate(self, offset: int) -> None:
        if offset < self.log_start_offset:
            return
        was_cut = self.log.truncate_to(offset)
        assert was_cut == (offset < self.end_offset)
        self.cut(offset)

    def cut(self, offset: int) -> None:
        end_offset = self.end_offset
        self.written = [data for data in self.written if parse_header(data).last_offset < offset]
        known_until = offset if offset >= end_offset else self.end_offset
        self.starts = [start for start in self.starts if start.start_offset < known_until]
        self.restore_sequences()

    def restore_sequences(self) -> None:
        self.sequence = {}
        for header in self.headers:
            if header.has_producer_id:
                self.sequence[header.producer_id] = header.last_sequence + 1
        self.epoch = max([self.epoch, *[header.partition_leader_epoch for header in self.headers]])

    @rule(offset=offsets)
    def start_anew(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.written, self.starts, self.sequence = [], [], {}
        self.base_offset = self.log_start_offset = offset
        self.checkpointed_start = 0

    # What ends a process

    @rule()
    def restart_cleanly(self) -> None:
        if self.plan is not None:
            self.finish_flush()
        self.log.close()
        self.checkpoint, self.checkpointed_start = self.log.recovery_point, self.log.log_start_offset
        self.log = self.open(is_clean=True)
        self.starts = [start for start in self.starts if start.start_offset < self.end_offset]

    @rule()
    def kill(self) -> None:
        """kill -9: the page cache stays, so nothing that was written may be missing."""
        self.log = self.open()
        assert self.log.log_end_offset == self.end_offset
        self.after_crash()

    @rule()
    def cut_power(self) -> None:
        durable = self.log.recovery_point
        self.disk.crash()
        self.log = self.open()
        assert durable <= self.log.log_end_offset <= self.end_offset
        self.cut(self.log.log_end_offset)
        self.after_crash()

    @rule(steps=st.integers(0, 12), is_power_cut=st.booleans())
    def cut_power_within_recovery(self, steps: int, is_power_cut: bool) -> None:
        """The start after a crash ends in a crash."""
        durable = self.log.recovery_point
        if is_power_cut:
            self.disk.crash()
        self.disk.power(steps)
        with contextlib.suppress(PowerLoss):
            self.open()
        self.disk.power(None)
        self.disk.crash()
        self.log = self.open()
        assert durable <= self.log.log_end_offset <= self.end_offset
        self.cut(self.log.log_end_offset)
        self.after_crash()

    @rule(steps=st.integers(0, 8), kind=st.sampled_from(["append", "flush", "roll", "close"]))
    def cut_power_within(self, steps: int, kind: str) -> None:
        """The power goes in the middle of something: of an append any part may be there."""
        if self.plan is not None:
            self.finish_flush()
        durable = self.log.recovery_point
        data = batch(b"z" * 400, timestamp=self.clock.now_ms)
        self.disk.power(steps)
        try:
            if kind == "append":
                self.log.append_as_leader(data, self.epoch)
            else:
                {"flush": self.log.flush, "roll": self.log.roll, "close": self.log.close}[kind]()
        except PowerLoss:
            pass
        self.disk.power(None)
        if kind == "append":
            self.note(data)
        self.disk.crash()
        self.log = self.open()
        assert durable <= self.log.log_end_offset <= self.end_offset
        self.cut(self.log.log_end_offset)
        self.after_crash()

    @rule(steps=st.integers(0, 12), offset=offsets)
    def cut_power_within_truncation(self, steps: int, offset: int) -> None:
        """A truncation under which the power goes has happened, or not, or something between."""
        if not self.log_start_offset <= offset <= self.end_offset:
            return
        durable = min(self.log.recovery_point, offset)
        kept = [data for data in self.written if parse_header(data).last_offset < durable]
        self.disk.power(steps)
        with contextlib.suppress(PowerLoss):
            self.log.truncate_to(offset)
        self.disk.power(None)
        self.disk.crash()
        self.log = self.open()
        assert self.log.log_end_offset <= self.end_offset
        assert self.log.log_end_offset >= (parse_header(kept[-1]).next_offset if kept else self.log.log_start_offset)
        self.cut(self.log.log_end_offset)
        self.after_crash()

    @rule(steps=st.integers(0, 15), offset=offsets)
    def cut_power_within_starting_anew(self, steps: int, offset: int) -> None:
        """The log is then empty at the new offset, or still a prefix of what it was."""
        before = list(self.written)
        self.disk.power(steps)
        with contextlib.suppress(PowerLoss):
            self.log.truncate_fully_and_start_at(offset)
        self.disk.power(None)
        self.disk.crash()
        self.checkpointed_start = 0
        self.log = self.open()
        self.written = [data for data in before if parse_header(data).last_offset < self.log.log_end_offset]
        if not self.written or self.end_offset != self.log.log_end_offset:
            self.written = []
            assert self.log.log_start_offset == self.log.log_end_offset
        self.base_offset = self.log_start_offset = self.log.log_start_offset
        self.starts = []
        self.restore_sequences()

    def after_crash(self) -> None:
        """Catch up with what a crash may change besides the end.

        The log start falls back to what checkpoint and segment names tell. A log that ends before it begins anew there.
        """
        self.starts = []
        assert self.log.log_start_offset <= max(self.log_start_offset, self.checkpointed_start)
        self.log_start_offset = self.log.log_start_offset
        if self.end_offset < self.log_start_offset or not self.written:
            self.written, self.sequence = [], {}
            self.base_offset = self.log_start_offset

    # What must always hold

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.log_end_offset == self.end_offset
        assert log.recovery_point <= log.log_end_offset
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        written = durable_length.read(self.disk, log.folder)
        assert written is None or written.recovery_point == log.recovery_point

    @invariant()
    def batches_agree(self) -> None:
        if hasattr(self, "log"):
            wanted = [data for data in self.written if parse_header(data).next_offset > self.log.log_start_offset]
            assert read_all(self.log) == b"".join(wanted)

    @precondition(lambda self: hasattr(self, "log") and self.log.log_start_offset < self.end_offset)
    @rule(place=st.floats(0, 1), max_bytes=st.integers(1, 2000), bound=st.floats(0, 1))
    def read(self, place: float, max_bytes: int, bound: float) -> None:
        first = self.log.log_start_offset
        offset = first + int(place * (self.end_offset - first - 1))
        bound_offset = offset + int(bound * (self.end_offset - offset))
        info = self.log.read(offset, max_bytes, bound_offset)
        data = joined(info.parts)
        start = next(i for i, header in enumerate(self.headers) if header.last_offset >= offset)
        whole = b"".join(self.written[start:])
        assert whole.startswith(data)
        if self.headers[start].next_offset > bound_offset:
            assert not data
        else:
            assert len(data) >= self.headers[start].size
            assert len(data) <= max(max_bytes, self.headers[start].size)
            if data:
                ends = [header.next_offset for header in self.headers[start:]]
                sizes = [len(batch_bytes) for batch_bytes in self.written[start:]]
                count = next(n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) == len(data))
                assert ends[count - 1] <= bound_offset

    @precondition(lambda self: hasattr(self, "log"))
    @rule(delta=st.integers(-1, 30))
    def find_timestamp(self, delta: int) -> None:
        timestamp = NOW_MS + delta
        candidates = [h for h in self.headers if h.max_timestamp >= timestamp]
        found = self.log.offset_for_timestamp(timestamp)
        readable = [h for h in candidates if h.last_offset >= self.log.log_start_offset]
        if not readable:
            assert found is None
        else:
            # Every record of a batch has the same timestamp here.
            assert found is not None
            assert found.offset == max(readable[0].base_offset, self.log.log_start_offset)
            assert found.leader_epoch == readable[0].partition_leader_epoch

    @invariant()
    def epochs_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        cache = EpochCache()
        events = [(h.base_offset, 1, h.partition_leader_epoch) for h in self.headers]
        events += [(start.start_offset, 0, start.epoch) for start in self.starts]
        for offset, _, epoch in sorted(events):
            cache.assign(epoch, offset)
        cache.truncate_from_start(self.log.log_start_offset)
        found = self.log.epoch_cache.entries
        recorded = [entry for entry in cache.entries if entry.start_offset < self.end_offset]
        assert found[: len(recorded)] == recorded
        # What starts at the end, without a record yet, may be forgotten in a restart. An empty log keeps its last
        # epoch, that of a lost record, too: the leader of that epoch had the same records before its start.
        unknown = set(found[len(recorded) :]) - set(cache.entries)
        if not recorded and self.log.segment_count == 1:
            unknown = {each for each in unknown if each.start_offset != self.end_offset or each.epoch > self.epoch}
        assert not unknown, (found, cache.entries)

    @invariant()
    def producers_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        state = self.log.producer_state
        assert state.end_offset == self.end_offset
        for producer_id, entry in state.producers.items():
            written = [h for h in self.headers if h.producer_id == producer_id]
            kept = [
                BatchMetadata(h.last_sequence, h.last_offset, h.last_offset_delta, h.max_timestamp) for h in written
            ]
            assert kept[-1:] == list(entry.batches)[-1:]
            assert list(entry.batches) == kept[-len(entry.batches) :]
            assert len(entry.batches) <= BATCHES_KEPT
        for header in self.headers:
            if header.has_producer_id and header.base_offset >= self.log.log_start_offset:
                assert header.producer_id in state.producers


LogMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
TestLog = LogMachine.TestCase


def test_producers_from_before_a_log_restart_do_not_return_after_a_power_failure() -> None:
    """The clean stop writes a snapshot at the offset where the log starts again, empty, before the power goes."""
    for seed in range(12):  # what a power loss takes is drawn
        machine = LogMachine()
        machine.begin(seed=seed, preallocate=False)
        machine.append_idempotent(count=1, producer_id=1)
        machine.restart_cleanly()
        machine.start_anew(offset=machine.end_offset)
        machine.cut_power()
        machine.producers_agree()
