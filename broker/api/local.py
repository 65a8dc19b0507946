"""Requests of this broker's coordinators to this broker, without a connection."""

from collections.abc import Awaitable, Callable

from kvorum.broker.api import add_partitions_to_txn, write_txn_markers
from kvorum.broker.services import Broker
from kvorum.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kvorum.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


class LocalRequests:
    """A peers.LocalBroker. No authorization, because only this broker calls it."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Callable[[], Broker]) -> None:
        """`broker` answers this one, which is made after its coordinators."""
        self._broker = broker

    def write_txn_markers(self, request: WriteTxnMarkersRequest) -> Awaitable[WriteTxnMarkersResponse]:
        """See peers.LocalBroker."""
        return write_txn_markers.write(request, self._broker(), may_write=True)

    def add_partitions_to_txn(self, request: AddPartitionsToTxnRequest) -> Awaitable[AddPartitionsToTxnResponse]:
        """See peers.LocalBroker."""
        return add_partitions_to_txn.of_broker(request, self._broker())
