"""Mistakes in the controller and in the metadata quorum: elections, ISR changes, durability, commits."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from typing_extensions import Buffer

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_partition import RequestPartitionData
from kvorum.quorum.active import ActiveController
from kvorum.quorum.changes import Made
from kvorum.quorum.controller import alter_partition, partition_change
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.partition_change import NOBODY, PartitionChangeBuilder
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.raft import follower, guard
from kvorum.quorum.raft.core import RaftCore
from kvorum.quorum.raft.guard import AckFilter, AppendVerdict, TermAt
from kvorum.quorum.raft.journal import Batch, DurableJournal
from kvorum.quorum.raft.leader import Leader
from kvorum.quorum.raft.reads import ReadRounds
from kvorum.quorum.raft.replica import Outbox
from kvorum.runtime.disk import File
from sim.mutants.patches import Patches

T = TypeVar("T")
WITHHELD_WRITES: Final = 5
"""Number of writes of a journal that are lost: some seconds' worth."""


class UnsyncedFile:
    """A file whose `sync` does nothing; all else is the file's."""

    def __init__(self, file: File) -> None:
        """Stand before a file."""
        self.file = file
        self.path = file.path

    def pread(self, size: int, position: int) -> bytes:
        """See File."""
        return self.file.pread(size, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        """See File."""
        self.file.pwrite(data, position)

    def sync(self) -> None:
        """Do nothing."""

    def truncate(self, size: int) -> None:
        """See File."""
        self.file.truncate(size)

    def size(self) -> int:
        """See File."""
        return self.file.size()

    def fileno(self) -> int:
        """See File."""
        return self.file.fileno()

    def close(self) -> None:
        """See File."""
        self.file.close()


def unclean_always_on(patches: Patches) -> None:
    """Any live replica may lead, whatever unclean.leader.election.enable is."""
    patches.replace(Context, "unclean_election_enabled", lambda self, topic: True)


def accept_stale_partition_epoch(patches: Patches) -> None:
    """AlterPartition is accepted although the leader does not know the partition's last change."""
    epoch_error = alter_partition.epoch_error

    def lenient(broker_id: int, partition: PartitionRegistration, data: RequestPartitionData) -> ErrorCode | None:
        error = epoch_error(broker_id, partition, data)
        return None if error is ErrorCode.INVALID_UPDATE_VERSION else error

    patches.replace(alter_partition, "epoch_error", lenient)


def keep_who_fell_eligible(patches: Patches) -> None:
    """A broker stays in the ELR after an unclean shutdown, although it may have lost its tail (KIP-966)."""
    eligible = PartitionChangeBuilder._eligible

    def all_of_them(self: PartitionChangeBuilder, isr: tuple[int, ...], replicas: tuple[int, ...]) -> tuple[int, ...]:
        return eligible(replace(self, unclean_shutdown=NOBODY), isr, replicas)

    patches.replace(PartitionChangeBuilder, "_eligible", all_of_them)


def drop_before_in_sync(patches: Patches) -> None:
    """A reassignment drops the old replicas before the new ones are in the ISR."""

    def at_once(
        isr: tuple[int, ...], replicas: tuple[int, ...], removing: tuple[int, ...], adding: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        kept = tuple(replica for replica in isr if replica not in removing)
        return kept or adding, tuple(replica for replica in replicas if replica not in removing), (), ()

    patches.replace(partition_change, "complete_reassignment", at_once)


def reduce_before_in_sync(patches: Patches) -> None:
    """A reassignment to fewer replicas drops the others while those that stay are behind (before KAFKA-19975)."""

    def with_those_added(
        isr: tuple[int, ...], replicas: tuple[int, ...], removing: tuple[int, ...], adding: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        kept = tuple(replica for replica in isr if replica not in removing)
        if not kept or not {*adding} <= {*kept}:
            return isr, replicas, removing, adding
        return kept, tuple(replica for replica in replicas if replica not in removing), (), ()

    patches.replace(partition_change, "complete_reassignment", with_those_added)


def journal_without_sync(patches: Patches) -> None:
    """The quorum's journal reports unsynced data as durable; a crash loses the tail."""
    write = DurableJournal.write

    def write_unsynced(self: DurableJournal, batch: Batch) -> None:
        assert self._file is not None
        self._file = UnsyncedFile(self._file)
        try:
            write(self, batch)
        finally:
            if isinstance(self._file, UnsyncedFile):
                self._file = self._file.file

    patches.replace(DurableJournal, "write", write_unsynced)


class BufferFile(UnsyncedFile):
    """A file that buffers its newest writes, as a kernel does with unsynced data: kill -9 loses them."""

    def __init__(self, file: File) -> None:
        """Stand before a file."""
        super().__init__(file)
        self._kept: deque[tuple[bytes, int]] = deque()

    def pwrite(self, data: Buffer, position: int) -> None:
        """Buffer it, and write the oldest buffered data."""
        self._kept.append((bytes(data), position))
        if len(self._kept) > WITHHELD_WRITES:
            self.file.pwrite(*self._kept.popleft())

    def close(self) -> None:
        """Write all."""
        while self._kept:
            self.file.pwrite(*self._kept.popleft())
        self.file.close()


def journal_withheld(patches: Patches) -> None:
    """The same for a real process, in which kill -9 replaces a power failure."""
    write = DurableJournal.write

    def withheld(self: DurableJournal, batch: Batch) -> None:
        if not isinstance(self._file, BufferFile):
            assert self._file is not None
            self._file = BufferFile(self._file)
        write(self, batch)

    patches.replace(DurableJournal, "write", withheld)


def answer_before_durable(patches: Patches) -> None:
    """A voter responds before the acknowledged data is on its disk."""
    patches.replace(Outbox, "send_durable", Outbox.send)


def guard_off(patches: Patches) -> None:
    """pysyncobj's own faults return: a matching Append truncates everything after it, an answer of any term counts."""
    judge_append = guard.judge_append

    def truncate_all(
        previous_index: int,
        previous_term: int,
        entry_terms: Sequence[int],
        *,
        first_index: int,
        last_index: int,
        committed: int,
        term_at: TermAt,
        first_index_of_term: Callable[[int, int], int],
    ) -> AppendVerdict:
        verdict = judge_append(
            previous_index,
            previous_term,
            entry_terms,
            first_index=first_index,
            last_index=last_index,
            committed=committed,
            term_at=term_at,
            first_index_of_term=first_index_of_term,
        )
        if verdict.matched and verdict.truncate_from is None and 1 < verdict.at < last_index:
            return verdict._replace(truncate_from=verdict.at + 1)
        return verdict

    patches.replace(follower, "judge_append", truncate_all)
    patches.replace(follower.Follower, "_must_be_above", lambda *_: None)
    patches.replace(AckFilter, "accepts", lambda self, term, sequence, *, current_term: True)


def acknowledge_metadata_before_commit(patches: Patches) -> None:
    """The active controller answers when a change is decided, not when a majority has it."""
    append = ActiveController._append

    def at_once(self: ActiveController, name: str, made: Made[T]) -> "asyncio.Future[T]":
        waiter = append(self, name, made)
        if not waiter.done():
            waiter.set_result(made.response)
        return waiter

    patches.replace(ActiveController, "_append", at_once)


def read_without_round(patches: Patches) -> None:
    """A leader of the quorum confirms reads without a check that it still leads."""
    start = ReadRounds.start

    def alone_always(self: ReadRounds, *, sequence: int, commit_index: int, alone: bool) -> None:
        start(self, sequence=sequence, commit_index=commit_index, alone=True)

    patches.replace(ReadRounds, "start", alone_always)


def isolated_leader_stays(patches: Patches) -> None:
    """A quorum leader without answers of a majority remains active controller (before KAFKA-15489)."""
    start = RaftCore.__init__

    def patient(self: RaftCore, *arguments: object, **named: object) -> None:
        start(self, *arguments, **named)  # type: ignore[arg-type]
        self._SyncObj__conf.leaderFallbackTimeout = float("inf")

    patches.replace(RaftCore, "__init__", patient)
    patches.replace(Leader, "answered_majority", lambda self, now: True)
