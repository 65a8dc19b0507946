"""Connections to the brokers, this one included: markers to leaders of partitions, verifications to coordinators.

Responses on a connection are in request order, and each of these requests waits for replicas. So every request in
flight to a broker has a separate connection, which is reused; callers limit their number.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from kvorum.broker.replica.tasks import spawn
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kvorum.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kvorum.protocol.schema import Message
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.publisher import LoaderManifest

M = TypeVar("M", bound=Message)


class LocalBroker(Protocol):
    """Handles the same requests on this broker, without a connection."""

    def write_txn_markers(self, request: WriteTxnMarkersRequest) -> Awaitable[WriteTxnMarkersResponse]:
        """Append the markers of partitions led here."""
        ...

    def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest) -> Awaitable[AddPartitionsToTxnResponse]:
        """Send to the coordinators here."""
        ...


class Peers:
    """Connections to other brokers. A sender.MarkerChannel, a verifier.CoordinatorChannel, and a metadata publisher."""

    def __init__(
        self,
        broker_id: int,
        open_channel: Callable[[int], Channel],
        local: LocalBroker,
        request_timeout_ms: Callable[[], int],
    ) -> None:
        """Start without connections. `open_channel` opens a new channel to a broker at each call."""
        self._broker_id = broker_id
        self._open_channel = open_channel
        self._local = local
        self._request_timeout_ms = request_timeout_ms
        self._idle: dict[int, list[Channel]] = {}
        self._busy: dict[int, dict[Channel, None]] = {}
        """Those with a request under way, in the order in which they were taken."""

    async def write_txn_markers(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """See sender.MarkerChannel."""
        if broker_id == self._broker_id:
            return await self._local.write_txn_markers(request)
        return await self._ask(broker_id, request, WriteTxnMarkersResponse)

    async def add_partitions_to_txn(
        self, broker_id: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        """See verifier.CoordinatorChannel."""
        if broker_id == self._broker_id:
            return await self._local.add_partitions_to_txn(request)
        return await self._ask(broker_id, request, AddPartitionsToTxnResponse)

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """See MetadataPublisher: drop requests to fenced brokers; their partitions have other leaders."""
        if delta.cluster_delta.is_empty:
            return
        for broker_id in {*self._idle, *self._busy}:
            broker = image.cluster.brokers.get(broker_id)
            if broker is None or broker.fenced:
                for channel in [*self._idle.pop(broker_id, ()), *self._busy.pop(broker_id, ())]:
                    spawn(f"give-up-{broker_id}", channel.close())

    async def close(self) -> None:
        """Close all channels; waiters receive NETWORK_EXCEPTION."""
        channels = [each for group in (*self._idle.values(), *self._busy.values()) for each in group]
        self._idle.clear()
        self._busy.clear()
        for channel in channels:
            await channel.close()

    async def _ask(self, broker_id: int, request: Message, response: type[M]) -> M:
        """Send to another broker. Raises KafkaError: NETWORK_EXCEPTION, UNSUPPORTED_VERSION."""
        idle = self._idle.get(broker_id)
        channel = idle.pop() if idle else self._open_channel(broker_id)
        self._busy.setdefault(broker_id, {})[channel] = None
        try:
            return await channel.ask(request, response, timeout_ms=self._request_timeout_ms())
        except ChannelError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker_id}: {error}") from error
        finally:
            if channel in self._busy.get(broker_id, ()):  # else the caller has abandoned it, and it is closed
                del self._busy[broker_id][channel]
                self._idle.setdefault(broker_id, []).append(channel)
