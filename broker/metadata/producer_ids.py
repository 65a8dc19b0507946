"""Producer ids for idempotent producers: taken from blocks that the controller hands out, the next block fetched ahead.

Blocks come from AllocateProducerIds; unused ids of a block are lost when the broker stops, which 63 bits can afford.
Source: Kafka's RPCProducerIdManager.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kvorum.runtime.logs import get_logger

log = get_logger("broker")

PREFETCH_LEFT_FRACTION: Final = 10
"""With less than a tenth of the block left, the next one is requested (Kafka: 90 % used)."""
RETRY_BACKOFF_MS: Final = 50
ALLOCATE_TIMEOUT_MS: Final = 1_000
"""Time that one InitProducerId waits for a block before its client must retry."""


class ProducerIdSource(Protocol):
    """The active controller, as far as this module needs it."""

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """Send to the active controller. Raises KafkaError (retriable) if it cannot be reached in time."""
        ...


@dataclass(slots=True)
class Block:
    """Ids from `next_id` up to, not including, `end`."""

    next_id: int
    end: int
    size: int

    @property
    def left(self) -> int:
        """Return how many are unused."""
        return self.end - self.next_id


class ProducerIdManager:
    """Gives out producer ids, each once in the life of the cluster."""

    __slots__ = ("_block", "_broker_epoch", "_broker_id", "_controller", "_following", "_request", "_retry_not_before")

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], controller: ProducerIdSource) -> None:
        """Start without a block; `broker_epoch` answers the current one."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._block: Block | None = None
        self._following: Block | None = None
        self._request: asyncio.Task[None] | None = None
        self._retry_not_before = 0.0

    async def next_producer_id(self) -> int:
        """Return a producer id that was never used before.

        Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS when no block came within ALLOCATE_TIMEOUT_MS: clients retry it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ALLOCATE_TIMEOUT_MS / 1000
        while True:
            producer_id = self._take()
            if producer_id is not None:
                return producer_id
            left = deadline - loop.time()
            if left <= 0:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id block is available yet")
            request = self._fetch_block()
            await asyncio.wait((request,), timeout=left)
            if request.done():
                request.result()

    def close(self) -> None:
        """Stop sending requests."""
        if self._request is not None:
            self._request.cancel()

    def _take(self) -> int | None:
        if (self._block is None or self._block.left == 0) and self._following is not None:
            self._block, self._following = self._following, None
        block = self._block
        if block is None or block.left == 0:
            return None
        producer_id = block.next_id
        block.next_id += 1
        if self._following is None and block.left * PREFETCH_LEFT_FRACTION < block.size:
            self._fetch_block()
        return producer_id

    def _fetch_block(self) -> "asyncio.Task[None]":
        """Return the request in progress, after starting it if necessary."""
        if self._request is None or self._request.done():
            self._request = asyncio.get_running_loop().create_task(self._allocate())
        return self._request

    async def _allocate(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._retry_not_before - loop.time()))
        self._retry_not_before = loop.time() + RETRY_BACKOFF_MS / 1000
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        try:
            response = await self._controller.allocate_producer_ids(request)
        except KafkaError as error:
            log.warning("producer id block not allocated", reason=error)
            return
        if response.error_code != ErrorCode.NONE:
            log.warning("producer id block not allocated", error_code=ErrorCode(response.error_code).name)
            return
        assert response.producer_id_len > 0 and response.producer_id_start >= 0, response
        self._retry_not_before = 0.0
        end = response.producer_id_start + response.producer_id_len
        self._following = Block(response.producer_id_start, end, response.producer_id_len)
