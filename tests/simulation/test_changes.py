"""An operator's changes in simulated clusters: drawn, carried out, and what they may delete and what not."""

import os
import random
import subprocess
import sys
from random import Random

import msgspec
import pytest

from kvorum.broker.replica import partition_reads
from kvorum.protocol.records import Record, build_batch, patch_place
from kvorum.storage import log_retention
from kvorum.storage.names import LOG_SUFFIX, segment_file
from sim.changes import DRAWN, KINDS, add_changes
from sim.disk import SimDisk
from sim.draw import draw_plan
from sim.ledger import Entry, Ledger, ReplicaLog
from sim.log_starts import UNTIL_HIGH_WATERMARK, LogStarts
from sim.plan import Fault, Options, Plan, draw_options, from_json, to_json
from sim.run import Outcome, run_plan

TRACE = """
from random import Random
from sim.changes import DRAWN
from sim.plan import Plan, draw_options
from sim.run import run_plan
rng = Random(11)
options = draw_options(rng)
faults = [fault for place, kind in enumerate(sorted(DRAWN)) for fault in DRAWN[kind](rng, options, 2.0 + place)]
faults = sorted(faults, key=lambda fault: fault.at)
outcome = run_plan(Plan(seed=11, seconds=12.0, options=options, faults=faults))
print(outcome.trace, sum(outcome.faults.values()), outcome.kind)
"""


def stage(**changed: object) -> Options:
    """Three quiet brokers that write all the time and look at retention twice a second."""
    options = draw_options(Random(4))
    load = msgspec.structs.replace(
        options.load, producers=[(-1, True)], consumers=1, every_s=0.05, admin_every_s=1000.0, burst_s=0.0
    )
    base: dict[str, object] = {
        "controllers": 1,
        "brokers": 3,
        "combined": False,
        "partitions": 1,
        "replication_factor": 3,
        "min_isr": 2,
        "retention_check_ms": 500,
        "checkpoint_starts_ms": 500,
        "delay_max_s": 0.001,
        "load": load,
        "fault_kinds": ["kill"],
    }
    return msgspec.structs.replace(options, **{**base, **changed})


def run(*faults: Fault, seconds: float = 8.0, **changed: object) -> Outcome:
    return run_plan(Plan(seed=4, seconds=seconds, options=stage(**changed), faults=list(faults)))


SMALL_SEGMENTS = Fault(at=0.1, kind="segment", detail="segment.ms=200")


def test_seeds_together_reach_every_kind_of_change_and_some_have_none() -> None:
    plans = [draw_plan(seed) for seed in range(200)]
    assert {fault.kind for plan in plans for fault in plan.faults} >= {*KINDS}
    assert any(not {*KINDS} & {fault.kind for fault in plan.faults} for plan in plans)


def test_a_seed_without_changes_is_not_changed_by_them() -> None:
    seeds = [seed for seed in range(40) if not {*KINDS} & {fault.kind for fault in draw_plan(seed).faults}]
    assert seeds
    for seed in seeds:
        options, faults = add_changes(
            Random(f"kvorum changes {seed}"), draw_plan(seed).options, draw_plan(seed).faults, 60.0
        )
        assert (options, faults) == (draw_plan(seed).options, draw_plan(seed).faults)


def test_plans_with_changes_are_read_back_and_make_sense() -> None:
    for seed in range(60):
        plan = draw_plan(seed)
        assert from_json(to_json(plan)) == plan
        assert {fault.kind for fault in plan.faults} <= {*plan.options.fault_kinds}
        for fault in plan.faults:
            assert fault.kind != "min_isr" or 1 <= int(fault.detail) <= plan.options.replication_factor
            assert fault.kind != "unregister" or 1 <= int(fault.target) <= plan.options.brokers


def test_schedules_of_before_have_no_retention() -> None:
    assert stage(retention_check_ms=300_000).checkpoint_starts_ms == 500
    data = msgspec.to_builtins(draw_plan(1).options)
    del data["retention_check_ms"], data["checkpoint_starts_ms"]
    assert msgspec.convert(data, Options).retention_check_ms == 300_000


def test_every_change_is_carried_out_and_reported() -> None:
    faults = [
        Fault(at=0.5, kind="min_isr", target="topic", detail="1"),
        Fault(at=1.0, kind="min_isr", target="cluster", detail="2"),
        Fault(at=1.5, kind="unclean", target="topic", detail="true"),
        Fault(at=2.0, kind="grow"),
        Fault(at=2.5, kind="elr", detail="0"),
        Fault(at=3.0, kind="elr", detail="1"),
        Fault(at=3.5, kind="delete_records", target="0", amount=0.5),
        Fault(at=3.6, kind="quota", target="user", detail="producer_byte_rate=5000"),
        Fault(at=3.8, kind="quota", target="client-id", detail="consumer_byte_rate=50000"),
        Fault(at=3.9, kind="quota", target="user", detail="producer_byte_rate="),
        Fault(at=4.0, kind="kill", target="1", role="broker", length=4.0),
        Fault(at=6.5, kind="unregister", target="1"),
    ]
    outcome = run(SMALL_SEGMENTS, *faults)
    assert outcome.kind is None, outcome.message
    answers = [text for _, text in outcome.lines if text.startswith("the operator's")]
    assert len(answers) == 12 and all(text.endswith("NONE") for text in answers), answers
    assert set(outcome.faults) == {*("kill", "segment"), *(fault.kind for fault in faults)}


@pytest.mark.parametrize("detail", ["retention.ms=1000", "retention.bytes=1000"])
def test_retention_is_legal_in_the_checker(detail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted = watch_retention(monkeypatch, more=0)
    outcome = run(SMALL_SEGMENTS, Fault(at=1.0, kind="retention", detail=detail))
    assert outcome.kind is None, outcome.message
    assert sum(deleted) > 3


def test_retention_that_deletes_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    watch_retention(monkeypatch, more=1)
    outcome = run(SMALL_SEGMENTS, Fault(at=1.0, kind="retention", detail="retention.ms=100000"))
    assert outcome.kind == "LogStart", outcome.message


def watch_retention(monkeypatch: pytest.MonkeyPatch, *, more: int) -> list[int]:
    """Note how many segments go each time; let `more` go than may."""
    counts: list[int] = []
    real = log_retention.deletable_count

    def counted(segments, *rest):  # type: ignore[no-untyped-def]
        count = min(real(segments, *rest) + more, len(segments) - 1)
        counts.append(count)
        return count

    monkeypatch.setattr(log_retention, "deletable_count", counted)
    return counts


def test_deleting_above_the_offset_requested_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = partition_reads.delete_records_on_leader

    def more(partition, offset):  # type: ignore[no-untyped-def]
        return real(partition, offset + 1)

    monkeypatch.setattr("kvorum.broker.replica.appends.delete_records_on_leader", more)
    outcome = run(Fault(at=3.0, kind="delete_records", target="0", amount=0.4))
    assert outcome.kind == "LogStart", outcome.message


def test_changes_are_the_same_in_any_process() -> None:
    traces = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", TRACE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        traces.append(done.stdout)
    assert traces[0] == traces[1]
    assert set(DRAWN) == set(KINDS)


# The ledger's side.


def entries_of(count: int) -> list[Entry]:
    return [Entry(base, base + 1, 0, base, timestamp=1_000 * base, size=100) for base in range(count)]


def moved(starts: LogStarts, before: int, after: int, wall_ms: int | None = 0, end: int = 10) -> str | None:
    return starts.check_move(before, after, committed_end=end, batches=entries_of(10), wall_ms=wall_ms)


def test_an_unrequested_log_start_is_a_violation() -> None:
    starts = LogStarts()
    assert "no request" in str(moved(starts, 0, 1))
    assert starts.highest == 0


def test_records_are_deleted_up_to_the_offset_requested_and_no_further() -> None:
    starts = LogStarts()
    starts.note_request(4)
    assert moved(starts, 0, 4) is None and starts.highest == 4
    assert moved(starts, 0, 3) is None, "a follower may be behind"
    assert starts.highest == 4
    assert moved(starts, 4, 5) is not None
    starts.note_request(UNTIL_HIGH_WATERMARK)
    assert moved(starts, 4, 10) is None
    assert "committed is everything below 10" in str(moved(starts, 10, 11))


def test_retention_by_time_uses_the_replicas_clock() -> None:
    starts = LogStarts()
    starts.retention.take({"retention.ms": "5000"})
    assert moved(starts, 0, 3, wall_ms=7_000) is None
    assert moved(starts, 3, 5, wall_ms=8_000) is not None
    assert moved(starts, 3, 5, wall_ms=None) is None, "a clock that jumped is nobody's fault"


def test_retention_by_size_keeps_its_size() -> None:
    starts = LogStarts()
    starts.retention.take({"retention.bytes": "600"})
    assert moved(starts, 0, 4) is None
    assert moved(starts, 4, 5) is not None


def test_no_limit_ever_in_force_is_over() -> None:
    starts = LogStarts()
    for value in ("600", "900", "-1"):
        starts.retention.take({"retention.bytes": value})
    assert moved(starts, 0, 4) is None


def disk_with(first: int, end: int) -> SimDisk:
    """A log that begins at `first`."""
    disk = SimDisk(random.Random(1))
    disk.mkdir("/d")
    file = disk.open(segment_file("/d", first, LOG_SUFFIX), create=True)
    for offset in range(first, end):
        batch = build_batch([Record(value=str(offset).encode(), timestamp=1)])
        patch_place(memoryview(batch), 0, offset, 0)
        file.pwrite(batch, file.size())
    return disk


def shadow_of(first: int, end: int) -> ReplicaLog:
    shadow = ReplicaLog(disk_with(first, end), "/d")
    shadow.follow(end)
    return shadow


def test_records_below_a_replicas_log_start_are_not_missing() -> None:
    ledger = Ledger("orders-0")
    ledger.commit(shadow_of(0, 6), 6, "leader")
    assert ledger.missing_batches(shadow_of(4, 6)) is None
    assert "ends at 5" in str(ledger.missing_batches(shadow_of(4, 5)))


def test_batches_that_a_later_start_leaves_out_may_become_known() -> None:
    """After an unclean loss a log began at 4, above all committed records; then a leader committed more below."""
    ledger = Ledger("orders-0")
    ledger.commit(shadow_of(0, 2), 2, "leader")
    above = shadow_of(4, 6)
    assert ledger.missing_batches(above) is None
    ledger.commit(shadow_of(0, 6), 6, "leader")
    assert ledger.missing_batches(above) is None
    ledger.verify(above, 6, "follower")
    assert above.verified_below == 6


def test_nothing_is_known_of_batches_that_a_leaders_log_leaves_out() -> None:
    ledger = Ledger("orders-0")
    ledger.commit(shadow_of(0, 2), 2, "leader")
    assert ledger.commit(shadow_of(4, 6), 6, "unclean leader") and ledger.end == 6
    whole = shadow_of(0, 6)
    ledger.verify(whole, 6, "follower")
    assert ledger.missing_batches(whole) is None


def test_a_shadow_starts_again_where_its_leaders_log_begins() -> None:
    ledger = Ledger("orders-0")
    ledger.commit(shadow_of(0, 6), 6, "leader")
    behind = shadow_of(0, 2)
    behind.begin_at(4)
    assert behind.end == 4 and behind.entries == []
    behind.follow(3)
    assert behind.end == 3
