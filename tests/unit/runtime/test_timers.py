"""Deadlines come due in order, and only while they are wanted."""

import random
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from kvorum.runtime.timers import Timer, Timers


def test_nothing_is_due_before_its_deadline() -> None:
    timers, called = Timers(), list[str]()
    timers.at(10, lambda: called.append("a"))
    assert timers.advance(9) == 0
    assert called == []
    assert timers.advance(10) == 1
    assert called == ["a"]
    assert timers.advance(1_000) == 0


def test_due_timers_fire_by_deadline_then_by_insertion() -> None:
    timers, called = Timers(), list[str]()
    for name, deadline in (("c", 20), ("a", 10), ("d", 20), ("b", 10)):
        timers.at(deadline, partial(called.append, name))
    assert timers.advance(20) == 4
    assert called == ["a", "b", "c", "d"]


def test_a_cancelled_timer_neither_fires_nor_counts_as_the_next_deadline() -> None:
    timers, called = Timers(), list[str]()
    first = timers.at(10, lambda: called.append("first"))
    timers.at(20, lambda: called.append("second"))
    first.cancel()
    first.cancel()
    assert timers.next_deadline_ms() == 20
    assert timers.advance(100) == 1
    assert called == ["second"]
    assert timers.next_deadline_ms() is None


def test_a_timer_can_cancel_another_that_is_due_at_the_same_time() -> None:
    timers, called = Timers(), list[str]()
    victims: list[Timer] = []
    timers.at(10, lambda: victims[0].cancel())
    victims.append(timers.at(10, lambda: called.append("victim")))
    assert timers.advance(10) == 1
    assert called == []


def test_a_timer_added_by_a_callback_fires_in_the_same_advance_if_due() -> None:
    timers, called = Timers(), list[int]()

    def add_another() -> None:
        timers.at(5, lambda: called.append(5))

    timers.at(10, add_another)
    timers.at(30, lambda: called.append(30))
    assert timers.advance(10) == 2
    assert called == [5]
    assert timers.next_deadline_ms() == 30


def test_cancelling_a_timer_that_has_fired_changes_nothing() -> None:
    timers, called = Timers(), list[int]()
    timer = timers.at(1, lambda: called.append(1))
    timers.advance(1)
    timer.cancel()
    assert called == [1]


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=40), st.lists(st.integers(0, 60), max_size=10))
def test_each_active_timer_fires_exactly_once_at_its_time(wanted: list[tuple[int, bool]], steps: list[int]) -> None:
    timers, called = Timers(), list[int]()
    for number, (deadline, kept) in enumerate(wanted):
        timer = timers.at(deadline, partial(called.append, number))
        if not kept:
            timer.cancel()
    now = -1
    for now in sorted(steps):
        timers.advance(now)
        expected = {number for number, (deadline, kept) in enumerate(wanted) if kept and deadline <= now}
        assert set(called) == expected
    assert len(called) == len(set(called))
    assert [wanted[number][0] for number in called] == sorted(wanted[number][0] for number in called)


def test_a_deadline_that_is_put_off_again_and_again_takes_bounded_room() -> None:
    timers, called = Timers(), list[int]()
    for number in range(10):
        timers.at(1_000_000 + number, lambda number=number: called.append(number))  # type: ignore[misc]
    put_off: Timer | None = None
    for now in range(10_000):
        if put_off is not None:
            put_off.cancel()
        put_off = timers.at(now + 45_000, lambda: called.append(-1))
        assert len(timers) <= 200
    assert timers.advance(2_000_000) == 11
    assert called == [-1, *range(10)]


def test_sweeping_keeps_the_order_of_active_timers() -> None:
    rng = random.Random(3)
    timers, called, wanted = Timers(), list[tuple[int, int]](), list[tuple[int, int]]()
    for number in range(2_000):
        deadline = rng.randrange(50)
        timer = timers.at(deadline, lambda place=(deadline, number): called.append(place))  # type: ignore[misc]
        if rng.random() < 0.9:
            timer.cancel()
        else:
            wanted.append((deadline, number))
    assert timers.advance(50) == len(wanted)
    assert called == sorted(wanted)
