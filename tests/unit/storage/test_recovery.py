"""Opening a log after a crash: every kind of damage ends in a prefix of what was written, or in a clear refusal."""

from collections.abc import Callable

import pytest

from kvorum.protocol.batch_header import parse_header
from kvorum.storage import durable_length
from kvorum.storage.closed_logs import ClosedLog
from kvorum.storage.damage import Damage, Lack, read_lack
from kvorum.storage.durable_length import DurableLength
from kvorum.storage.log import Log
from kvorum.storage.recovery import OpenOptions
from sim.disk import SimDisk
from tests.unit.storage.kit import (
    FOLDER,
    NOW_MS,
    StillClock,
    batch,
    idempotent,
    new_disk,
    open_test_log,
    read_all,
    small_config,
)

COUNT = 20


def written(disk: SimDisk, *, flushed: int = 0, close: bool = False) -> list[bytes]:
    """Write twenty batches over several segments, two epochs, with and without a producer; sync after some."""
    log = open_test_log(disk, small_config(segment_bytes=500))
    batches = []
    for index in range(COUNT):
        data = batch(b"y" * 40, timestamp=NOW_MS + index)
        if index % 2:
            data = idempotent(index // 2, timestamp=NOW_MS + index)
        log.append_as_leader(data, index // 12)
        batches.append(bytes(data))
        if index + 1 == flushed:
            log.flush()
    if close:
        log.close()
    return batches


def last_segment(disk: SimDisk) -> str:
    return max(name for name in disk.listdir(FOLDER) if name.endswith(".log"))


def cut(disk: SimDisk, name: str, size: int) -> None:
    file = disk.open(f"{FOLDER}/{name}")
    file.truncate(size)
    file.sync()


def overwrite(disk: SimDisk, name: str, position: int, data: bytes) -> None:
    file = disk.open(f"{FOLDER}/{name}")
    file.pwrite(data, position)
    file.sync()


def check(log: Log, batches: list[bytes]) -> None:
    """The log is these batches, with everything that follows from them."""
    assert read_all(log) == b"".join(batches)
    headers = [parse_header(data) for data in batches]
    end_offset = headers[-1].next_offset if headers else 0
    assert log.log_end_offset == end_offset == log.producer_state.end_offset
    sequences = [header.last_sequence for header in headers if header.has_producer_id]
    assert [entry.last_sequence for entry in log.producer_state.producers.values()] == sequences[-1:]
    assert [entry.epoch for entry in log.epoch_cache.entries] == sorted({h.partition_leader_epoch for h in headers})
    for header in headers:
        assert log.offset_for_timestamp(header.max_timestamp) is not None
    info = log.append_as_leader(batch(b"after"), 9)
    assert info.first_offset == end_offset


def size_of_last(disk: SimDisk) -> int:
    return disk.size(f"{FOLDER}/{last_segment(disk)}")


def tail_cut_by(count: int) -> Callable[[SimDisk], None]:
    return lambda disk: cut(disk, last_segment(disk), size_of_last(disk) - count)


def zeros_for(count: int) -> Callable[[SimDisk], None]:
    return lambda disk: overwrite(disk, last_segment(disk), size_of_last(disk) - count, bytes(count))


def bit_flipped_at(back: int) -> Callable[[SimDisk], None]:
    return lambda disk: disk.flip_bit(f"{FOLDER}/{last_segment(disk)}", size_of_last(disk) - back)


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        (tail_cut_by(1), 1),
        (tail_cut_by(60), 1),
        (zeros_for(3), 1),
        (zeros_for(70), 1),
        (bit_flipped_at(1), 1),
        (bit_flipped_at(5), 1),
        (lambda disk: overwrite(disk, last_segment(disk), size_of_last(disk), bytes(4096)), 0),
        (lambda disk: overwrite(disk, last_segment(disk), size_of_last(disk), b"\xff" * 100), 0),
        (lambda disk: overwrite(disk, last_segment(disk), size_of_last(disk), bytes(batch())[:40]), 0),
        (lambda disk: overwrite(disk, last_segment(disk), size_of_last(disk), bytes(batch())), 0),
    ],
    ids=["cut by a byte", "cut within the last batch", "zeros at the end", "zeros over the last batch",
         "a flipped bit at the end", "a flipped bit before the end", "zeros behind the end", "garbage behind the end",
         "a torn batch behind the end", "a whole batch of lower offsets behind the end"],
)  # fmt: skip
def test_a_damaged_tail_is_cut_at_the_first_bad_batch(damage: Callable[[SimDisk], None], lost: int) -> None:
    disk = new_disk()
    batches = written(disk)
    damage(disk)
    log = open_test_log(disk)
    check(log, batches[: COUNT - lost])
    check(open_test_log(disk), [*batches[: COUNT - lost], read_all(log)[sum(map(len, batches[: COUNT - lost])) :]])


def test_a_damaged_batch_takes_the_segments_behind_it_along() -> None:
    disk = new_disk()
    batches = written(disk)
    names = [name for name in disk.listdir(FOLDER) if name.endswith(".log")]
    assert len(names) > 2
    disk.flip_bit(f"{FOLDER}/{names[0]}", 70)
    check(open_test_log(disk), [])
    assert [name for name in disk.listdir(FOLDER) if name.endswith(".log")] == names[:1]
    assert len(batches) == COUNT


def test_a_missing_segment_in_the_middle_ends_the_log() -> None:
    disk = new_disk()
    batches = written(disk)
    names = [name for name in disk.listdir(FOLDER) if name.endswith(".log")]
    disk.remove(f"{FOLDER}/{names[1]}")
    base = int(names[1][:20])
    check(open_test_log(disk), batches[:base])


def test_damage_below_the_recovery_point_is_reported_and_marked() -> None:
    """Those records were promised to be durable: the replica must not count as one that has them."""
    disk = new_disk()
    batches = written(disk, flushed=18)
    found: list[Damage] = []
    name = last_segment(disk)
    disk.flip_bit(f"{FOLDER}/{name}", 70)
    log = open_test_log(disk, options=OpenOptions(recovery_point=18, on_damage=found.append))
    check(log, batches[: log.log_end_offset])
    assert [each.lack for each in found] == [Lack.END]
    assert "up to offset 18 were synced" in found[0].problem
    assert read_lack(disk, FOLDER) is Lack.END


def test_a_segment_below_the_recovery_point_is_read_at_its_end_only() -> None:
    disk = new_disk()
    batches = written(disk, flushed=COUNT)
    preads = disk.counts.get("pread", 0)
    log = open_test_log(disk, options=OpenOptions(recovery_point=COUNT))
    assert disk.counts["pread"] - preads < 20 + 3 * log.segment_count
    check(log, batches)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("kind", ["missing", "empty", "zeros", "cut", "bit"])
def test_missing_and_damaged_side_files_are_recreated(is_clean: bool, suffix: str, kind: str) -> None:
    disk = new_disk()
    batches = written(disk, close=True)
    for name in [name for name in disk.listdir(FOLDER) if name.endswith(suffix)]:
        path = f"{FOLDER}/{name}"
        data = disk.read(path)
        if kind == "missing":
            disk.remove(path)
        elif kind == "bit" and data:
            disk.flip_bit(path, len(data) - 1)
        else:
            disk.write_atomic(path, {"empty": b"", "zeros": bytes(len(data)), "cut": data[:-3], "bit": data}[kind])
    log = open_test_log(disk, options=OpenOptions(recovery_point=0, is_clean=is_clean))
    if suffix == ".timeindex" and kind == "bit":
        # A wrong offset of the last entry can only make a look-up begin too early or too late in that segment.
        assert read_all(log) == b"".join(batches)
        return
    check(log, batches)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("text", [None, b"", b"0\n1\n", b"9\n0\n", b"\0" * 40, b"0\n2\n0 0\n0 5\n"])
def test_leader_epochs_are_read_from_the_batches_where_the_checkpoint_fails(is_clean: bool, text: bytes | None) -> None:
    disk = new_disk()
    batches = written(disk, close=True)
    path = f"{FOLDER}/leader-epoch-checkpoint"
    if text is None:
        disk.remove(path)
    else:
        disk.write_atomic(path, text)
    log = open_test_log(disk, options=OpenOptions(recovery_point=COUNT, is_clean=is_clean))
    assert log.epoch_cache.entries == [(0, 0), (1, 12)]
    check(log, batches)


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_last_epoch_of_a_log_that_retention_emptied_is_kept(is_clean: bool) -> None:
    """Nothing else shows a leader which records were before the log's start."""
    disk, clock = new_disk(), StillClock()
    written(disk, flushed=COUNT, close=True)
    options = OpenOptions(recovery_point=COUNT, is_clean=True)
    log = open_test_log(disk, small_config(retention_ms=1_000), clock=clock, options=options)
    log.high_watermark = log.log_end_offset
    clock.now_ms += 10_000
    log.delete_old_segments(clock.now_ms)
    log.flush()  # until then the last segment waits: its producers are in no durable snapshot
    log.delete_old_segments(clock.now_ms)
    assert (log.log_start_offset, log.log_end_offset, log.epoch_cache.entries) == (COUNT, COUNT, [(1, COUNT)])
    log.flush()
    log.close()
    for _ in range(2):
        log = open_test_log(disk, options=OpenOptions(recovery_point=COUNT, is_clean=is_clean))
        assert (log.log_start_offset, log.log_end_offset, log.epoch_cache.entries) == (COUNT, COUNT, [(1, COUNT)])


def test_a_clean_start_reads_next_to_nothing() -> None:
    disk = new_disk()
    batches = written(disk, close=True)
    before = dict(disk.counts)
    log = open_test_log(disk, options=OpenOptions(recovery_point=COUNT, is_clean=True))
    assert disk.counts["pread"] - before.get("pread", 0) < 20
    assert disk.counts["sync"] == before["sync"]
    assert log.recovery_point == COUNT
    check(log, batches)


def test_a_broken_chain_after_a_clean_shutdown_is_recovered_as_after_a_crash() -> None:
    disk = new_disk()
    batches = written(disk, close=True)
    found: list[Damage] = []
    name = last_segment(disk)
    for each in disk.listdir(FOLDER):
        if each.endswith("index"):
            disk.remove(f"{FOLDER}/{each}")
    disk.flip_bit(f"{FOLDER}/{name}", 16)
    options = OpenOptions(is_clean=True, closed=ClosedLog(COUNT), on_damage=found.append)
    log = open_test_log(disk, options=options)
    check(log, batches[: int(name[:20])])
    assert [each.lack for each in found] == [Lack.NOTHING, Lack.END]


def test_a_log_that_ends_before_its_start_starts_again_there() -> None:
    disk = new_disk()
    written(disk)
    log = open_test_log(disk, options=OpenOptions(log_start_offset=50))
    assert (log.log_start_offset, log.log_end_offset, log.segment_count) == (50, 50, 1)
    assert log.append_as_leader(batch(), 3).first_offset == 50
    assert open_test_log(disk).log_end_offset == 51


def test_a_new_log_may_begin_anywhere() -> None:
    log = open_test_log(new_disk(), options=OpenOptions(log_start_offset=7))
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)


def test_leftovers_of_a_dead_process_are_removed() -> None:
    disk = new_disk()
    batches = written(disk, close=True)
    for name in ("00000000000000000000.log.deleted", "00000000000000000077.index", "leader-epoch-checkpoint.tmp"):
        disk.write_atomic(f"{FOLDER}/{name}", b"x")
    check(open_test_log(disk), batches)
    names = disk.listdir(FOLDER)
    assert not [
        name for name in names if name.endswith((".deleted", ".tmp")) or name.startswith("00000000000000000077")
    ]


def test_a_stale_checkpoint_does_not_hide_records_after_a_truncation() -> None:
    """The directory's checkpoint still says 20; behind the truncation other batches came, and were torn."""
    disk = new_disk()
    batches = written(disk, flushed=COUNT)
    log = open_test_log(disk, options=OpenOptions(recovery_point=COUNT))
    log.truncate_to(10)
    for index in range(15):
        log.append_as_leader(batch(b"new-%d" % index), 5)
    cut(disk, last_segment(disk), size_of_last(disk) - 3)
    again = open_test_log(disk, options=OpenOptions(recovery_point=COUNT))
    assert again.log_end_offset == 24
    assert again.epoch_cache.entries == [(0, 0), (5, 10)]
    assert read_all(again).startswith(b"".join(batches[:10]))


def test_a_torn_durable_length_makes_recovery_check_everything() -> None:
    disk = new_disk()
    batches = written(disk, flushed=COUNT)
    for damage in (b"", b"1\n20 0", bytes(96)):
        disk.write_atomic(f"{FOLDER}/durable-length", damage)
        assert durable_length.read(disk, FOLDER) == DurableLength(0, 0, 0)
    check(open_test_log(disk, options=OpenOptions(recovery_point=COUNT)), batches)


def test_only_bytes_beyond_the_durable_length_may_be_truncated() -> None:
    """A test that cuts exactly what was not synced finds everything that was."""
    disk = new_disk()
    batches = written(disk, flushed=13)
    found = durable_length.read(disk, FOLDER)
    assert found is not None and found.recovery_point == 13
    for name in [name for name in disk.listdir(FOLDER) if name.endswith(".log")]:
        base = int(name[:20])
        if base > found.segment_base_offset:
            disk.remove(f"{FOLDER}/{name}")
        elif base == found.segment_base_offset:
            cut(disk, name, found.size)
    check(open_test_log(disk, options=OpenOptions(recovery_point=13)), batches[:13])


def test_compacted_logs_may_have_gaps_between_segments() -> None:
    disk = new_disk()
    config = small_config(cleanup_policy=frozenset({"compact"}))
    log = open_test_log(disk, config)
    for base in (0, 5, 9):
        log.append_as_follower(batch(base_offset=base, partition_leader_epoch=0))
        log.roll()
    log.flush()
    disk.remove(f"{FOLDER}/00000000000000000001.log")
    found: list[Damage] = []
    options = OpenOptions(recovery_point=10, cleaned_offset=9, on_damage=found.append)
    assert open_test_log(disk, config, options=options).log_end_offset == 10
    assert not found


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_missing_segment_that_was_synced_is_found_where_nothing_was_cleaned(policy: str) -> None:
    disk = new_disk()
    config = small_config(cleanup_policy=frozenset({policy}))
    log = open_test_log(disk, config)
    for base in (0, 1, 2, 3):
        log.append_as_follower(batch(base_offset=base, partition_leader_epoch=0))
        log.roll()
    log.flush()
    disk.remove(f"{FOLDER}/00000000000000000002.log")
    found: list[Damage] = []
    open_test_log(disk, config, options=OpenOptions(recovery_point=4, cleaned_offset=1, on_damage=found.append))
    assert [each.lack for each in found] == [Lack.SEGMENTS]
    assert read_lack(disk, FOLDER) is Lack.SEGMENTS


def test_a_missing_first_segment_is_found() -> None:
    """The leader epochs on disk say where the log began."""
    disk = new_disk()
    written(disk, flushed=COUNT)
    names = [name for name in disk.listdir(FOLDER) if name.endswith(".log")]
    disk.remove(f"{FOLDER}/{names[0]}")
    found: list[Damage] = []
    log = open_test_log(disk, options=OpenOptions(recovery_point=COUNT, on_damage=found.append))
    assert log.log_start_offset == int(names[1][:20])
    assert [each.lack for each in found] == [Lack.SEGMENTS]


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("ends", ["at once", "after a flush", "after the purge"])
def test_segments_that_retention_dropped_are_not_missing(ends: str, restarts: int) -> None:
    """Whenever the process ends, and though the first start after it ends early, too."""
    disk = new_disk()
    written(disk, flushed=COUNT)
    found: list[Damage] = []
    options = OpenOptions(recovery_point=COUNT, on_damage=found.append)
    log = open_test_log(disk, small_config(segment_bytes=500, file_delete_delay_ms=0), options=options)
    log.high_watermark = COUNT
    log.maybe_increment_log_start_offset(COUNT - 5)
    assert log.delete_old_segments(NOW_MS) > 1
    assert not log.durability.may_remove_files
    if ends != "at once":
        assert log.durability.is_flush_due(NOW_MS)
        log.flush()
        assert log.durability.may_remove_files
    if ends == "after the purge":
        log.purge_deleted(NOW_MS)
        assert not [name for name in disk.listdir(FOLDER) if name.endswith(".deleted")]
    for _ in range(restarts):
        open_test_log(disk, options=options)
    assert not found
    assert not [name for name in disk.listdir(FOLDER) if name.endswith(".deleted")]


def test_a_gap_in_unsynced_records_is_also_a_loss_in_a_compacted_log() -> None:
    disk = new_disk()
    config = small_config(cleanup_policy=frozenset({"compact"}))
    log = open_test_log(disk, config)
    for base in (0, 5, 9):
        log.append_as_follower(batch(base_offset=base, partition_leader_epoch=0))
        log.roll()
    disk.remove(f"{FOLDER}/00000000000000000001.log")
    assert open_test_log(disk, config).log_end_offset == 1


@pytest.mark.parametrize("seed", range(30))
def test_truncated_records_never_return(seed: int) -> None:
    """Also where gaps between segments are no sign of loss: the names are gone for good before the call returns."""
    disk = new_disk(seed)
    config = small_config(segment_bytes=300, cleanup_policy=frozenset({"compact"}))
    log = open_test_log(disk, config)
    for index in range(COUNT):
        log.append_as_leader(batch(b"%02d" % index * 20), 0)
    log.flush()
    log.truncate_to(7)
    disk.crash()
    assert open_test_log(disk, config, options=OpenOptions(recovery_point=COUNT)).log_end_offset == 7


def test_snapshots_beyond_a_truncation_are_deleted() -> None:
    """Later batches may get the same offsets: their producers are others."""
    disk = new_disk()
    written(disk, flushed=COUNT)
    log = open_test_log(disk, small_config(segment_bytes=500), options=OpenOptions(recovery_point=COUNT))
    snapshots = {int(name[:20]) for name in disk.listdir(FOLDER) if name.endswith(".snapshot")}
    assert max(snapshots) > 10 > min(snapshots)
    log.truncate_to(10)
    assert {int(name[:20]) for name in disk.listdir(FOLDER) if name.endswith(".snapshot")} == {
        offset for offset in snapshots if offset <= 10
    }
