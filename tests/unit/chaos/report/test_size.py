"""However long the run, the file stays small and the work grows no faster than the history."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from kvorum.chaos.checker import Figures, Verdict, Violation, check
from kvorum.chaos.history import AnyEvent, Fault, Finish, Invoke, Metadata, Note, Ok, Process, Start, TopicShape
from kvorum.chaos.report.page import write_html
from tests.unit.chaos.report.made_history import Plan, made

MEGABYTE = 1_000_000


def soak(operations: int, faults: int, partitions: int) -> Iterator[AnyEvent]:
    """A long run with everything in it that could make a page grow."""
    shape = {"many": TopicShape(partitions=partitions, replication_factor=3)}
    yield Start(t=0.0, scenario="soak", topics=shape)
    yield Metadata(t=0.0, offset=0, record={"type": "Topic", "name": "many", "topic_id": "T"})
    for index in range(partitions):
        fields: dict[str, object] = {"partition_id": index, "isr": [1, 2, 3], "leader": 1, "leader_epoch": 0}
        yield Metadata(t=0.0, offset=1 + index, record={"type": "Partition", "topic_id": "T", **fields})
    every = max(1, operations // max(1, faults))
    for op in range(operations):
        t = op * 0.001
        name = f"many-{op % partitions}"
        yield Invoke(t=t, op=op, process=1, f="send", value=[["send", name, op]])
        yield Ok(t=t + 0.0005, op=op, process=1, f="send", value=[["send", name, op, op // partitions]])
        if op % every == 0:
            number = op // every
            where, story = [f"node-{number % 40}"], f"kill -9 node-{number % 40} " + "with a long story " * 20
            yield Process(t=t, process=100 + number, client=f"client {number}")
            yield Fault(t=t, fault="kill", id=number, phase="begin", targets=where, story=story)
            yield Fault(t=t + 0.0004, fault="kill", id=number, phase="end", targets=where)
            change = {"type": "PartitionChange", "topic_id": "T", "partition_id": number % min(partitions, 3)}
            change |= {"leader": number % 3 + 1, "isr": [number % 3 + 1]}
            yield Metadata(t=t, offset=10_000_000 + number, epoch=number, record=change)
            yield Note(t=t, text=story)
    yield Finish(t=operations * 0.001)


def worst(operations: int) -> Verdict:
    """A verdict with more violations and longer ones than anybody wants to read."""
    story = ["a sentence of a story that goes on " * 4] * 42
    found = [
        Violation(
            anomaly="lost-write", partition=f"many-{n}", values=list(range(1000)), count=5000, story=story, reason="r"
        )
        for n in range(2000)
    ]
    figures = Figures(duration=operations * 0.001, acked=operations, operations={"send": {"ok": operations}})
    return Verdict(violations=found, explained=found, figures=figures)


def test_the_file_stays_small_however_long_the_run(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html(path, soak(100_000, 20_000, 500), worst(100_000))
    assert path.stat().st_size < 6 * MEGABYTE
    before = path.stat().st_size
    write_html(path, soak(20_000, 20_000, 500), worst(20_000))
    assert path.stat().st_size > before * 0.8, "what makes it large is what is bounded, not the run's length"


def test_a_quiet_page_is_a_tenth_of_a_megabyte(tmp_path: Path) -> None:
    events = made(Plan())
    path = tmp_path / "report.html"
    write_html(path, events, check(events))
    assert path.stat().st_size < MEGABYTE / 10


def test_work_grows_with_the_history(tmp_path: Path) -> None:
    """Four times the events execute at most five times the lines, so no step is quadratic in Python code."""

    def lines_executed(operations: int) -> int:
        figures = Figures(duration=operations * 0.001, acked=operations)
        verdict = Verdict(violations=[], explained=[], figures=figures)
        events = list(soak(operations, operations // 100, 30))
        lines = 0

        def count(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal lines
            lines += 1
            return count

        traced = sys.gettrace()
        sys.settrace(count)
        try:
            write_html(tmp_path / "report.html", events, verdict)
        finally:
            sys.settrace(traced)
        return lines

    assert 0 < lines_executed(16_000) <= 5 * lines_executed(4_000)
