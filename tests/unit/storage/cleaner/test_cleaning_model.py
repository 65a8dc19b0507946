"""A compacted log against a list of everything ever written, under cleaning, kill -9 and power cuts at any write.

Whatever happens: of each key the last committed value is there; what is there is what was written, at its offset, in
order; what no segment below the high watermark holds is untouched; aborted records that are still there are told of; a
producer's sequence goes on; leader epochs end where they did; reads reach everything, and a follower that reads has the
same. KVORUM_EXAMPLES: how many.
"""

import contextlib
import os
import random
from itertools import pairwise
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvorum.protocol.compression import Codec
from kvorum.protocol.records import batches, decode_records
from kvorum.storage.cleaner.offset_map import SLOT_SIZE
from sim.disk import PowerLoss
from sim.loop import Stuck
from tests.unit.storage.cleaner.kit import Broker, Kept, compacted, end_transaction, names, put, records_of
from tests.unit.storage.kit import joined, read_all

KEYS = [b"a", b"b", b"c", b"d", b"e"]
keys = st.sampled_from(KEYS)
values = st.one_of(st.none(), st.binary(min_size=1, max_size=40))
RETENTION_MS = 100


class Written(NamedTuple):
    """A record as it was written; `producer_id` is that of its transaction, None outside of one."""

    record: Kept
    producer_id: int | None


class CleaningMachine(RuleBasedStateMachine):
    """The model is `written`, and how each transaction ended."""

    @initialize(seed=st.integers(0, 2**32), slots=st.sampled_from([4, 1000]), segment_bytes=st.sampled_from([250, 600]))
    def begin(self, seed: int, slots: int, segment_bytes: int) -> None:
        config = compacted(segment_bytes=segment_bytes, delete_retention_ms=RETENTION_MS, file_delete_delay_ms=50)
        self.broker = Broker(config, seed, **{"log.cleaner.dedupe.buffer.size": slots * SLOT_SIZE})
        self.rng = random.Random(seed)
        self.written: list[Written] = []
        self.end_offset = 0
        self.durable = 0
        self.open: dict[int, int] = {}
        """Where each open transaction began, by producer."""
        self.ended: list[tuple[int, int, int, bool]] = []
        """(producer, first offset, marker's offset, whether it was committed)"""
        self.sequences: dict[int, list[tuple[int, int]]] = {}
        """(last offset, last sequence) of each producer's batches."""
        self.last_epoch = 1
        self.epochs: list[tuple[int, int]] = []
        """(offset, leader epoch) of every batch."""
        self.deleted_to = 0
        """The greatest log start there ever was: a crash may take the newest ones back."""
        self.committed = 0
        """The greatest high watermark there ever was, as far as the log still reaches: no truncation goes below."""

    # Writing

    def add(
        self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int | None, **fields: object
    ) -> None:
        self.broker.clock.now_ms += 1
        now_ms = self.broker.clock.now_ms
        if producer_id is not None:
            sequence = self.next_sequence(producer_id)
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        offset = self.broker.log.log_end_offset
        in_transaction = producer_id if fields.get("is_transactional") else None
        for index, (key, value) in enumerate(pairs):
            self.written.append(Written(Kept(offset + index, key, value, now_ms), in_transaction))
        self.end_offset = offset + len(pairs)
        self.epochs.append((offset, self.epoch))
        if producer_id is not None:
            last = (self.end_offset - 1, sequence + len(pairs) - 1)
            self.sequences.setdefault(producer_id, []).append(last)
        # Noted before it is written: a power cut within it may leave it there.
        assert put(self.broker.log, *pairs, timestamp=now_ms, codec=codec, **fields) == offset

    @property
    def epoch(self) -> int:
        """That of what is written next."""
        return max(self.broker.log.latest_epoch or 0, 1)

    def next_sequence(self, producer_id: int) -> int:
        return self.sequences[producer_id][-1][1] + 1 if self.sequences.get(producer_id) else 0

    @rule(pairs=st.lists(st.tuples(keys, values), min_size=1, max_size=5), codec=st.sampled_from(list(Codec)))
    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self.add(pairs, codec, None)

    @rule(pairs=st.lists(st.tuples(keys, values), min_size=1, max_size=3), producer_id=st.integers(1, 2))
    def append_idempotent(self, pairs: list[tuple[bytes, bytes | None]], producer_id: int) -> None:
        self.add(pairs, Codec.NONE, producer_id)

    @rule(pairs=st.lists(st.tuples(keys, values), min_size=1, max_size=3), producer_id=st.integers(11, 12))
    def append_transactional(self, pairs: list[tuple[bytes, bytes | None]], producer_id: int) -> None:
        self.open.setdefault(producer_id, self.end_offset)
        self.add(pairs, Codec.NONE, producer_id, is_transactional=True)

    @rule(producer_id=st.integers(11, 12), is_commit=st.booleans())
    def end(self, producer_id: int, is_commit: bool) -> None:
        if producer_id in self.open:
            offset = self.broker.log.log_end_offset
            self.ended.append((producer_id, self.open.pop(producer_id), offset, is_commit))
            self.end_offset = offset + 1
            self.epochs.append((offset, self.epoch))
            now_ms = self.broker.clock.now_ms
            assert end_transaction(self.broker.log, producer_id, is_commit, timestamp=now_ms) == offset

    @rule()
    def begin_epoch(self) -> None:
        """Lead anew: no epoch is ever given twice, whatever became of it."""
        self.last_epoch += 1
        self.broker.log.assign_epoch_start_offset(self.last_epoch, self.end_offset)

    @rule()
    def commit(self) -> None:
        """Everything is replicated."""
        self.broker.log.high_watermark = self.end_offset
        self.note_committed()

    def note_committed(self) -> None:
        self.committed = max(self.committed, self.broker.log.high_watermark)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """Follow another leader, who has less."""
        offset = self.committed + round((self.end_offset - self.committed) * share)
        self.durable = min(self.durable, self.committed)
        self.broker.log.truncate_to(offset)
        assert self.broker.log.log_end_offset <= max(offset, self.committed)
        self.forget_from(self.broker.log.log_end_offset)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        """From the start up to some batch, and the segments with them."""
        log = self.broker.log
        bases = [offset for offset, _ in self.epochs if log.log_start_offset <= offset <= log.high_watermark]
        if bases:
            log.maybe_increment_log_start_offset(bases[int(share * (len(bases) - 1))])
        self.deleted_to = max(self.deleted_to, log.log_start_offset)
        log.delete_old_segments(self.broker.clock.now_ms)

    @rule()
    def roll(self) -> None:
        self.broker.log.roll()

    @rule(duration_ms=st.sampled_from([10, RETENTION_MS]))
    def pass_time(self, duration_ms: int) -> None:
        self.broker.clock.now_ms += duration_ms
        self.broker.loop.run_until_complete(self.broker.manager.purge_deleted(self.broker.clock.now_ms))

    @rule()
    def checkpoint(self) -> None:
        self.broker.loop.run_until_complete(self.broker.manager.checkpoint_recovery_points())

    # Cleaning, and dying of it

    def settle(self) -> None:
        self.broker.settle()
        self.note_committed()

    @rule()
    def clean(self) -> None:
        self.settle()
        self.broker.clean()
        assert not self.broker.cleaner.uncleanable and not self.broker.offline

    @rule()
    def clean_as_it_is(self) -> None:
        self.broker.clean()
        assert not self.broker.cleaner.uncleanable and not self.broker.offline

    @rule()
    def clean_what_is_not_synced(self) -> None:
        """At a moment when what was rolled is not synced yet: a power cut may take it."""
        self.settle()
        self.broker.loop.run_until_complete(self.broker.cleaner.clean_dirtiest())
        assert not self.broker.cleaner.uncleanable and not self.broker.offline

    @rule(steps=st.integers(0, 60), is_power_cut=st.booleans())
    def die_while_cleaning(self, steps: int, is_power_cut: bool) -> None:
        """After so many operations of the disk, in the middle of whatever it is."""
        self.settle()
        self.broker.loop.run_until_complete(self.broker.manager.flush_dirty(self.broker.clock.now_ms))
        self.durable = self.broker.log.recovery_point
        self.broker.disk.power(steps)
        with contextlib.suppress(PowerLoss, Stuck):
            self.broker.clean()
        self.broker.disk.power(None)
        self.come_back(is_power_cut)

    @rule(is_power_cut=st.booleans())
    def die(self, is_power_cut: bool) -> None:
        self.durable = self.broker.log.recovery_point
        self.come_back(is_power_cut)

    @rule(steps=st.integers(0, 80), seed=st.integers(0, 2**16))
    def die_while_writing(self, steps: int, seed: int) -> None:
        """In the middle of an append, a marker, a roll, a sync, a checkpoint, whatever comes at that moment."""
        rng = random.Random(seed)
        log = self.broker.log
        writes = (
            lambda: self.append([(rng.choice(KEYS), rng.choice([None, b"value"]))], rng.choice(list(Codec))),
            lambda: self.append_idempotent([(rng.choice(KEYS), b"idempotent")], rng.choice([1, 2])),
            lambda: self.append_transactional([(rng.choice(KEYS), b"transactional")], rng.choice([11, 12])),
            lambda: self.end(rng.choice([11, 12]), rng.random() < 0.5),
            lambda: self.clean_what_is_not_synced(),
            lambda: self.roll(),
            lambda: self.commit(),
            lambda: self.checkpoint(),
            lambda: self.begin_epoch(),
            lambda: log.flush(),
            lambda: self.truncate(rng.random()),
            lambda: self.delete_records(rng.random()),
        )
        self.broker.disk.power(steps)
        with contextlib.suppress(PowerLoss, Stuck):
            for write in rng.choices(writes, weights=(5, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1), k=30):
                self.durable = log.recovery_point
                write()
        self.broker.disk.power(None)
        self.come_back(is_power_cut=True)

    @rule(steps=st.integers(0, 20))
    def die_while_starting(self, steps: int) -> None:
        """A start that settles an unfinished swap, and dies of it."""
        self.durable = self.broker.log.recovery_point
        self.broker.disk.kill()
        self.broker.disk.power(steps)
        with contextlib.suppress(PowerLoss, Stuck):
            self.broker.start()
        self.broker.disk.power(None)
        self.come_back(is_power_cut=True)

    def come_back(self, is_power_cut: bool) -> None:
        if is_power_cut:
            self.broker.lose_power()
        else:
            self.broker.kill()
        end_offset = self.broker.log.log_end_offset
        assert self.durable <= end_offset <= self.end_offset
        assert is_power_cut or end_offset == self.end_offset
        self.forget_from(end_offset)
        assert not names(self.broker.disk, [".cleaned", ".swap"])

    def forget_from(self, offset: int) -> None:
        self.end_offset = offset
        self.committed = min(self.committed, offset)
        self.written = [each for each in self.written if each.record.offset < offset]
        for producer_id, first, marker, _ in self.ended:
            if marker >= offset and first < offset:
                self.open[producer_id] = first
        self.ended = [each for each in self.ended if each[2] < offset]
        self.epochs = [each for each in self.epochs if each[0] < offset]
        self.open = {producer_id: first for producer_id, first in self.open.items() if first < offset}
        for producer_id, batch_ends in self.sequences.items():
            self.sequences[producer_id] = [each for each in batch_ends if each[0] < offset]

    # What holds, always

    def outcome(self, written: Written) -> bool | None:
        """Whether a record is committed (True), aborted (False), or open."""
        if written.producer_id is None:
            return True
        for producer_id, first, marker, is_commit in self.ended:
            if producer_id == written.producer_id and first <= written.record.offset < marker:
                return is_commit
        return None

    @invariant()
    def all_of_it_holds(self) -> None:
        if hasattr(self, "broker"):
            found = records_of(self.broker.log)
            offsets = {record.offset for record in found}
            self.what_is_there_is_what_was_written(found)
            self.the_last_value_of_each_key_is_there(offsets)
            self.aborted_records_are_told_of_and_no_others(offsets)
            self.producers_go_on()
            self.epochs_end_where_they_did()
            self.every_read_finds_what_is_next()

    def what_is_there_is_what_was_written(self, found: list[Kept]) -> None:
        written = {each.record.offset: each.record for each in self.written}
        assert all(written[record.offset] == record for record in found)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert self.broker.log.log_end_offset == self.end_offset
        uncleanable = max(self.broker.log.cleaning.segments.active.base_offset, self.broker.log.log_start_offset)
        assert [each for each in written if each >= uncleanable] == [each for each in offsets if each >= uncleanable]

    def the_last_value_of_each_key_is_there(self, offsets: set[int]) -> None:
        committed = [each.record for each in self.written if self.outcome(each)]
        start = self.broker.log.log_start_offset
        for key in KEYS:
            of_key = [record for record in committed if record.key == key and record.offset >= start]
            if of_key and of_key[-1].value is not None:
                assert of_key[-1].offset in offsets
            elif of_key and of_key[-1].offset not in offsets:
                assert not any(record.offset in offsets for record in of_key), (
                    "the tombstone went before what it deletes"
                )

    def aborted_records_are_told_of_and_no_others(self, offsets: set[int]) -> None:
        reported = self.broker.log.cleaning.collect_aborted(0, self.end_offset)
        for each in self.written:
            if each.record.offset in offsets and each.producer_id is not None:
                is_told = any(
                    entry.producer_id == each.producer_id
                    and entry.first_offset <= each.record.offset <= entry.last_offset
                    for entry in reported
                )
                assert is_told == (self.outcome(each) is False)
        unstable = max(min(self.open.values(), default=self.end_offset), self.broker.log.log_start_offset)
        assert self.broker.log.last_stable_offset <= unstable

    def producers_go_on(self) -> None:
        producers = self.broker.log.producer_state.producers
        for producer_id in self.sequences:
            if self.sequences[producer_id]:
                assert producers[producer_id].last_sequence + 1 == self.next_sequence(producer_id)

    def epochs_end_where_they_did(self) -> None:
        """Else a follower would keep what it has of an epoch's tail that nobody else has.

        But for what lay below the log start once: epochs that ended there are forgotten, whatever a crash brings back.
        """
        for (offset, epoch), (following_offset, following) in pairwise(self.epochs):
            if epoch < following and following_offset > self.deleted_to:
                end = self.broker.log.end_offset_for_epoch(epoch)
                assert end.epoch == epoch and offset < end.end_offset <= following_offset

    def every_read_finds_what_is_next(self) -> None:
        log = self.broker.log
        data = memoryview(read_all(log))
        headers = [header for _, header in batches(data)]
        start = log.log_start_offset
        for offset in {self.rng.randrange(start, self.end_offset) for _ in range(3) if self.end_offset > start}:
            part = memoryview(joined(log.read(offset, 1).parts))
            (_, header), *_ = batches(part)
            assert header == next(each for each in headers if each.last_offset >= offset)
            decode_records(part)

    def teardown(self) -> None:
        """In the end a follower that reads it all has the same."""
        if not hasattr(self, "broker"):
            return
        follower = Broker(compacted(), 5)
        log = self.broker.log
        follower.log.truncate_fully_and_start_at(log.log_start_offset)
        while follower.log.log_end_offset < log.log_end_offset:
            data = joined(log.read(follower.log.log_end_offset, 300).parts)
            follower.log.append_as_follower(memoryview(bytearray(data)))
        assert read_all(follower.log) == read_all(log)


CleaningMachine.TestCase.settings = settings(
    max_examples=int(os.environ.get("KVORUM_EXAMPLES", "100")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
TestCleaning = CleaningMachine.TestCase
