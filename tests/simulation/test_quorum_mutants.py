"""Known mistakes, put into the quorum one at a time: the simulation must catch each, or its silence says nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from kvorum.quorum.raft import follower, journal, leader, opening, prevote, replicated, snapshot, snapshotting, voters
from kvorum.quorum.raft.core import RaftCore
from kvorum.quorum.raft.guard import AppendVerdict, judge_append
from kvorum.quorum.raft.journal import DurableJournal
from kvorum.quorum.raft.node import QuorumNode
from kvorum.quorum.raft.replica import Outbox
from sim.quorum_faults import run_seed

SEEDS_MAX = 150
Patch = Callable[[pytest.MonkeyPatch], None]


def answers_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outbox, "send_durable", Outbox.send)


def leader_counts_what_it_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    def entries(self: RaftCore, at: int, count: int | None = None, size: int | None = None) -> list[Any]:
        return [self.journal[at - self.journal.first_index]]

    patch.setattr(RaftCore, "_SyncObj__getEntries", entries)


def truncates_what_matches(patch: pytest.MonkeyPatch) -> None:
    def judge(previous_index: int, previous_term: int, terms: list[int], **log: Any) -> AppendVerdict:
        verdict = judge_append(previous_index, previous_term, terms, **log)
        if verdict.matched and verdict.truncate_from is None and verdict.at < log["last_index"] and verdict.at > 1:
            return verdict._replace(truncate_from=verdict.at + 1)
        return verdict

    patch.setattr(follower, "judge_append", judge)
    patch.setattr(follower.Follower, "_must_be_above", lambda *_: None)


def installs_older_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follower, "snapshot_is_useful", lambda *_, **__: True)
    install = follower.Follower._install

    def arrived(self: Any, peer: int, term: int, sequence: int, work: Any) -> None:
        meta = work.result()
        self._replica.snapshots.adopt(meta)
        self._installing = False
        if self._replica.snapshots.latest.index == meta.index and not self._replica.core.is_leader():
            install(self, meta)

    patch.setattr(follower.Follower, "_arrived", arrived)


def terms_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    def keep(self: DurableJournal, term: int, vote: int | None) -> None:
        self._term, self._vote = term, vote

    patch.setattr(DurableJournal, "setCurrentTerm", keep)
    patch.setattr(journal.DurableJournal, "_head", _head_without_term)


def _head_without_term(self: Any) -> list[bytes]:
    term, vote = self._term, self._vote
    self._term, self._vote = 0, None
    try:
        return _HEAD(self)
    finally:
        self._term, self._vote = term, vote


_HEAD = DurableJournal._head


def wiped_voters_vote_and_count_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(voters.Voters, "counts", lambda self, peer: peer in self.present)
    patch.setattr(voters.Voters, "may_lead", lambda self, peer: peer in self.present)
    patch.setattr(voters.Voters, "may_vote", lambda self: True)
    patch.setattr(voters.Voters, "may_stand", lambda self: True)


def reads_without_a_round(patch: pytest.MonkeyPatch) -> None:
    start = leader.ReadRounds.start
    patch.setattr(leader.ReadRounds, "start", lambda self, *, alone, **rest: start(self, alone=True, **rest))


def reads_before_the_terms_first_entry(patch: pytest.MonkeyPatch) -> None:
    start = leader.ReadRounds.start
    patch.setattr(leader.ReadRounds, "start", lambda self, *, commit_index, **rest: start(self, commit_index=0, **rest))


def active_before_the_terms_first_entry(patch: pytest.MonkeyPatch) -> None:
    after_tick = replicated.RaftMetadataLog._after_tick

    def early(self: Any) -> None:
        first, self.node.leader.first_index = self.node.leader.first_index, 0
        after_tick(self)
        self.node.leader.first_index = first

    patch.setattr(replicated.RaftMetadataLog, "_after_tick", early)


def snapshots_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    write = snapshot.SnapshotStore.write

    def unsynced(self: Any, meta: Any, chunks: Any) -> None:
        disk = self._disk
        self._disk = _NoSync(disk)
        try:
            write(self, meta, chunks)
        finally:
            self._disk = disk

    patch.setattr(snapshot.SnapshotStore, "write", unsynced)


class _NoSync:
    """A disk whose files and folders are never synced."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return (lambda *_: None) if name == "sync_dir" else getattr(self._disk, name)

    def open(self, path: str, *, create: bool = False) -> Any:
        file = self._disk.open(path, create=create)
        return _UnsyncedFile(file)


class _UnsyncedFile:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return (lambda: None) if name == "sync" else getattr(self._file, name)


def the_journal_starts_before_its_snapshot_is_durable(patch: pytest.MonkeyPatch) -> None:
    maybe_start = snapshotting.Snapshotting.maybe_start

    def eager(self: Any) -> None:
        writing = self._writing
        maybe_start(self)
        if self._writing and not writing:
            self._replica.journal.start_at(self._replica.core.last_applied())

    patch.setattr(snapshotting.Snapshotting, "maybe_start", eager)


def applies_whatever_the_offset(patch: pytest.MonkeyPatch) -> None:
    """A retransmission is appended again: what compare-and-append is there to stop."""
    submit = QuorumNode.submit

    def twice(self: QuorumNode, place: Any) -> None:
        commands: list[bytes] = []

        def first(index: int, term: int) -> bytes | None:
            command = place(index, term)
            if command is not None:
                commands.append(command)
            return command

        submit(self, first)
        submit(self, lambda index, term: commands[0] if index and commands else None)

    patch.setattr(QuorumNode, "submit", twice)
    patch.setattr(
        replicated,
        "parse_header",
        lambda data, position=0: _Any(replicated_parse(data, position)),
    )


replicated_parse = replicated.parse_header


class _Any:
    """A header whose base offset equals everything."""

    def __init__(self, header: Any) -> None:
        self._header = header
        self.base_offset = _Equal(header.base_offset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)


class _Equal(int):
    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def no_pre_vote_is_ever_granted(patch: pytest.MonkeyPatch) -> None:
    """No fault of safety: the seeds must fail to come to rest."""
    patch.setattr(prevote.PreVotes, "judge", lambda *_, **__: False)


def a_missing_journal_is_an_empty_one(patch: pytest.MonkeyPatch) -> None:
    """After each restart the node begins with an empty log and its old directory id."""
    open_journal = opening.open_journal

    def forgetful(disk: Any, path: str, **rest: Any) -> DurableJournal:
        found = open_journal(disk, path, **rest)
        if found.last_index > 40:
            state = found.state
            disk.remove_tree(path)
            disk.remove_tree(path.replace("journal", "snapshots"))
            journal.format_journal(disk, path, state, segment_bytes=rest["segment_bytes"])
            return open_journal(disk, path, **rest)
        return found

    patch.setattr(opening, "open_journal", forgetful)


MUTANTS: tuple[tuple[Patch, int], ...] = (
    (answers_before_it_is_durable, 0),
    (leader_counts_what_it_has_not_synced, 0),
    (truncates_what_matches, 0),
    (installs_older_snapshots, 0),
    (terms_are_not_kept, 0),
    (wiped_voters_vote_and_count_at_once, 0),
    (reads_without_a_round, 50),
    (reads_before_the_terms_first_entry, 0),
    (active_before_the_terms_first_entry, 0),
    (snapshots_are_not_synced, 0),
    (the_journal_starts_before_its_snapshot_is_durable, 110),
    (applies_whatever_the_offset, 0),
    (no_pre_vote_is_ever_granted, 0),
    (a_missing_journal_is_an_empty_one, 0),
)
"""With the seed to begin at: some are rare, and a seed known to be near saves the suite its time."""


@pytest.mark.parametrize(("mutant", "first"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_simulation_catches(mutant: Patch, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    for seed in range(first, first + SEEDS_MAX):
        try:
            run_seed(seed)
        except Exception as error:
            print(f"caught by seed {seed}: {type(error).__name__}: {error}")
            return
    pytest.fail(f"not caught in {SEEDS_MAX} seeds")
