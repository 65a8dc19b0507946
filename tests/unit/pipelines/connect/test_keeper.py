"""What a keeper decides, as tables; and its back-off."""

import pytest

from kvorum.pipelines.connect.keeper import (
    BACKOFF_MS_MAX,
    FAILURES_MAX,
    STEADY_MS,
    Action,
    Memory,
    backoff_ms,
    decide,
    report,
)
from kvorum.pipelines.connect.records import Condition, Target
from kvorum.pipelines.connect.runner import Worker
from kvorum.pipelines.run.state import State

REVISION = "r1"


def worker(state: State, *, alive: bool | None = None, revision: str | None = REVISION) -> Worker:
    if alive is None:
        alive = state in (State.STARTING, State.RUNNING, State.PAUSED)
    return Worker(alive=alive, state=state, revision=revision)


@pytest.mark.parametrize(
    ("wanted", "seen", "action"),
    [
        (Target.STARTED, None, Action.START),
        (Target.STARTED, worker(State.STARTING), Action.NOTHING),
        (Target.STARTED, worker(State.RUNNING), Action.NOTHING),
        (Target.STARTED, worker(State.PAUSED), Action.RESUME),
        (Target.STARTED, worker(State.STOPPED), Action.START),
        (Target.STARTED, worker(State.FAILED), Action.START),
        (Target.STARTED, worker(State.FINISHED), Action.NOTHING),
        (Target.STARTED, worker(State.FINISHED, revision="old"), Action.START),
        (Target.STARTED, worker(State.RUNNING, revision="old"), Action.STOP),
        (Target.STARTED, worker(State.RUNNING, revision=None), Action.STOP),
        (Target.PAUSED, None, Action.NOTHING),
        (Target.PAUSED, worker(State.RUNNING), Action.PAUSE),
        (Target.PAUSED, worker(State.PAUSED), Action.NOTHING),
        (Target.PAUSED, worker(State.STARTING), Action.NOTHING),
        (Target.PAUSED, worker(State.FAILED), Action.NOTHING),
        (Target.STOPPED, worker(State.RUNNING), Action.STOP),
        (Target.STOPPED, worker(State.STARTING), Action.STOP),
        (Target.STOPPED, worker(State.STOPPED), Action.NOTHING),
        (Target.STOPPED, None, Action.NOTHING),
        (None, worker(State.PAUSED), Action.STOP),
        (None, worker(State.FAILED), Action.NOTHING),
        (None, None, Action.NOTHING),
    ],
)
def test_what_is_done_follows_from_what_is_wanted_and_seen(
    wanted: Target | None, seen: Worker | None, action: Action
) -> None:
    assert decide(wanted, REVISION, seen, Memory(), 0) is action


def test_a_restart_ends_what_runs_and_starts_what_is_finished() -> None:
    memory = Memory(restart=True)
    assert decide(Target.STARTED, REVISION, worker(State.RUNNING), memory, 0) is Action.STOP
    assert decide(Target.STARTED, REVISION, worker(State.STOPPED), memory, 0) is Action.START
    assert decide(Target.STARTED, REVISION, worker(State.FINISHED), memory, 0) is Action.START


def test_a_failed_worker_is_started_after_a_back_off_that_doubles_until_it_is_given_up() -> None:
    memory, now, waits = Memory(), 0, []
    for _ in range(FAILURES_MAX - 1):
        memory.failed("why", now)
        memory.failed("why", now + 1)  # the same one, seen again
        assert decide(Target.STARTED, REVISION, worker(State.FAILED), memory, now) is Action.NOTHING
        waits.append(memory.retry_at_ms - now)
        now = memory.retry_at_ms
        assert decide(Target.STARTED, REVISION, worker(State.FAILED), memory, now) is Action.START
        memory.counted = False
    assert waits == [1000, 2000, 4000, 8000, 16000]
    memory.failed("at last", now)
    assert decide(Target.STARTED, REVISION, worker(State.FAILED), memory, now + 10**9) is Action.NOTHING
    told = report(Target.STARTED, worker(State.FAILED), memory)
    assert (told.connector, told.task, told.trace) == (Condition.RUNNING, Condition.FAILED, "at last")
    assert backoff_ms(50) == BACKOFF_MS_MAX


def test_who_ran_long_enough_is_forgiven() -> None:
    memory = Memory()
    memory.failed("why", 0)
    memory.runs(1000)
    memory.runs(1000 + STEADY_MS - 1)
    assert memory.failures == 1
    memory.runs(1000 + STEADY_MS)
    assert memory.failures == 0


@pytest.mark.parametrize(
    ("wanted", "seen", "failures", "connector", "task"),
    [
        (Target.STARTED, None, 0, "RUNNING", "UNASSIGNED"),
        (Target.STARTED, worker(State.STARTING), 0, "RUNNING", "UNASSIGNED"),
        (Target.STARTED, worker(State.STARTING), 1, "RUNNING", "RESTARTING"),
        (Target.STARTED, worker(State.RUNNING), 1, "RUNNING", "RUNNING"),
        (Target.STARTED, worker(State.FAILED), 1, "RUNNING", "RESTARTING"),
        (Target.STARTED, worker(State.FINISHED), 0, "STOPPED", None),
        (Target.PAUSED, worker(State.PAUSED), 0, "PAUSED", "PAUSED"),
        (Target.PAUSED, None, 0, "PAUSED", None),
        (Target.PAUSED, None, 0, "PAUSED", None),
        (Target.STOPPED, worker(State.STOPPED), 0, "STOPPED", None),
    ],
)
def test_what_is_told_is_in_connects_words(
    wanted: Target, seen: Worker | None, failures: int, connector: str, task: str | None
) -> None:
    told = report(wanted, seen, Memory(failures=failures))
    assert (told.connector, told.task) == (connector, task)
