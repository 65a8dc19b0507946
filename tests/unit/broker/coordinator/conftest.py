"""A coordinator's partition on a model log, in virtual time."""

import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from sim.loop import SimLoop

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop(random.Random(1))
    yield made
    made.close()


@pytest.fixture
def run(loop: SimLoop) -> Run:
    return loop.run_until_complete
