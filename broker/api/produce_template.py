"""An answer to a Produce of one partition that went well: made once, then only its numbers change."""

from struct import Struct
from typing import Final, cast

from kvorum.protocol.codec import encode
from kvorum.protocol.headers import encode_response_header
from kvorum.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

CORRELATION_ID_SIZE: Final = 4
OFFSETS: Final = Struct(">qqq")
"""base_offset, log_append_time and log_start_offset: one behind the other in every version from 5 on."""
THROTTLE_TIME: Final = Struct(">i")
# Marks by which the numbers' places are found. No topic name has such bytes, and an id is shorter than the first.
OFFSETS_MARK: Final = (-2, -3, -4)
THROTTLE_TIME_MARK: Final = -5


class Template:
    """Of one partition and version."""

    __slots__ = ("_before", "_between", "_end", "_plain_end", "_size", "_version")

    def __init__(self, topic: TopicProduceData, index: int, version: int) -> None:
        """Take the topic as the request named it."""
        base_offset, log_append_time, log_start_offset = OFFSETS_MARK
        row = PartitionProduceResponse(
            index=index, base_offset=base_offset, log_append_time=log_append_time, log_start_offset=log_start_offset
        )
        answered = TopicProduceResponse(topic_id=topic.topic_id, name=topic.name, partition_responses=[row])
        frame = self._frame(
            b"\0\0\0\0", ProduceResponse(responses=[answered], throttle_time=THROTTLE_TIME_MARK), version
        )
        self._version = version
        self._size, body = frame[:4], frame[4 + CORRELATION_ID_SIZE :]
        self._before, offsets, behind = body.partition(OFFSETS.pack(*OFFSETS_MARK))
        self._between, throttle_time, self._end = behind.partition(THROTTLE_TIME.pack(THROTTLE_TIME_MARK))
        assert offsets and throttle_time, "every version has them"
        self._plain_end = self._between + THROTTLE_TIME.pack(0) + self._end

    def answer(
        self, correlation_id: bytes, base_offset: int, log_append_time: int, log_start_offset: int, throttle_ms: int
    ) -> bytes:
        """Return the frame. `correlation_id`: as it came."""
        end = self._plain_end
        if throttle_ms:
            end = self._between + THROTTLE_TIME.pack(throttle_ms) + self._end
        offsets = OFFSETS.pack(base_offset, log_append_time, log_start_offset)
        return b"".join((self._size, correlation_id, self._before, offsets, end))

    def other(self, correlation_id: bytes, response: ProduceResponse) -> bytes:
        """Return the frame of an answer that says something else."""
        return self._frame(correlation_id, response, self._version)

    @staticmethod
    def _frame(correlation_id: bytes, response: ProduceResponse, version: int) -> bytes:
        header = encode_response_header(
            int.from_bytes(correlation_id, "big", signed=True), 1 if version >= ProduceResponse.FLEXIBLE_FROM else 0
        )
        body = header + b"".join(cast(list[bytes], encode(response, version)))
        return len(body).to_bytes(4, "big") + body
