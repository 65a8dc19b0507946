"""Feeds SOURCE by transactions that move money between its partitions; some abort themselves, some are left open.

Each record is a value with an amount; the amounts of one transaction add up to nothing, so those of all visible ones do
(the bank's sum). Now and then a feeder dies, in the middle of a transaction or not, and another takes over its id.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from sim.client import SimClient
from sim.coordination import SOURCE
from sim.plan import Coordination
from sim.transactor import Draft, Transactor
from sim.workload import Recorder

T = TypeVar("T")

LEFT_OPEN: Final = 0.05
"""Share of transactions that are left open by a death."""
DOUBLED: Final = 0.05
"""Share that a replaced feeder holds back and then tries to end: a zombie."""
PAUSES: Final = 0.2
"""Share that stay open for a while after their last record."""
PAUSE_S: Final = 0.3
ZOMBIE_S: Final = 1.5
AMOUNT_MAX: Final = 100


def start_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a concurrent task; its exception is an error of the run."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda done: None if done.cancelled() else done.result())
    return task


class Feeder:
    """One transactional id, over all its lives."""

    def __init__(self, number: int, client: SimClient, recorder: Recorder, drawn: Coordination) -> None:
        """Start without a request."""
        self._name = f"feeder-{number}"
        self._client = client
        self._recorder = recorder
        self._options = drawn
        self._zombie: asyncio.Task[bool] | None = None

    async def run(self, until: Callable[[], bool]) -> None:
        """Send until stopped."""
        rng, loop = self._client.rng, asyncio.get_running_loop()
        while not until():
            transactor = Transactor(
                self._name,
                self._client,
                self._recorder,
                timeout_ms=self._options.transaction_timeout_ms,
                second_version=self._options.second_version,
                heeds_level=self._options.heeds_levels,
            )
            ends = loop.time() + self._options.life_s * (0.5 + rng.random())
            while not until() and loop.time() < ends:
                if await transactor.ready() and not until():
                    if rng.random() < LEFT_OPEN:
                        await transactor.abandon(self._draft())
                        break
                    pause_s = PAUSE_S * rng.random() if rng.random() < PAUSES else 0.0
                    commit = rng.random() >= self._options.abort_share
                    if rng.random() < DOUBLED:
                        late = transactor.run(self._draft(), commit=commit, pause_s=ZOMBIE_S * rng.random())
                        self._zombie = start_task(late)
                        break
                    await transactor.run(self._draft(), commit=commit, pause_s=pause_s)
                await asyncio.sleep(self._options.every_s * (0.5 + rng.random()))

    def _draft(self) -> Draft:
        """Draw transfers between partitions."""
        rng, draft = self._client.rng, Draft()
        for _ in range(rng.choice((1, 1, 2))):
            amount = rng.randint(1, AMOUNT_MAX)
            for signed in (-amount, amount):
                partition = rng.randrange(self._options.partitions)
                name = f"{SOURCE}-{partition}"
                value = self._recorder.next_value(name)
                draft.records.setdefault((SOURCE, partition), []).append(value)
                draft.extra.append(["amount", name, value, signed])
        return draft
