"""Heads of Produce requests that a connection has sent: the bytes before the partitions, and their meaning.

Stored per connection (LaneCaller.lane_memory) by size and bytes, so that the next request is compared with those of a
few sizes. A head is stored only if the broker knows every field of the frame.
"""

from dataclasses import replace
from typing import Final

from kvorum.broker.api.produce_frames import FLEXIBLE_FROM, HEAD_POSITION, Parts, head_size, parts_behind
from kvorum.broker.api.produce_template import Template
from kvorum.network.context import RequestContext
from kvorum.network.lane import LaneCaller
from kvorum.protocol.batch_header import HEADER_SIZE
from kvorum.protocol.messages.produce import ProduceRequest, TopicProduceData
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataImage

HEADS_MAX: Final = 256
"""Limit per connection; one more, and all are removed."""
HEAD_BYTES_MAX: Final = 1024
"""A longer head is not stored: names are short, but a client id and tagged fields may be long."""


class Head:
    """Decoded values of a request head."""

    __slots__ = ("acks", "ctx", "image", "keys", "name", "template", "timeout_ms", "topic", "version")

    def __init__(self, ctx: RequestContext, request: ProduceRequest, topic: TopicProduceData, name: str) -> None:
        """A head of a handled request. `topic` is the topic of the request, without its partitions."""
        self.ctx = replace(ctx, spent_ms=0.0)  # shared by many requests, so the duration of one of them is unknown
        self.version = ctx.api_version
        self.topic = topic
        self.name = name
        self.acks = request.acks
        self.timeout_ms = request.timeout
        self.template = Template(topic, ctx.api_version)
        self.image: MetadataImage | None = None
        """The metadata in which it was looked up last."""
        self.keys: dict[int, TopicPartition] | None = None
        """Partitions of this topic in requests so far; None: the head no longer names this topic."""


def remember(caller: LaneCaller, frame: memoryview, ctx: RequestContext, request: ProduceRequest, name: str) -> None:
    """Store the head of a request for one topic that the general handler processed. O(partitions)."""
    topic = request.topic_data[0]
    parts = [(each.index, each.records) for each in topic.partition_data if isinstance(each.records, memoryview)]
    is_flexible = ctx.api_version >= FLEXIBLE_FROM
    size = head_size(frame, parts, is_flexible)
    found = parts_behind(frame, size, is_flexible) if HEAD_POSITION < size <= HEAD_BYTES_MAX else None
    if found is None or shown(found) != shown(parts):
        return  # the frame has a field that this broker does not know: tagged fields
    memory = caller.lane_memory
    if memory is None or sum(map(len, memory.values())) >= HEADS_MAX:
        memory = caller.lane_memory = {}
    heads, text = memory.setdefault(size, {}), bytes(frame[HEAD_POSITION:size])
    if text not in heads or heads[text].version != ctx.api_version:
        heads[text] = Head(ctx, request, TopicProduceData(name=topic.name, topic_id=topic.topic_id), name)


def shown(parts: Parts) -> list[tuple[int, bytes]]:
    """Return the key that distinguishes partition data: a batch header contains the CRC of the rest."""
    return [(index, bytes(records[:HEADER_SIZE])) for index, records in parts]
