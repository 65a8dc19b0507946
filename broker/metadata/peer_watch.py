"""Delays responses that would name a broker which has just died, until the metadata names another leader.

A client whose connection breaks requests metadata at once and keeps the response: librdkafka for a second. The queried
broker notices the same failure at the same time (its own fetches use that peer), and an election is in progress. So it
responds a little later, with the new leader:

    fetch channel closed --> suspected --> Metadata that names it as a leader waits --> fenced in the metadata: sent
                                 |--requests to its own address--> it responds: named unchanged
                                 |--kvorum.metadata.hold.ms--> named unchanged, and no later response waits for it

Proof of life is a response to ApiVersions from the broker's own address, never from one that a test substitutes. A
successful connect proves nothing: a dying process closes its connections one by one, and its listener not first.

An empty broker list does not help a client either, which a starting broker would return until it is unfenced:
librdkafka's admin client does not retry after it before its own request has timed out. Such a response waits for a live
broker for the same time.

A broker that was fenced stays in Metadata's list of brokers for kvorum.metadata.fenced.linger.ms: librdkafka loses a
second if a partition's old leader disappears in the response that names the new one. docs/decisions/0011.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Final, TypeVar

from kvorum.broker.metadata.cache import MetadataCache
from kvorum.broker.metadata.suspicion import Suspicions
from kvorum.broker.replica.tasks import spawn
from kvorum.network.addresses import Address
from kvorum.quorum.image import MetadataDelta
from kvorum.runtime.logs import get_logger
from kvorum.runtime.ordered_set import OrderedSet

log = get_logger("broker")

M = TypeVar("M")

PROBE_GAP_MS: Final = 50
"""Between two questions to a suspected broker."""
LATER_PROBE_GAP_MS: Final = 1_000
"""The same after the wait has ended: then only the next suspicion depends on it."""
WAITING_MAX: Final = 1_000
"""Answers that wait; one more is given at once."""


class PeerWatch:
    """Tracks suspected brokers and the responses that wait for them. Owned by the broker's event loop."""

    __slots__ = (
        "_address_of",
        "_answers",
        "_cache",
        "_hold_ms",
        "_linger_ms",
        "_suspicions",
        "_tasks",
        "_waiting",
        "_waiting_for_anybody",
    )

    def __init__(
        self,
        cache: MetadataCache,
        *,
        hold_ms: int,
        linger_ms: int,
        address_of: Callable[[int], Address | None],
        answers: Callable[[Address], Awaitable[bool]],
    ) -> None:
        """`hold_ms` 0: brokers are never suspected. `address_of` returns a broker's direct address, None if unknown.

        `answers` sends one request, with a time limit, and returns whether the broker answered.
        """
        self._cache = cache
        self._hold_ms = hold_ms
        self._linger_ms = linger_ms
        self._address_of = address_of
        self._answers = answers
        self._suspicions = Suspicions()
        self._waiting: dict[asyncio.Future[None], frozenset[int]] = {}
        self._waiting_for_anybody: OrderedSet[asyncio.Future[None]] = OrderedSet()
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()

    def connection_lost(self, broker_id: int) -> None:
        """Take note that a connection to a broker closed, or that it refused one."""
        epoch = self._cache.broker_epoch(broker_id)
        if self._hold_ms == 0 or not self._suspicions.closed(broker_id, epoch):
            return
        assert epoch is not None, "only who is alive is suspected"
        log.info("connection to broker lost, metadata naming it is delayed", broker_id=broker_id)
        self._begin(f"peer-probe-{broker_id}", self._ask_after(broker_id, epoch))

    def image_changed(self, delta: MetadataDelta) -> None:
        """Keep newly fenced brokers in Metadata responses. Called together with the cache's update."""
        lingering = self._cache.lingering
        for broker_id, now in delta.cluster_delta.changed_brokers.items():
            before = delta.image.cluster.brokers.get(broker_id)
            if now is None or before is None or now.broker_epoch != before.broker_epoch or not now.fenced:
                lingering.discard(broker_id)
            elif not before.fenced and self._linger_ms:
                lingering.add(broker_id)
                asyncio.get_running_loop().call_later(self._linger_ms / 1000, lingering.discard, broker_id)

    def metadata_moved(self) -> None:
        """Release requests that wait for brokers that are fenced now, or for a broker that is not."""
        if self._waiting_for_anybody and self._cache.has_live_brokers():
            self._let_all_go()
        if self._suspicions.suspected:
            self._suspicions.metadata_moved(self._cache.broker_epoch)
            self._let_go()

    def settle(self, answer: Callable[[], M], leaders: Callable[[M], Iterable[int]]) -> M | Awaitable[M]:
        """Return the result of `answer` when a broker is alive and no leader in it is suspected.

        Each wait ends within the hold time, and at most WAITING_MAX answers wait; further ones are sent unchanged.
        """
        return self._settled(answer, leaders) if self._hold_ms else answer()

    async def _settled(self, answer: Callable[[], M], leaders: Callable[[M], Iterable[int]]) -> M:
        # A peer's disconnect that arrived with the request must be processed first. This task runs in the loop's next
        # iteration; a lost connection is reported in the iteration after it was read.
        await asyncio.sleep(0)
        if not self._cache.has_live_brokers() and len(self._waiting_for_anybody) < WAITING_MAX:
            await self._anybody()
        while True:
            made = answer()
            suspected = self._suspicions.among(leaders(made)) if self._suspicions.suspected else None
            if not suspected or len(self._waiting) >= WAITING_MAX:
                return made
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[future] = suspected
            try:
                await future
            finally:
                del self._waiting[future]

    async def _anybody(self) -> None:
        """Wait until a broker is alive, for the hold time at most."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting_for_anybody.add(future)
        timer = loop.call_later(self._hold_ms / 1000, release, future)
        try:
            await future
        finally:
            timer.cancel()
            self._waiting_for_anybody.discard(future)

    def _let_all_go(self) -> None:
        for future in tuple(self._waiting_for_anybody):
            release(future)

    async def close(self) -> None:
        """Stop probing, and release all waiters."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._suspicions = Suspicions()
        self._let_go()
        self._let_all_go()

    def _begin(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = spawn(name, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_after(self, broker_id: int, broker_epoch: int) -> None:
        """Probe a suspected broker until it responds, or its metadata changes."""
        suspicions, loop = self._suspicions, asyncio.get_running_loop()
        timer = loop.call_later(self._hold_ms / 1000, self._give_up, broker_id, broker_epoch)
        try:
            while suspicions.knows(broker_id, broker_epoch):
                address = self._address_of(broker_id)
                if address is not None and await self._answers(address):
                    suspicions.answered(broker_id, broker_epoch)
                    break
                await asyncio.sleep((PROBE_GAP_MS if suspicions.suspected else LATER_PROBE_GAP_MS) / 1000)
                suspicions.metadata_moved(self._cache.broker_epoch)
        finally:
            timer.cancel()
        self._let_go()

    def _give_up(self, broker_id: int, broker_epoch: int) -> None:
        if self._suspicions.give_up(broker_id, broker_epoch):
            log.info("broker is not fenced, metadata includes it again", broker_id=broker_id)
            self._let_go()

    def _let_go(self) -> None:
        """Complete the waiters without a suspected broker."""
        suspected = self._suspicions.suspected.keys()
        for future, waits_for in tuple(self._waiting.items()):
            if not waits_for & suspected:
                release(future)


def release(future: asyncio.Future[None]) -> None:
    """Release the request, if it still waits."""
    if not future.done():
        future.set_result(None)
