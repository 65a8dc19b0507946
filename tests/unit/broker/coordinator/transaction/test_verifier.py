"""Questions to coordinators: what is batched, what ends an older question, how each answer is told."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from kvorum.broker.coordinator.transaction.figures import TransactionFigures
from kvorum.broker.coordinator.transaction.verifier import REQUESTS_PER_BROKER_MAX, PartitionVerifier
from kvorum.broker.replica.transactions import PartitionErrors, Support, TransactionalProducer
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.metrics import Metrics
from tests.unit.broker.coordinator.runtime_kit import LoopClock

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@dataclass
class Coordinators:
    """Brokers that answer what the test says, when it says so."""

    refused: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    whole: ErrorCode = ErrorCode.NONE
    lost: bool = False
    silent: set[str] = field(default_factory=set)
    """Transactional ids that answers leave out."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[tuple[int, dict[str, bool]]] = field(default_factory=list)
    """(broker, {transactional id: verify only})"""

    async def add_partitions_to_txn(
        self, broker_id: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        self.requests.append((broker_id, {each.transactional_id: each.verify_only for each in request.transactions}))
        await self.gate.wait()
        if self.lost:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "lost")
        response = AddPartitionsToTxnResponse(error_code=self.whole)
        for sent in request.transactions:
            if sent.transactional_id in self.silent:
                continue
            topics = [
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index,
                            partition_error_code=self.refused.get(TopicPartition(topic.name, index), ErrorCode.NONE),
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in sent.topics
            ]
            response.results_by_transaction.append(
                AddPartitionsToTxnResult(transactional_id=sent.transactional_id, topic_results=topics)
            )
        return response


class World:
    """A verifier; transactional ids live on the broker that their last letter names."""

    def __init__(self) -> None:
        self.figures = TransactionFigures(Metrics(), LoopClock().monotonic_ms)
        self.coordinators = Coordinators()
        self.answers: list[tuple[str, PartitionErrors]] = []
        self.verifier = PartitionVerifier(
            self.coordinators,
            lambda name: None if name.endswith("x") else int(name[-1]),
            LoopClock(),
            self.figures,
        )

    def ask(self, name: str, *keys: TopicPartition, epoch: int = 0, support: Support = Support.GENERIC_ERROR) -> None:
        producer = TransactionalProducer(transactional_id=name, producer_id=7, producer_epoch=epoch, support=support)
        self.verifier.add_or_verify(producer, keys, lambda errors: self.answers.append((f"{name}@{epoch}", errors)))

    async def settle(self) -> None:
        self.coordinators.gate.set()
        for _ in range(20):
            await asyncio.sleep(0)


def reported(story: Callable[[World], Coroutine[Any, Any, None]]) -> World:
    async def run() -> World:
        world = World()
        await story(world)
        await world.settle()
        await world.verifier.close()
        return world

    return asyncio.run(run())


def test_calls_of_one_loop_iteration_are_one_request_per_broker() -> None:
    async def story(world: World) -> None:
        world.ask("t1", A0)
        world.ask("u1", A1, B0, support=Support.ADD_PARTITION)
        world.ask("v2", B0)

    world = reported(story)
    assert world.coordinators.requests == [(1, {"t1": True, "u1": False}), (2, {"v2": True})]
    assert world.answers == [("t1@0", {}), ("u1@0", {}), ("v2@0", {})]


def test_each_partition_that_is_refused_is_reported_with_its_code() -> None:
    async def story(world: World) -> None:
        world.coordinators.refused = {A1: ErrorCode.TRANSACTION_ABORTABLE}
        world.ask("t1", A0, A1)

    world = reported(story)
    assert world.answers == [("t1@0", {A1: ErrorCode.TRANSACTION_ABORTABLE})]
    assert world.figures.refused_count == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"lost": True}, ErrorCode.NETWORK_EXCEPTION),
        ({"whole": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ({"silent": {"t1"}}, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_without_an_answer_nothing_is_verified(change: dict[str, Any], code: ErrorCode) -> None:
    async def story(world: World) -> None:
        for name, value in change.items():
            setattr(world.coordinators, name, value)
        world.ask("t1", A0, A1)

    assert reported(story).answers == [("t1@0", {A0: code, A1: code})]


def test_without_a_coordinator_no_request_is_sent() -> None:
    async def story(world: World) -> None:
        world.ask("tx", A0)
        assert world.answers == [("tx@0", {A0: ErrorCode.COORDINATOR_NOT_AVAILABLE})], "told at once"

    assert reported(story).coordinators.requests == []


@pytest.mark.parametrize(
    ("epoch", "ended", "code"),
    [
        (3, "t1@3", ErrorCode.NETWORK_EXCEPTION),
        (4, "t1@3", ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, "t1@2", ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_one_question_a_transactional_id_waits(epoch: int, ended: str, code: ErrorCode) -> None:
    """The newer ends the older; one of an earlier epoch is a zombie's, and ends itself."""

    async def story(world: World) -> None:
        world.ask("t1", A0, epoch=3)
        world.ask("t1", A0, epoch=epoch)
        assert world.answers == [(ended, {A0: code})]

    world = reported(story)
    assert len(world.answers) == 2 and world.answers[1][1] == {}
    assert world.coordinators.requests == [(1, {"t1": True})]


def test_calls_are_collected_while_requests_are_in_flight() -> None:
    async def story(world: World) -> None:
        for number in range(REQUESTS_PER_BROKER_MAX + 3):
            world.ask(f"{number}-1", A0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(world.coordinators.requests) == REQUESTS_PER_BROKER_MAX
        assert world.answers == []

    world = reported(story)
    assert len(world.coordinators.requests) == REQUESTS_PER_BROKER_MAX + 1
    assert len(world.coordinators.requests[-1][1]) == 3
    assert len(world.answers) == REQUESTS_PER_BROKER_MAX + 3


def test_waiting_requests_get_no_response_when_the_broker_stops() -> None:
    async def run() -> World:
        world = World()
        world.ask("t1", A0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        world.ask("u1", A0)
        await world.verifier.close()
        return world

    assert asyncio.run(run()).answers == []
