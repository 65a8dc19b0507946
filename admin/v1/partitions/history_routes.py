"""History of a partition in the metadata log: GET /v1/topics/{topic}/partitions/{partition}/history."""

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import INT64_MAX, PARTITION_INDEX, TOPIC_NAME, count, number
from kvorum.admin.v1.metadata.event_routes import Event, event_view
from kvorum.admin.v1.metadata.metadata_routes import translate_errors
from kvorum.client.metadata_log.metadata_events import MetadataEvent
from kvorum.client.metadata_log.metadata_reader import MetadataReader
from kvorum.client.metadata_log.partition_history import history_of
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime import blocking

HAPPENINGS = count("events", default=100, most=10_000)


BEFORE = number("before", "only events before this offset of the metadata log", 1, INT64_MAX, INT64_MAX)


class PartitionHistory(BaseModel):
    """Events of a partition, oldest first, as far as the metadata log goes back."""

    topic: str
    topic_id: str
    partition: int
    first: int = Field(description="First offset of the metadata log; older events are not available")
    last: int
    events: list[Event]
    more: bool = Field(description="There are older events: continue with `before`, the offset of the first event")


def whole_records(newest_first: Sequence[MetadataEvent], limit: int) -> int:
    """Return the number of events to return: events of one record stay on one page."""
    count = min(limit, len(newest_first))
    while 0 < count < len(newest_first) and newest_first[count].offset == newest_first[count - 1].offset:
        count += 1
    return count


class HistoryRoutes:
    """History operation of one server; it shares the log with the metadata operations."""

    def __init__(self, reader: MetadataReader) -> None:
        """Read the metadata log through this."""
        self._reader = reader

    async def get_partition_history(self, call: Call[NoBody]) -> PartitionHistory:
        """Return the leaders, ISR changes and reassignments of a partition, as far as the metadata log goes back.

        The newest events are returned, in chronological order.
        """
        limit, before = HAPPENINGS.of(call), BEFORE.of(call)
        index = PARTITION_INDEX.of(call)
        topic = await call.cluster.topic(TOPIC_NAME.of(call))
        if all(row.partition_index != index for row in topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic.name}-{index}")
        with translate_errors():
            first, last = await self._reader.span(call.cluster)
            source = await self._reader.source(call.cluster)
            found = await blocking.run(
                asyncio.get_running_loop(), history_of, source, topic.name or "", topic.topic_id, index
            )
        newest_first = [each for each in reversed(found) if each.offset < before]
        count = whole_records(newest_first, limit)
        page = newest_first[:count]
        return PartitionHistory(
            topic=topic.name or "",
            topic_id=str(topic.topic_id),
            partition=index,
            first=first,
            last=last,
            events=[event_view(each) for each in reversed(page)],
            more=count < len(newest_first),
        )

    def operations(self) -> Sequence[Operation]:
        """Return the path."""
        return [
            Operation.get(
                "/v1/topics/{topic}/partitions/{partition}/history",
                "Get the history of a partition",
                self.get_partition_history,
                PartitionHistory,
                parameters=(TOPIC_NAME, PARTITION_INDEX, BEFORE, HAPPENINGS),
            )
        ]
