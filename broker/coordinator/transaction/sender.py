"""Sends transaction markers to the leaders of their partitions until all have them; executes a MarkerPlan.

One per broker, for all its transaction coordinators: transactions that end at about the same time share requests.
"""

import asyncio
from collections import Counter
from typing import Final, Protocol

from kvorum.broker.coordinator.transaction.markers import (
    Ending,
    EndingKey,
    Entry,
    LeaderOf,
    MarkerPlan,
    Settled,
    codes_of,
    request_of,
)
from kvorum.broker.replica.tasks import spawn
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import failpoints
from kvorum.runtime.logs import get_logger

log = get_logger("coordinator")

RETRY_PAUSE_MS: Final = 100
"""Between a refusal and the next try: a leader is found, or an ISR grows back, in about this time."""
TRANSACTIONS_PER_REQUEST_MAX: Final = 1_000
"""A marker with its partitions takes about 100 bytes, so a request stays far below socket.request.max.bytes."""
REQUESTS_PER_BROKER_MAX: Final = 4
"""In flight at once: a request waits for the slowest of its partitions, and others must not wait for that one."""


class MarkerChannel(Protocol):
    """Connections to the brokers, this one included."""

    async def write_txn_markers(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Return the broker's response. Raises KafkaError after request.timeout.ms."""
        ...


class MarkerSender:
    """Sends transaction markers to partition leaders."""

    def __init__(self, channel: MarkerChannel, leader_of: LeaderOf) -> None:
        """Send nothing yet."""
        self._channel = channel
        self._leader_of = leader_of
        self._plan = MarkerPlan()
        self._in_flight: Counter[int] = Counter()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._routing: asyncio.Handle | None = None
        self._retrying: asyncio.TimerHandle | None = None

    def send(self, ending: Ending) -> None:
        """Bring a transaction's markers to its partitions; `on_done` is called in a later turn of the loop."""
        if self._plan.begin(ending):
            self._route_soon()

    def cancel(self, home: TopicPartition) -> None:
        """Remove the transactions of a partition of __transaction_state that is no longer led here."""
        self._plan.cancel(home)

    def unfinished(self, key: EndingKey) -> frozenset[TopicPartition] | None:
        """Return the partitions without a marker, None if the transaction is not being ended here."""
        return self._plan.unfinished(key)

    def metadata_changed(self) -> None:
        """Try again now: there may be new leaders, or fewer partitions."""
        self._plan.retry()
        self._route_soon()

    @property
    def without_leader_count(self) -> int:
        """Markers whose partition had no leader when they were routed."""
        return self._plan.leaderless_count

    @property
    def retried_count(self) -> int:
        """Markers that were refused, and wait for another try."""
        return self._plan.refused_count

    async def close(self) -> None:
        """Stop sending. Requests in flight are abandoned."""
        for handle in (self._routing, self._retrying):
            if handle is not None:
                handle.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _route_soon(self) -> None:
        if self._routing is None:
            self._routing = asyncio.get_running_loop().call_soon(self._route)

    def _route(self) -> None:
        self._routing = None
        self._note(self._plan.route(self._leader_of))
        for broker_id in self._plan.brokers:
            if self._in_flight[broker_id] < REQUESTS_PER_BROKER_MAX:
                self._in_flight[broker_id] += 1
                entries = self._plan.take(broker_id, TRANSACTIONS_PER_REQUEST_MAX)
                task = spawn(f"txn-markers-{broker_id}", self._ask(broker_id, entries))
                self._tasks[task] = None
                task.add_done_callback(self._tasks.pop)

    async def _ask(self, broker_id: int, entries: list[Entry]) -> None:
        """Send the given markers, then those queued in between; later ones get another task."""
        while entries:
            try:
                response = await self._channel.write_txn_markers(broker_id, request_of(entries))
            except KafkaError as error:
                log.info("WriteTxnMarkers failed", broker=broker_id, count=len(entries), reason=error)
                self._plan.give_back(entries)
                self._retry_later()
            else:
                failpoints.hit("transaction.markers.answered")
                self._note(self._plan.settle(entries, codes_of(response)))
            entries = self._plan.take(broker_id, TRANSACTIONS_PER_REQUEST_MAX)
        self._in_flight[broker_id] -= 1

    def _note(self, settled: Settled) -> None:
        if settled.is_refused:
            self._retry_later()
        for ending in settled.done:
            ending.on_done()

    def _retry_later(self) -> None:
        if self._retrying is None:
            self._retrying = asyncio.get_running_loop().call_later(RETRY_PAUSE_MS / 1000, self._retry)

    def _retry(self) -> None:
        self._retrying = None
        self._plan.retry()
        self._route()
