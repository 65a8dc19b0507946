"""Sessions: put off by each heartbeat, over when nothing was heard for their time, whatever their timers do."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kvorum.broker.coordinator.group.session import Session
from kvorum.runtime.timers import Timer, Timers


@dataclass
class Desk:
    """Time that is moved by hand."""

    now: int = 1_000
    timers: Timers = field(default_factory=Timers)
    ended: list[int] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.now

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self.timers.at(self.now + delay_ms, callback)

    def until(self, now: int) -> None:
        """Let time pass, one deadline after the other."""
        while (due := self.timers.next_deadline_ms()) is not None and due <= now:
            self.now = due
            self.timers.advance(due)
        self.now = now

    def session(self, timeout_ms: int) -> Session:
        return Session(self, timeout_ms, lambda: self.ended.append(self.now))


def test_it_expires_without_requests() -> None:
    desk = Desk()
    desk.session(500)
    desk.until(1_499)
    assert desk.ended == []
    desk.until(10_000)
    assert desk.ended == [1_500]


def test_each_heartbeat_puts_the_end_off_and_adds_no_timer() -> None:
    desk = Desk()
    session = desk.session(500)
    for now in range(1_100, 5_000, 100):
        desk.until(now)
        session.renew(500)
        assert len(desk.timers) == 1
    assert desk.ended == []
    desk.until(10_000)
    assert desk.ended == [4_900 + 500]


@pytest.mark.parametrize(("timeout_ms", "end"), [(200, 1_300), (400, 1_500), (700, 1_800)])
def test_it_starts_again_with_another_time(timeout_ms: int, end: int) -> None:
    desk = Desk()
    session = desk.session(500)
    desk.until(1_100)
    session.renew(timeout_ms)
    desk.until(10_000)
    assert desk.ended == [end]


def test_one_that_ended_and_was_kept_starts_again() -> None:
    desk = Desk()
    session = desk.session(500)
    desk.until(1_600)
    session.renew(500)
    desk.until(10_000)
    assert desk.ended == [1_500, 2_100]


def test_one_that_was_cancelled_does_not_end() -> None:
    desk = Desk()
    session = desk.session(500)
    desk.until(1_100)
    session.renew(500)
    session.cancel()
    session.cancel()
    desk.until(10_000)
    assert desk.ended == []
