"""Successful responses to Produce requests of one topic: the layout is encoded once, then only numbers change."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, cast

from kvorum.protocol.codec import encode, write_varint
from kvorum.protocol.headers import encode_response_header
from kvorum.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

Placed = tuple[int, int, int, int]
"""Of a partition: index, base_offset, log_append_time, log_start_offset."""
NUMBERS: Final = Struct(">ihqqq")
"""A partition's row up to log_start_offset, as every version from 5 on has it; the second is the error code."""
THROTTLE_TIME: Final = Struct(">i")
NO_THROTTLE: Final = THROTTLE_TIME.pack(0)
# Marks by which places are found. No topic's name has such bytes, and an id is shorter than the first.
ROW_MARK: Final = (0x7EFDFCFB, 0, -2, -3, -4)
THROTTLE_TIME_MARK: Final = -5


class Template:
    """Template of a topic and version."""

    __slots__ = ("_before", "_behind", "_end", "_is_flexible", "_one", "_row_end", "_version")

    def __init__(self, topic: TopicProduceData, version: int) -> None:
        """Use the topic as named in the request."""
        self._version = version
        self._is_flexible = version >= ProduceResponse.FLEXIBLE_FROM
        mark = NUMBERS.pack(*ROW_MARK)
        one, two = (self.frame(b"\0\0\0\0", sample(topic, count))[8:] for count in (1, 2))
        before, _, behind = one.partition(mark)
        self._one = self._count(1)
        self._before = before[: -len(self._one)]
        # Two rows: the bytes between two marks are the end of a row, which also follows the last one.
        self._row_end = two.split(mark)[1]
        throttle_time = THROTTLE_TIME.pack(THROTTLE_TIME_MARK)
        self._behind, _, self._end = behind[len(self._row_end) :].partition(throttle_time)

    def answer(self, correlation_id: bytes, rows: Sequence[Placed], throttle_ms: int) -> bytes:
        """Return the frame. `correlation_id`: as it came."""
        parts = [correlation_id, self._before, self._one if len(rows) == 1 else self._count(len(rows))]
        for index, base_offset, log_append_time, log_start_offset in rows:
            parts.append(NUMBERS.pack(index, 0, base_offset, log_append_time, log_start_offset))
            parts.append(self._row_end)
        parts.append(self._behind)
        parts.append(THROTTLE_TIME.pack(throttle_ms) if throttle_ms else NO_THROTTLE)
        parts.append(self._end)
        body = b"".join(parts)
        return len(body).to_bytes(4, "big") + body

    def _count(self, count: int) -> bytes:
        """Return the count of an array."""
        if not self._is_flexible:
            return count.to_bytes(4, "big")
        found = bytearray()
        write_varint(found, count + 1)
        return bytes(found)

    def frame(self, correlation_id: bytes, response: ProduceResponse) -> bytes:
        """Return the frame of a response with other values."""
        number = int.from_bytes(correlation_id, "big", signed=True)
        header = encode_response_header(number, 1 if self._is_flexible else 0)
        body = header + b"".join(cast(list[bytes], encode(response, self._version)))
        return len(body).to_bytes(4, "big") + body


def sample(topic: TopicProduceData, count: int) -> ProduceResponse:
    """Return an answer with this number of rows."""
    index, _, base_offset, log_append_time, log_start_offset = ROW_MARK
    rows = [
        PartitionProduceResponse(
            index=index, base_offset=base_offset, log_append_time=log_append_time, log_start_offset=log_start_offset
        )
        for _ in range(count)
    ]
    answered = TopicProduceResponse(topic_id=topic.topic_id, name=topic.name, partition_responses=rows)
    return ProduceResponse(responses=[answered], throttle_time=THROTTLE_TIME_MARK)
