"""Embedded protocol of classic consumers: subscriptions and assignments.

    assignment     version int16, [topic string, [partition int32]], user data bytes
    subscription   version int16, [topic string], user data bytes; v1: [topic string, [partition int32]] that it has;
                   v2: generation int32; v3: rack string

Sans-IO. Source: Kafka's ConsumerProtocolAssignment, ConsumerProtocolSubscription.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kvorum.protocol.topic_partition import TopicPartition

CONSUMER_PROTOCOL = "consumer"
_INT16 = Struct(">h")
_INT32 = Struct(">i")


class Assignment(NamedTuple):
    """A member's assignment; `user_data` belongs to its assignor."""

    places: list[TopicPartition]
    user_data: bytes | None = None


class Subscription(NamedTuple):
    """A member's subscription. Fields that its version does not have are None."""

    version: int
    topics: list[str]
    user_data: bytes | None = None
    owned: list[TopicPartition] | None = None
    generation_id: int | None = None
    rack_id: str | None = None


class _Reader:
    """Reads from the front; raises StructError or ValueError at the end of the bytes or for invalid ones."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def _number(self, shape: Struct) -> int:
        (value,) = shape.unpack_from(self._data, self._position)
        self._position += shape.size
        return int(value)

    def count(self) -> int:
        """Return how many elements follow, each of a byte at least."""
        count = self.int32()
        if not 0 <= count <= len(self._data) - self._position:
            raise ValueError(f"invalid element count {count}")
        return count

    def some(self, size: int) -> bytes | None:
        """Return this number of bytes; -1 is null."""
        if size == -1:
            return None
        found = self._data[self._position : self._position + size]
        if size < 0 or len(found) < size:
            raise ValueError(f"invalid size {size}")
        self._position += size
        return found

    def string(self) -> str | None:
        found = self.some(self.int16())
        return None if found is None else found.decode()

    def strings(self) -> list[str]:
        return [self.string() or "" for _ in range(self.count())]

    def places(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, self.int32())
            for _ in range(self.count())
            for topic in [self.string() or ""]
            for _ in range(self.count())
        ]


def read_assignment(data: bytes) -> Assignment | None:
    """Return an assignment: an empty one for no bytes, None if the bytes are invalid."""
    if not data:
        return Assignment([])
    reader = _Reader(data)
    try:
        reader.int16()
        return Assignment(reader.places(), reader.some(reader.int32()))
    except (StructError, ValueError):
        return None


def read_subscription(data: bytes) -> Subscription | None:
    """Return a subscription, None if the bytes are invalid."""
    reader = _Reader(data)
    try:
        version, topics = reader.int16(), reader.strings()
        user_data = reader.some(reader.int32())
        owned = reader.places() if version >= 1 else None
        generation_id = reader.int32() if version >= 2 else None
        return Subscription(version, topics, user_data, owned, generation_id, reader.string() if version >= 3 else None)
    except (StructError, ValueError):
        return None


def subscribed_topics(data: bytes) -> list[str]:
    """Return the topics of a subscription, whatever its client wrote after them; none if the bytes are invalid."""
    reader = _Reader(data)
    try:
        reader.int16()
        return reader.strings()
    except (StructError, ValueError):
        return []
