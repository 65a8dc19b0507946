"""What every process of a role does around its server."""

import asyncio
import gc
from collections.abc import Iterator
from typing import cast

import pytest

from kvorum.cluster.process import hosting
from kvorum.cluster.process.exits import Exit
from kvorum.cluster.process.hosting import (
    YOUNG_LOOKS_MAX,
    YOUNG_OBJECTS_MAX,
    StopReason,
    handle_loop_exception,
    look_for_cycles_less,
)
from kvorum.network.dial import ConnectionLost
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.logs import Logger, observe_unexpected


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """Which generations the garbage collector has looked through; as it was before, afterwards."""
    found: list[int] = []

    def looked(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    before = gc.get_threshold()
    gc.callbacks.append(looked)
    yield found
    gc.callbacks.remove(looked)
    gc.unfreeze()
    gc.set_threshold(*before)


def test_requests_in_hand_are_not_looked_through_for_garbage(looks: list[int]) -> None:
    look_for_cycles_less()
    gc.collect()
    frozen = gc.get_freeze_count()
    looks.clear()
    in_hand = [[number] for number in range(YOUNG_OBJECTS_MAX // 2)]
    assert looks == [] and frozen > 0
    in_hand += [[number] for number in range(YOUNG_OBJECTS_MAX)]
    assert looks, "and garbage is found in the end"


def test_surviving_objects_are_collected_in_small_steps(looks: list[int]) -> None:
    """Many at a time hold the event loop for long; everything is looked through as rarely as by Python's own rule."""
    look_for_cycles_less()
    gc.collect()
    looks.clear()
    in_hand = [[number] for number in range(YOUNG_OBJECTS_MAX * (YOUNG_LOOKS_MAX + 3))]
    assert looks.index(1) == YOUNG_LOOKS_MAX + 1 and 2 not in looks
    assert len(in_hand) > YOUNG_OBJECTS_MAX


@pytest.mark.parametrize(
    ("what", "error", "ends"),
    [
        ("Exception in callback", ValueError("ours"), True),
        ("Future exception was never retrieved", ValueError("nobody's"), False),
        ("Task exception was never retrieved", ValueError("nobody's"), False),
        ("ValueError exception in shielded future", ValueError("nobody's: of Python 3.14"), False),
        ("Unclosed transport", None, False),
        ("Exception in callback", OSError("disk"), True),
    ],
)
@pytest.mark.unexpected("ValueError", "OSError: disk")
def test_an_unretrieved_exception_is_logged_and_any_other_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, what: str, error: BaseException | None, ends: bool
) -> None:
    ended: list[object] = []
    monkeypatch.setattr(hosting, "crash", ended.append)
    loop = asyncio.new_event_loop()
    handle_loop_exception(loop, {"message": what, "exception": error})
    loop.close()
    assert bool(ended) is ends


@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.NOT_CONTROLLER), ConnectionLost("x", maybe_sent=True), OSError()]
)
def test_an_expected_exception_that_is_never_read_is_no_unexpected_one(error: Exception) -> None:
    """The test fails where it is logged as unexpected."""
    loop = asyncio.new_event_loop()
    handle_loop_exception(loop, {"message": "Future exception was never retrieved", "exception": error})
    loop.close()


@pytest.mark.parametrize(
    ("error", "logged", "code"),
    [(ValueError("bug"), 1, Exit.FATAL), (OSError(28, "No space left"), 0, Exit.DATA_REFUSED)],
    ids=["bug", "full disk"],
)
def test_a_process_that_ends_itself_logs_a_bug_as_unexpected_and_a_failed_disk_not(
    error: Exception, logged: int, code: Exit, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []
    found: list[BaseException] = []
    monkeypatch.setattr(hosting, "crash", ended.append)

    async def end() -> None:
        StopReason().fault(error, "/data")

    with observe_unexpected(lambda where, error: found.append(error)):
        asyncio.run(end())
    assert (len(found), ended) == (logged, [code])


def test_a_process_reports_why_it_is_not_ready_once_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(["a", "a", "a", "a", "a", "b", None, "short", None, "c", "c", None])
    """Two while it waits, the second after the time; one while it is ready."""
    logged: list[object] = []
    reported: list[str] = []
    looked = asyncio.Semaphore(0)
    changed = asyncio.Event()

    class Lines:
        def warning(self, text: str, **fields: object) -> None:
            logged.append(fields["reason"])

    def not_ready() -> str | None:
        reason = next(looks)
        if reason is None:
            looked.release()
        return reason

    async def story() -> None:
        async with hosting.report_waiting(cast(Logger, Lines()), not_ready, changed):
            for _ in range(3):
                await looked.acquire()
                changed.set()

    monkeypatch.setattr(hosting, "WAITING_SECONDS", 0)
    monkeypatch.setattr(hosting.readiness, "report", reported.append)
    asyncio.run(story())
    assert logged == reported == ["a", "b", "c"]
    assert next(looks, "none left") == "none left"


def test_a_process_that_is_ready_is_not_looked_at_again_until_something_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def not_ready() -> None:
        nonlocal looks
        looks += 1

    async def story() -> None:
        async with hosting.report_waiting(cast(Logger, None), not_ready, changed := asyncio.Event()):
            for _ in range(20):
                await asyncio.sleep(0)
            assert looks == 1
            changed.set()
            for _ in range(20):
                await asyncio.sleep(0)
            assert looks == 2

    monkeypatch.setattr(hosting, "WAITING_SECONDS", 0)
    asyncio.run(story())
