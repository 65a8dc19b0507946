"""Seeded lives of a coordinator, with cuts, lost answers and failovers: no transaction is ever torn.

In transaction version 2 an epoch is one transaction: its markers have the epoch behind it. After everything has healed
each transaction has the same marker in every partition that was acknowledged for it, as its acknowledged end says.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Coroutine
from typing import TypeVar

import pytest

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.state import State
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.transaction.transaction_kit import A0, A1, B0, TIMEOUT_MS, Node, node

T = TypeVar("T")
KEYS = [A0, A1, B0]
RETRIED = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
LOST = ErrorCode.NETWORK_EXCEPTION
"""What the client makes of an answer that never comes."""


class Life:
    """One client, one coordinator, and what was acknowledged."""

    def __init__(self, at: Node, chance: random.Random) -> None:
        self.at = at
        self.chance = chance
        self.added: dict[Producer, set[TopicPartition]] = defaultdict(set)
        self.ends: dict[Producer, set[bool]] = defaultdict(set)
        self.highest = Producer(-1, -1)

    async def world(self) -> None:
        """Something happens."""
        match self.chance.randrange(8):
            case 0:
                self.at.brokers.cut ^= {self.chance.choice([1, 2])}
            case 1:
                self.at.brokers.deaf ^= {self.chance.choice([1, 2])}
            case 2:
                self.at.brokers.refusals[self.chance.choice(KEYS)] = [ErrorCode.NOT_ENOUGH_REPLICAS]
            case 3 | 7:
                self.at = await self.at.fail_over(keeps_uncommitted=self.chance.random() < 0.3)
            case 4:
                self.at.log.commits_at_once ^= True
            case _:
                self.at.log.commit()
        await asyncio.sleep(self.chance.choice([0, 0.001, 0.05, 0.3]))

    async def requested(self, question: Coroutine[None, None, T]) -> T | ErrorCode:
        """Ask while things happen; the answer may get lost on its way."""
        answer = asyncio.ensure_future(question)
        while not answer.done():
            await self.world()
        try:
            found = answer.result()
        except KafkaError as error:
            return error.code
        return LOST if self.chance.random() < 0.1 else found

    async def begun(self) -> Producer:
        while True:
            answer = await self.requested(self.at.init())
            if not isinstance(answer, ErrorCode) and answer.code is ErrorCode.NONE:
                producer = Producer(answer.producer_id, answer.producer_epoch)
                assert producer > self.highest, "each producer has its own epoch"
                self.highest = producer
                return producer
            await self.world()

    async def transaction(self, producer: Producer) -> Producer | None:
        """Live one transaction; return the producer of the next one, None if it has to begin anew."""
        for key in self.chance.sample(KEYS, self.chance.randint(1, 3)):
            code = await self.requested(self.at.add(producer, key))
            if code is ErrorCode.NONE:
                self.added[producer].add(key)
            elif code not in (*RETRIED, LOST):
                return None
        is_commit = self.chance.random() < 0.5
        while self.chance.random() < 0.6:
            answer = await self.requested(self.at.end(producer, is_commit=is_commit))
            if isinstance(answer, ErrorCode):
                assert answer in (*RETRIED, LOST)
            elif answer.code is ErrorCode.NONE:
                self.ends[producer].add(is_commit)
                self.highest = Producer(answer.producer_id, answer.producer_epoch)
                return self.highest
            elif answer.code not in RETRIED:
                return None
            await self.world()
        return None

    async def late(self) -> None:
        """A request of an earlier transaction arrives, perhaps for the second time, perhaps not as the first did."""
        producer = self.chance.choice(list(self.added))
        is_commit = self.chance.random() < 0.5
        answer = await self.requested(self.at.end(producer, is_commit=is_commit))
        if not isinstance(answer, ErrorCode) and answer.code is ErrorCode.NONE:
            self.ends[producer].add(is_commit)
            self.highest = max(self.highest, Producer(answer.producer_id, answer.producer_epoch))

    async def heal(self) -> None:
        self.at.brokers.cut, self.at.brokers.deaf = set(), set()
        self.at.log.commits_at_once = True
        self.at.log.commit()
        await asyncio.sleep(TIMEOUT_MS / 1000 + 20)

    def check(self) -> None:
        assert self.at.state() in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
        kinds: dict[Producer, dict[TopicPartition, set[bool]]] = defaultdict(lambda: defaultdict(set))
        for key, marks in self.at.brokers.written.items():
            epochs = [mark.coordinator_epoch for mark in marks]
            assert epochs == sorted(epochs) and epochs[0] >= 1, "no deposed coordinator writes"
            for mark in marks:
                kinds[Producer(mark.producer_id, mark.producer_epoch - 1)][key].add(mark.is_commit)
        for producer, by_key in kinds.items():
            assert len(set.union(*by_key.values())) == 1, f"{producer} ended in two ways: {dict(by_key)}"
        for producer, keys in self.added.items():
            assert keys <= kinds[producer].keys(), f"{producer} has no end in {keys - kinds[producer].keys()}"
        for producer, ends in self.ends.items():
            assert len(ends) == 1
            assert all(found == ends for found in kinds[producer].values()), f"{producer}: {ends} was acknowledged"


@pytest.mark.parametrize("seed", range(15))
def test_no_transaction_is_torn(run: Run, seed: int) -> None:
    async def story() -> None:
        life = Life(await node(), random.Random(seed))
        producer: Producer | None = None
        for _ in range(25):
            if producer is None:
                producer = await life.begun()
            producer = await life.transaction(producer)
            if life.added and life.chance.random() < 0.3:
                await life.late()
        await life.heal()
        life.check()
        assert life.ends and life.added, "something was acknowledged at all"

    run(story())
