"""Decisions of a keeper as tables, and its pauses between restarts."""

from typing import Any

import pytest

from kvorum.pipelines.connect.keeper import RESTARTS_MAX, Action, Memory, decide, report
from kvorum.pipelines.connect.state import Condition, Target
from kvorum.pipelines.run.failures import WELL_SECONDS
from kvorum.pipelines.run.state import State, Status
from tests.unit.pipelines.connect.fakes import status


def worker(state: State, trace: str | None = None, *, died: bool = False) -> Status:
    return status("a", state, trace, died=died)


@pytest.mark.parametrize(
    ("target", "seen", "facts", "action"),
    [
        (Target.STARTED, None, {}, Action.START),
        (Target.STARTED, None, {"is_failed": True}, Action.NOTHING),
        (Target.STARTED, None, {"is_finished": True}, Action.NOTHING),
        (Target.STARTED, None, {"retry_at": 0.5}, Action.NOTHING),
        (Target.STARTED, State.STARTING, {}, Action.NOTHING),
        (Target.STARTED, State.RUNNING, {}, Action.NOTHING),
        (Target.STARTED, State.PAUSED, {}, Action.RESUME),
        (Target.STARTED, State.RUNNING, {"restart": True}, Action.STOP),
        (Target.STARTED, State.RUNNING, {"is_changed": True}, Action.STOP),
        (Target.PAUSED, None, {}, Action.NOTHING),
        (Target.PAUSED, State.RUNNING, {}, Action.PAUSE),
        (Target.PAUSED, State.PAUSED, {}, Action.NOTHING),
        (Target.PAUSED, State.STARTING, {}, Action.NOTHING),
        (Target.STOPPED, State.RUNNING, {}, Action.STOP),
        (Target.STOPPED, State.STARTING, {}, Action.STOP),
        (Target.STOPPED, None, {}, Action.NOTHING),
        (None, State.PAUSED, {}, Action.STOP),
        (None, None, {}, Action.NOTHING),
    ],
)
def test_the_action_follows_from_target_and_worker(
    target: Target | None, seen: State | None, facts: dict[str, Any], action: Action
) -> None:
    is_changed = facts.pop("is_changed", False)
    found = None if seen is None else worker(seen)
    assert decide(target, found, Memory(**facts), is_changed=is_changed, now=0.0) is action


def test_a_process_that_ends_again_and_again_is_restarted_after_growing_pauses_and_then_failed() -> None:
    memory, now, pauses = Memory(), 0.0, []
    for _ in range(RESTARTS_MAX):
        memory.ended(worker(State.FAILED, "killed", died=True), now)
        assert decide(Target.STARTED, None, memory, is_changed=False, now=now) is Action.NOTHING
        assert report(Target.STARTED, None, memory).task is Condition.RESTARTING
        pauses.append(memory.retry_at - now)
        now = memory.retry_at
        assert decide(Target.STARTED, None, memory, is_changed=False, now=now) is Action.START
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0]
    memory.ended(worker(State.FAILED, "killed at last", died=True), now)
    assert decide(Target.STARTED, None, memory, is_changed=False, now=now + 10**9) is Action.NOTHING
    found = report(Target.STARTED, None, memory)
    assert (found.connector, found.task, found.trace) == (Condition.RUNNING, Condition.FAILED, "killed at last")


def test_a_process_that_ran_for_long_before_it_ended_is_a_first_failure() -> None:
    memory = Memory()
    for _ in range(RESTARTS_MAX + 1):
        memory.crashed("killed", 0.0)
    assert memory.is_failed
    memory.crashed("killed", WELL_SECONDS + 1)
    assert not memory.is_failed and memory.retry_at == WELL_SECONDS + 2


def test_a_failure_that_the_worker_reports_is_final() -> None:
    memory = Memory()
    memory.ended(worker(State.FAILED, "no such table"), 0.0)
    assert decide(Target.STARTED, None, memory, is_changed=False, now=10**9) is Action.NOTHING
    assert report(Target.STARTED, None, memory).task is Condition.FAILED
    memory.forget()
    assert decide(Target.STARTED, None, memory, is_changed=False, now=0.0) is Action.START


@pytest.mark.parametrize(
    ("target", "seen", "facts", "connector", "task"),
    [
        (Target.STARTED, None, {}, "RUNNING", "UNASSIGNED"),
        (Target.STARTED, worker(State.STARTING), {}, "RUNNING", "UNASSIGNED"),
        (Target.STARTED, worker(State.STARTING), {"trace": "killed"}, "RUNNING", "RESTARTING"),
        (Target.STARTED, worker(State.STARTING, "no broker"), {}, "RUNNING", "RESTARTING"),
        (Target.STARTED, worker(State.RUNNING), {"trace": "killed"}, "RUNNING", "RUNNING"),
        (Target.STARTED, None, {"trace": "killed"}, "RUNNING", "RESTARTING"),
        (Target.STARTED, None, {"is_finished": True}, "STOPPED", None),
        (Target.PAUSED, worker(State.PAUSED), {}, "PAUSED", "PAUSED"),
        (Target.PAUSED, None, {}, "PAUSED", None),
        (Target.STOPPED, None, {}, "STOPPED", None),
    ],
)
def test_states_are_connects(
    target: Target, seen: Status | None, facts: dict[str, Any], connector: str, task: str | None
) -> None:
    found = report(target, seen, Memory(**facts))
    assert (found.connector, found.task) == (connector, task)
