"""The journal against a simple model: random operations, a crash at any point, every way a file can be damaged."""

import errno
import random
from dataclasses import dataclass, field, replace

import pytest

from kvorum.quorum.raft.journal import Batch, DurableJournal, format_journal, open_journal
from kvorum.quorum.raft.journal_format import JournalCorrupt, encode_segment_header
from kvorum.quorum.raft.journal_replay import segment_name
from kvorum.runtime.disk import OsDisk
from sim.disk import PowerLoss, SimDisk

SEGMENT_BYTES = 2048


@dataclass(frozen=True)
class Model:
    """What the journal should hold."""

    log: tuple[tuple[bytes, int, int], ...] = ()
    term: int = 0
    vote: int | None = None
    state: bytes = b"state"

    @classmethod
    def of(cls, journal: DurableJournal) -> "Model":
        log = tuple(journal[place] for place in range(len(journal)))
        return cls(log, journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.state)  # type: ignore[arg-type]

    def same(self, other: "Model") -> bool:
        """Equal, but for the first element's command: it may be forgotten once a START has made it the one before."""
        return replace(self, log=self._blank()) == replace(other, log=other._blank())

    def _blank(self) -> tuple[tuple[bytes, int, int], ...]:
        return ((b"", *self.log[0][1:]), *self.log[1:]) if self.log else ()


@dataclass
class Run:
    """A journal under random use; `model` after each record, so that a crash may be held against any of them."""

    rng: random.Random
    disk: SimDisk
    journal: DurableJournal
    models: list[Model] = field(default_factory=list)
    written: Batch | None = None

    def note(self) -> None:
        while len(self.models) <= self.journal.position:
            self.models.append(Model.of(self.journal))
        self.models[self.journal.position] = Model.of(self.journal)

    def change(self) -> None:
        """Do one random thing that Raft might do."""
        journal, rng = self.journal, self.rng
        term = max(1, journal.getCurrentTerm())
        what = rng.random()
        if what < 0.6:
            journal.add(rng.randbytes(rng.choice((0, 3, 40, 300))), journal.last_index + 1, term)
        elif what < 0.7 and journal.last_index > journal.first_index + 1:
            journal.truncate_from(rng.randint(journal.first_index + 1, journal.last_index))
        elif what < 0.8:
            journal.setCurrentTerm(term + rng.randint(0, 1) + 0, rng.choice((None, 1, 2)))
        elif what < 0.85 and journal.last_index > journal.first_index:
            durable = min(journal.durable_index, journal.last_index)
            if durable > journal.first_index:
                journal.start_at(rng.randint(journal.first_index + 1, durable))
        elif what < 0.87:
            journal.reset(journal.last_index + rng.randint(1, 5), term)
        elif what < 0.9:
            journal.set_state(rng.randbytes(8))
        self.note()

    def commit(self, crash_after: int | None = None) -> None:
        """Run a group commit, cut short after so many disk operations if asked to; things change meanwhile."""
        batch = self.journal.take()
        if batch is None:
            return
        for _ in range(self.rng.choice((0, 0, 2))):
            self.change()
        self.written = batch
        self.disk.power(crash_after)
        self.journal.write(batch)
        self.disk.power(None)
        self.journal.complete(batch)
        self.written = None
        droppable = self.journal.droppable()
        if droppable and self.rng.random() < 0.5:
            self.disk.power(crash_after)
            self.journal.drop(droppable)
            self.disk.power(None)


def fresh(disk: SimDisk) -> None:
    disk.mkdir("/n")
    disk.sync_dir("")
    format_journal(disk, "/n/raft/journal", b"state", segment_bytes=SEGMENT_BYTES)


def reopen(disk: SimDisk) -> DurableJournal:
    return open_journal(disk, "/n/raft/journal", segment_bytes=SEGMENT_BYTES)


@pytest.mark.parametrize("first", range(0, 400, 40))
def test_a_crash_at_any_point_loses_nothing_that_was_durable(first: int) -> None:
    for seed in range(first, first + 40):
        rng = random.Random(seed)
        disk = SimDisk(random.Random(seed + 1))
        fresh(disk)
        for _ in range(rng.randint(1, 4)):
            crash_and_compare(rng, disk, seed)


def crash_and_compare(rng: random.Random, disk: SimDisk, seed: int) -> None:
    run = Run(rng, disk, reopen(disk))
    run.note()
    crash_at = rng.randint(0, 60)
    try:
        for step in range(60):
            for _ in range(rng.randint(1, 6)):
                run.change()
            if rng.random() < 0.05 and run.journal.begin_spare():
                run.journal.make_spare()
                run.journal.complete_spare()
            run.commit(rng.randint(0, 8) if step == crash_at else None)
    except PowerLoss:
        pass
    disk.crash()
    found = Model.of(reopen(disk))
    durable = run.journal.durable_position
    allowed = [run.models[durable]] if durable < len(run.models) else []
    if run.written is not None:
        allowed.append(run.models[run.written.position])
    assert any(found.same(model) for model in allowed), (seed, found, allowed)


def filled(entries: int = 60) -> tuple[SimDisk, DurableJournal]:
    disk = SimDisk(random.Random(1))
    fresh(disk)
    journal = reopen(disk)
    journal.setCurrentTerm(1, 1)
    for index in range(1, entries + 1):
        journal.add(b"entry %d" % index + bytes(60), index, 1)
        journal.sync()
    return disk, journal


def segments(disk: SimDisk) -> list[str]:
    return [f"/n/raft/journal/{name}" for name in disk.listdir("/n/raft/journal") if name.endswith(".journal")]


def test_a_flipped_bit_anywhere_never_gives_wrong_data() -> None:
    """In all but the last block it is refused with file and place; in the last it cannot be told from a torn write."""
    disk, journal = filled(30)
    whole = Model.of(journal)
    refused = 0
    for path in segments(disk):
        for position in range(0, disk.size(path), 7):
            disk.flip_bit(path, position, position % 8)
            try:
                found = Model.of(reopen(disk))
            except JournalCorrupt as error:
                assert path.rpartition("/")[2] in str(error) or "journal" in str(error)
                refused += 1
                disk.flip_bit(path, position, position % 8)
                continue
            assert found.log == whole.log[: len(found.log)] and len(found.log) >= len(whole.log) - 1
            if found != whole:
                return
            disk.flip_bit(path, position, position % 8)
    assert refused > 100


def test_a_flipped_bit_in_the_middle_names_file_and_byte() -> None:
    disk, _ = filled()
    path = segments(disk)[-1]
    disk.flip_bit(path, 200)
    with pytest.raises(JournalCorrupt, match=r"\.journal: damaged at byte \d+: block \d+ is invalid, yet block \d+"):
        reopen(disk)


@pytest.mark.parametrize("cut", range(1, 80, 3))
def test_a_torn_tail_is_truncated_and_later_entries_are_kept(cut: int) -> None:
    disk, journal = filled(20)
    before = Model.of(journal)
    path = segments(disk)[-1]
    data = disk.read(path).rstrip(b"\0")
    file = disk.open(path)
    file.pwrite(bytes(cut), len(data) - cut)
    file.sync()
    journal = reopen(disk)
    assert Model.of(journal).log == before.log[: len(journal)] and len(journal) >= 19
    journal.add(b"later", journal.last_index + 1, 1)
    journal.sync()
    again = Model.of(reopen(disk))
    assert again.log[-1][0] == b"later"


def test_a_torn_tail_leaves_no_trace_when_the_segment_is_no_longer_the_newest() -> None:
    """The torn write reached further than what is appended after it; the segment must read cleanly ever after."""
    disk, journal = filled(3)
    path = segments(disk)[-1]
    file = disk.open(path)
    file.pwrite(b"torn" * 50, SEGMENT_BYTES + 400)
    file.sync()
    journal = reopen(disk)
    while segments(disk)[-1] == path:
        journal.add(bytes(40), journal.last_index + 1, 1)
        journal.sync()
    assert Model.of(reopen(disk)) == Model.of(journal)


def test_a_missing_segment_is_refused() -> None:
    disk, _ = filled(100)
    assert len(segments(disk)) > 3
    for path in segments(disk)[:-1]:
        data = disk.read(path)
        disk.remove(path)
        with pytest.raises(JournalCorrupt):
            reopen(disk)
        disk.write_atomic(path, data)
    reopen(disk)


def test_a_missing_journal_is_no_empty_journal() -> None:
    disk, _ = filled(5)
    for path in segments(disk):
        disk.remove(path)
    with pytest.raises(JournalCorrupt, match="the journal is missing"):
        reopen(disk)


def test_a_newer_version_is_refused_by_name() -> None:
    disk, _ = filled(5)
    path = segments(disk)[0]
    header = bytearray(encode_segment_header(1))
    header[8] = 9
    from crc32c import crc32c

    header[24:28] = crc32c(bytes(header[:24])).to_bytes(4, "little")
    disk.open(path).pwrite(header, 0)
    with pytest.raises(JournalCorrupt, match="newer Kvorum"):
        reopen(disk)


def test_formatting_a_second_time_is_refused() -> None:
    disk, _ = filled(1)
    with pytest.raises(FileExistsError):
        fresh(disk)


@pytest.mark.parametrize("operation", ["pwrite", "sync", "rename", "sync_dir"])
def test_a_failed_write_is_reported_and_nothing_counts_as_durable(operation: str) -> None:
    disk, journal = filled(10)
    durable = journal.durable_index
    for index in range(11, 60):
        journal.add(bytes(100), index, 1)
    disk.fail(operation, errno.EIO)
    with pytest.raises(OSError):
        journal.sync()
    assert journal.durable_index == durable


def test_entries_truncated_while_their_write_is_under_way_do_not_count() -> None:
    _, journal = filled(10)
    journal.add(b"a", 11, 1)
    journal.add(b"b", 12, 1)
    batch = journal.take()
    assert batch is not None
    journal.truncate_from(11)
    journal.add(b"other", 11, 2)
    journal.write(batch)
    journal.complete(batch)
    assert journal.durable_index == 10
    journal.sync()
    assert journal.durable_index == 11 and journal[-1] == (b"other", 11, 2)


def test_segments_go_once_a_start_is_durable() -> None:
    disk, journal = filled(100)
    count = len(segments(disk))
    journal.start_at(90)
    assert journal.droppable() == [], "the START is not durable yet"
    journal.sync()
    journal.drop(journal.droppable())
    assert len(segments(disk)) < count
    again = reopen(disk)
    assert (again.first_index, again.last_index) == (90, 100)


def test_a_write_that_needs_the_next_segment_waits_for_the_spare_that_is_being_made() -> None:
    """Both would have made the same file: zeros on a segment in use, or a segment that is gone when it is named."""
    disk = SimDisk(random.Random(1))
    format_journal(disk, "journal", b"state", segment_bytes=SEGMENT_BYTES)
    journal = open_journal(disk, "journal", segment_bytes=SEGMENT_BYTES)
    assert not journal.begin_spare(), "it is not half full"
    journal.add(bytes(SEGMENT_BYTES // 2), 1, 1)
    journal.sync()
    assert journal.begin_spare() and not journal.begin_spare()
    journal.add(b"small", 2, 1)
    small = journal.take()
    assert small is not None, "what the segment holds is written beside it"
    journal.write(small)
    journal.complete(small)
    journal.add(bytes(SEGMENT_BYTES), 3, 1)
    assert journal.take() is None
    journal.make_spare()
    assert journal.take() is None
    journal.complete_spare()
    journal.sync()
    disk.crash()
    again = open_journal(disk, "journal", segment_bytes=SEGMENT_BYTES)
    assert [again[place][0] for place in range(1, len(again))][-2:] == [b"small", bytes(SEGMENT_BYTES)]


def test_entries_come_in_pieces_of_bounded_size() -> None:
    _, journal = filled(40)
    piece = journal.entries(5, 200)
    assert [entry[1] for entry in piece] == [5, 6]
    assert len(journal.entries(5, 1)) == 1
    assert journal.entries(41, 100) == []


def test_a_real_disk_keeps_it_too(tmp_path: object) -> None:
    path = f"{tmp_path}/raft/journal"
    format_journal(OsDisk(), path, b"state", segment_bytes=SEGMENT_BYTES)
    journal = open_journal(OsDisk(), path, segment_bytes=SEGMENT_BYTES)
    for index in range(1, 101):
        journal.add(b"%d" % index, index, 1)
        if index % 7 == 0:
            journal.sync()
    journal.sync()
    journal.close()
    again = open_journal(OsDisk(), path, segment_bytes=SEGMENT_BYTES)
    assert Model.of(again) == Model.of(journal)
    assert OsDisk().exists(f"{path}/{segment_name(1)}")
    again.close()
