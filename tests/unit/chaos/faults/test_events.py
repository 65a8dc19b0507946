"""Faults have one beginning and one end each, told in order."""

import pytest

from kvorum.chaos import history
from kvorum.chaos.faults.events import FaultRegister, nothing


def register() -> tuple[FaultRegister, list[history.Fault], list[str]]:
    events: list[history.Fault] = []
    deeds: list[str] = []
    ticks = iter(range(100))
    return FaultRegister(events.append, lambda: next(ticks) + 0.12345678), events, deeds


def test_a_fault_is_reported_before_it_is_done_and_again_after_it_is_undone() -> None:
    faults, events, deeds = register()
    fault = faults.begin(
        "kill",
        ["node-1"],
        "kill -9 node-1",
        do=lambda: deeds.append(f"done after {len(events)}"),
        undo=lambda: deeds.append(f"undone after {len(events)}"),
        lossy=True,
    )
    assert faults.in_force("kill", target="node-1") == [fault] and not faults.in_force("wipe")
    fault.end()
    fault.end()
    assert deeds == ["done after 1", "undone after 1"]
    begin, end = events
    assert begin == history.Fault(
        t=0.123457, fault="kill", id=1, phase="begin", targets=["node-1"], lossy=True, story="kill -9 node-1"
    )
    assert (end.id, end.phase, end.t, faults.in_force()) == (1, "end", 1.123457, [])


def test_the_result_is_part_of_the_ends_story() -> None:
    faults, events, _ = register()
    faults.at_once("lose_tail", ["node-1"], "power loss", lambda: "100 bytes lost")
    assert [(event.phase, event.story) for event in events] == [
        ("begin", "power loss"),
        ("end", "power loss: 100 bytes lost"),
    ]


def test_a_fault_that_could_not_be_done_is_over_and_not_in_force() -> None:
    faults, events, _ = register()

    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        faults.begin("kill", ["node-1"], "kill", do=fail, undo=nothing)
    assert [event.phase for event in events] == ["begin", "end"] and not faults.in_force()


def test_a_fault_that_could_not_be_undone_stays_in_force() -> None:
    faults, events, _ = register()
    failing = [True]

    def undo() -> None:
        if failing:
            raise OSError("not yet")

    fault = faults.begin("refuse", ["a", "b"], "cut", undo=undo)
    with pytest.raises(OSError, match="not yet"):
        fault.end()
    assert faults.in_force() == [fault] and len(events) == 1
    failing.clear()
    with fault:
        pass
    assert len(events) == 2 and not faults.in_force()


def test_a_fault_that_was_undone_otherwise_is_removed_once() -> None:
    faults, events, deeds = register()
    fault = faults.begin("kill", ["node-1"], "kill", undo=lambda: deeds.append("undone"))
    faults.dismiss(fault)
    faults.dismiss(fault)
    fault.end()
    assert not deeds and [event.phase for event in events] == ["begin", "end"]
