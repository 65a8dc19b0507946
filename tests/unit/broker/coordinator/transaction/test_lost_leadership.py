"""Transaction coordinators without their topic, and leaderships that end while a timer runs."""

import asyncio
from collections.abc import Iterator

import pytest

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.coordinator import Home, TransactionCoordinator
from kvorum.broker.coordinator.transaction.words import AddPartitions, EndTransaction, InitProducer
from kvorum.protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.transaction.transaction_kit import A0, SETTINGS, TIMEOUT_MS, Ids, node


class NoTopic:
    """There is no __transaction_state yet."""

    is_loading = False

    def active(self, key: str) -> Home:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no topic")

    def all_active(self) -> Iterator[Home]:
        return iter(())


def test_without_the_topic_this_broker_coordinates_nothing_as_kafka_has_it(run: Run) -> None:
    async def story() -> None:
        door, producer = TransactionCoordinator(NoTopic(), Ids()), Producer(7, 0)
        adding = AddPartitions(
            transactional_id="t", producer=producer, partitions=frozenset({A0}), client_transaction_version=0
        )
        ending = EndTransaction(transactional_id="t", producer=producer, is_commit=True, client_transaction_version=0)
        for requested in (
            door.init_producer_id(InitProducer(transactional_id="t", timeout_ms=TIMEOUT_MS)),
            door.add_partitions(adding),
            door.verify_partitions(adding),
            door.end_transaction(ending),
        ):
            with pytest.raises(KafkaError) as error:
                await requested
            assert error.value.code is ErrorCode.NOT_COORDINATOR
        assert door.describe("t").error_code == ErrorCode.NOT_COORDINATOR

    run(story())


def test_a_leadership_that_ends_while_the_timed_out_are_aborted_ends_it_quietly(run: Run) -> None:
    async def story() -> None:
        at = await node()
        at.log.bytes_max = 400  # a batch for each
        for name in ("a", "b", "c", "d"):
            producer = await at.producer(name, timeout_ms=5_000)
            await at.add(producer, A0, name=name)
        await asyncio.sleep(1)
        at.log.write("somebody else's")  # found out with the first append, in the middle of the aborts
        await asyncio.sleep(20)
        at.partition.require_active()
        assert at.state("d").is_complete or at.state("d").is_prepared

    run(story())


def test_a_leadership_that_ends_while_ids_are_forgotten_ends_it_quietly(run: Run) -> None:
    async def story() -> None:
        at = await node()
        at.log.bytes_max = 200
        await asyncio.sleep(10)
        for name in ("a", "b", "c", "d"):
            await at.producer(name)
        await asyncio.sleep(SETTINGS.expiration_ms / 1000 - 1_800)
        at.log.write("somebody else's")
        await asyncio.sleep(3 * SETTINGS.expiry_interval_ms / 1000)
        at.partition.require_active()
        assert not at.partition.state.transactions, "the next leadership has forgotten them"

    run(story())
