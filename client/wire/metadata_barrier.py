"""Waiting for a broker to reach an offset of the metadata log.

The response to a change is sent when the broker that forwarded it has published it (a new topic: when every live broker
has); the others fetch it a moment later. Each broker serves its copy of the metadata log up to what it has published.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from kvorum.client.wire.connections import Connections
from kvorum.network.addresses import Address
from kvorum.network.dial import RequestTimedOut
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kvorum.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kvorum.protocol.uuids import METADATA_TOPIC_ID
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC

LATEST: Final = -1
CLIENT: Final = -1
SESSIONLESS: Final = -1
ANSWER_MS: Final = 1_000
"""Time that a response needs to return after the wait."""
AGAIN_SECONDS: Final = 0.1
"""A copy that is being trimmed, or was left for another, is checked again after this time."""
COME_AGAIN: Final = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE})


@dataclass(slots=True)
class MetadataBarrier:
    """An offset of the metadata log, and the brokers that have it; these are not queried again."""

    offset: int
    brokers: set[Address] = field(default_factory=set)

    async def wait_for(self, connections: Connections, address: Address, timeout_ms: int) -> None:
        """Wait until a broker has the log up to there. Raises ChannelError, KafkaError."""
        if address in self.brokers:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        end = await end_at(connections, address, timeout_ms)
        while end is None or end < self.offset:
            left_ms = int((deadline - loop.time()) * 1000)
            if left_ms <= 0:
                reason = f"it is at {end} of the metadata log, not at {self.offset}"
                raise RequestTimedOut(reason, maybe_sent=False)
            if end is not None:
                end = await wait_for_growth(connections, address, end, left_ms)
            else:
                await asyncio.sleep(AGAIN_SECONDS)
                end = await end_at(connections, address, left_ms)
        self.brokers.add(address)


async def end_at(connections: Connections, address: Address, timeout_ms: int) -> int | None:
    """Return where a broker's copy ends, None while it cannot be read. Raises ChannelError, KafkaError."""
    row = ListOffsetsPartition(partition_index=METADATA_PARTITION, timestamp=LATEST)
    request = ListOffsetsRequest(replica_id=CLIENT, topics=[ListOffsetsTopic(name=METADATA_TOPIC, partitions=[row])])
    answer = await connections.ask(address, request, ListOffsetsResponse, timeout_ms=timeout_ms)
    found = answer.topics[0].partitions[0]
    return None if check_retriable(found.error_code) else found.offset


async def wait_for_growth(connections: Connections, address: Address, end: int, wait_ms: int) -> int | None:
    """Wait for a broker's copy to grow beyond its end; return the new end, None as above. Raises as above."""
    row = FetchPartition(partition=METADATA_PARTITION, fetch_offset=end, partition_max_bytes=1)
    topic = FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[row])
    request = FetchRequest(
        replica_id=CLIENT, max_wait=wait_ms, min_bytes=1, max_bytes=1, session_epoch=SESSIONLESS, topics=[topic]
    )
    answer = await connections.ask(address, request, FetchResponse, timeout_ms=wait_ms + ANSWER_MS)
    if check_retriable(answer.error_code):
        return None
    found = answer.responses[0].partitions[0]
    return None if check_retriable(found.error_code) else found.high_watermark


def check_retriable(code: int) -> bool:
    """Return whether the error is retriable. Raises KafkaError for any other error."""
    if code not in (ErrorCode.NONE, *COME_AGAIN):
        raise KafkaError(ErrorCode(code), METADATA_TOPIC)
    return code != ErrorCode.NONE
