"""Hints on the current leader: id, epoch and endpoint next to an error, so that clients need no Metadata (KIP-951)."""

from collections.abc import Callable
from typing import Final, TypeVar

from kvorum.broker.metadata.cache import Node
from kvorum.broker.services import Broker
from kvorum.protocol.errors import ErrorCode

E = TypeVar("E")

WRONG_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""The errors that come with a hint."""


class Hints:
    """Collects the leaders to hint at for one answer."""

    __slots__ = ("_broker", "_listener", "_nodes")

    def __init__(self, broker: Broker, listener: str) -> None:
        """Create it empty; endpoints are those of the request's listener."""
        self._broker = broker
        self._listener = listener
        self._nodes: dict[int, Node] = {}

    def leader(self, topic: str, partition: int) -> tuple[int, int]:
        """Return (leader id, leader epoch), -1 where unknown, and remember the leader's endpoint."""
        leader_id, leader_epoch = self._broker.metadata.leader_and_epoch(topic, partition)
        if leader_id not in self._nodes:
            node = self._broker.metadata.node(leader_id, self._listener)
            if node is not None:
                self._nodes[leader_id] = node
        return leader_id, leader_epoch

    def endpoints(self, make: Callable[[Node], E]) -> list[E]:
        """Return the endpoints of the leaders hinted at, as this answer writes them."""
        return [make(node) for node in self._nodes.values()]
