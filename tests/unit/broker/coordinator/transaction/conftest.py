"""Stories end with nothing under way, and with no fault that nobody looked at."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from sim.loop import SimLoop
from tests.unit.broker.coordinator.conftest import Run


@pytest.fixture
def run(loop: SimLoop) -> Run:
    async def whole(story: Coroutine[Any, Any, None]) -> None:
        await story
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        assert not loop.errors

    return lambda story: loop.run_until_complete(whole(story))
