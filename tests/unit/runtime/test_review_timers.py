"""Cancelled timers do not pile up: a deadline that is put off again and again costs one place, not thousands."""

import random

from kvorum.runtime.timers import Timer, Timers


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


def test_sweeping_keeps_the_order_of_what_is_wanted() -> None:
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
