"""Producer ids: each once, blocks fetched ahead, errors told as something to retry."""

import asyncio

import pytest

from kvorum.broker.metadata import producer_ids
from kvorum.broker.metadata.producer_ids import ProducerIdManager
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


class Controller:
    """Gives out blocks of ten; the test can hold it, or script errors."""

    def __init__(self) -> None:
        self.requests: list[AllocateProducerIdsRequest] = []
        self.errors: list[ErrorCode | KafkaError] = []
        self.held: asyncio.Event | None = None

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        self.requests.append(request)
        if self.held is not None:
            await self.held.wait()
        if self.errors:
            error = self.errors.pop(0)
            if isinstance(error, KafkaError):
                raise error
            return AllocateProducerIdsResponse(error_code=error)
        return AllocateProducerIdsResponse(producer_id_start=len(self.requests) * 10, producer_id_len=10)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_ids, "RETRY_BACKOFF_MS", 1)


def test_ids_come_in_order_from_one_block_after_the_other() -> None:
    async def story() -> None:
        controller = Controller()
        manager = ProducerIdManager(3, lambda: 77, controller)
        assert [await manager.next_producer_id() for _ in range(25)] == list(range(10, 35))
        assert {(each.broker_id, each.broker_epoch) for each in controller.requests} == {(3, 77)}

    asyncio.run(story())


def test_the_next_block_is_requested_before_the_last_id_is_gone() -> None:
    async def story() -> None:
        controller = Controller()
        manager = ProducerIdManager(3, lambda: 77, controller)
        for _ in range(10):
            await manager.next_producer_id()
        await asyncio.sleep(0.005)
        assert len(controller.requests) == 2
        controller.held = asyncio.Event()
        assert await manager.next_producer_id() == 20
        manager.close()

    asyncio.run(story())


def test_concurrent_producers_share_one_request_and_get_different_ids() -> None:
    async def story() -> None:
        controller = Controller()
        controller.held = asyncio.Event()
        manager = ProducerIdManager(3, lambda: 77, controller)
        requested = [asyncio.ensure_future(manager.next_producer_id()) for _ in range(5)]
        await asyncio.sleep(0.001)
        assert len(controller.requests) == 1
        controller.held.set()
        assert sorted(await asyncio.gather(*requested)) == [10, 11, 12, 13, 14]

    asyncio.run(story())


def test_a_failed_request_is_repeated() -> None:
    async def story() -> None:
        controller = Controller()
        controller.errors = [KafkaError(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.STALE_BROKER_EPOCH]
        assert await ProducerIdManager(3, lambda: 77, controller).next_producer_id() == 30

    asyncio.run(story())


def test_no_block_in_time_is_something_to_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_ids, "ALLOCATE_TIMEOUT_MS", 5)

    async def story() -> None:
        controller = Controller()
        controller.held = asyncio.Event()
        manager = ProducerIdManager(3, lambda: 77, controller)
        with pytest.raises(KafkaError) as refusal:
            await manager.next_producer_id()
        assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        controller.held.set()
        assert await manager.next_producer_id() == 10

    asyncio.run(story())
