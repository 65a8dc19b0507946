"""Long work takes turns with the event loop by the clock, and ends as if it had been done at once."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from kvorum.quorum.slices import SLICE_S, Slices
from kvorum.quorum.steps import Steps, finish, pieces, used_up
from sim.loop import SimLoop


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop(random.Random(1))
    yield loop
    loop.close()


def work(loop: SimLoop, steps: int, step_s: float) -> Steps[int]:
    for _ in range(steps):
        loop._now += step_s
        yield
    return steps


def turns(loop: SimLoop, steps: int, step_s: float) -> int:
    """Count how often others come to run while so many steps of so long each are done."""
    seen = 0

    async def go() -> None:
        nonlocal seen
        done = False

        async def others() -> None:
            nonlocal seen
            while not done:
                seen += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(others())
        assert await Slices().run(work(loop, steps, step_s)) == steps
        done = True
        await other

    loop.run_until_complete(go())
    return seen


@pytest.mark.parametrize(("steps", "step_s"), [(1000, SLICE_S / 100), (100, SLICE_S / 10), (10, SLICE_S), (10, 0.1)])
def test_a_slice_ends_at_its_time_limit(loop: SimLoop, steps: int, step_s: float) -> None:
    """On a machine on which each step takes a hundred times as long there are a hundred times as many turns."""
    assert turns(loop, steps, step_s) == pytest.approx(10, abs=1)


def test_short_work_runs_without_a_slice(loop: SimLoop) -> None:
    assert turns(loop, 1000, 0.0) <= 1


def test_a_result_is_the_same_at_once_and_in_slices(loop: SimLoop) -> None:
    async def in_slices() -> int:
        return await Slices().run(work(loop, 7, 1.0))

    assert finish(work(loop, 7, 0.0)) == loop.run_until_complete(in_slices()) == 7


def test_work_that_is_cancelled_is_closed_and_a_fault_in_it_is_passed_on(loop: SimLoop) -> None:
    closed = []

    def endless() -> Steps[None]:
        try:
            while True:
                loop._now += SLICE_S
                yield
        finally:
            closed.append(True)

    def failing() -> Steps[None]:
        yield
        raise ValueError("in a step")

    async def go() -> None:
        task = asyncio.ensure_future(Slices().run(endless()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == [True]
        with pytest.raises(ValueError, match="in a step"):
            await Slices().run(failing())

    loop.run_until_complete(go())


def test_pieces_are_all_of_it_in_order() -> None:
    assert list(pieces(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(pieces((), 3)) == []


def test_used_buffers_are_released_in_order() -> None:
    items = [[number] for number in range(5)]
    for number, item in enumerate(used_up(items)):
        assert item == [number] and len(items) == 4 - number
    assert items == []
