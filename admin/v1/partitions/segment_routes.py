"""The segments of a partition's log over HTTP, as files on this node's own disks.

Kafka's protocol does not expose segments: the files are visible only on the broker's machine. So this server shows
those of its own node's broker, and redirects requests for others. The reader of the files is passed in (LocalLogs).
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pydantic import BaseModel, Field

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.paging import behind
from kvorum.admin.http.parameters import INT64_MAX, PARTITION_INDEX, TOPIC_NAME, count, optional_number
from kvorum.admin.v1.models import INT32_MAX
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime import blocking

SEGMENTS = count("segments per page", default=1_000, most=10_000)


BROKER = optional_number("broker", "broker of the replica: this node's own (default)", 0, INT32_MAX)
AFTER = optional_number("after", "start after this base offset", 0, INT64_MAX)


class LocalSegment(NamedTuple):
    """A segment's files: their sizes, None for a missing one."""

    base_offset: int
    size: int
    modified_ms: int
    index_size: int | None
    time_index_size: int | None
    txn_index_size: int | None
    max_timestamp_ms: int | None
    """Of the last entry of the time index; None without entries: the last one is written when the segment is full."""


class LocalLog(NamedTuple):
    """A partition's log in one log directory: the segments by offset; `future`: a copy on its way there."""

    directory: str
    future: bool
    segments: list[LocalSegment]


class LocalLogs(Protocol):
    """The log directories of the broker on this node."""

    @property
    def broker(self) -> int:
        """The broker's id."""
        ...

    def logs(self, topic: str, partition: int) -> list[LocalLog]:
        """Return the logs of a partition, none without a replica here.

        Reads files: call it outside the loop. Raises OSError.

        The broker changes them at the same time: files that disappear are omitted.
        """
        ...


class Segment(BaseModel):
    """A segment's files."""

    base_offset: int
    next_offset: int | None = Field(description="Base offset of the next segment; null: the active segment")
    size_bytes: int
    modified_ms: int
    max_timestamp_ms: int | None = Field(description="From the time index; null: not written yet")
    index_bytes: int | None
    time_index_bytes: int | None
    txn_index_bytes: int | None


class SegmentPage(BaseModel):
    """A page of the segments of a replica."""

    topic: str
    partition: int
    broker: int
    log_dir: str
    future_log_dir: str | None = Field(description="Target directory of a move in progress")
    segment_count: int
    size_bytes: int = Field(description="Size of all segments, without indexes")
    segments: list[Segment]
    next: int | None = Field(description="The `after` of the next page; null at the end")


class SegmentRoutes:
    """The path of one server, which may run on a broker's node."""

    def __init__(self, local: LocalLogs | None) -> None:
        """Expose the logs of this broker; None: the server has no broker."""
        self._local = local

    async def list_segments(self, call: Call[NoBody]) -> SegmentPage:
        """List the segments of the replica on this server's own broker.

        Other brokers are rejected (421); use the server of that broker's node.
        """
        limit, after = SEGMENTS.of(call), AFTER.of(call)
        requested = BROKER.of(call)
        index = PARTITION_INDEX.of(call)
        topic = await call.cluster.topic(TOPIC_NAME.of(call))
        row = next((each for each in topic.partitions if each.partition_index == index), None)
        if row is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic.name}-{index}")
        local = self._local
        if local is None:
            raise misdirected_request("this server runs without a broker and has no access to log files")
        if requested is not None and requested != local.broker:
            raise misdirected_request(
                f"this server can read the files of broker {local.broker} only; use the server of broker {requested}"
            )
        try:
            found = await blocking.run(asyncio.get_running_loop(), local.logs, topic.name or "", index)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"broker {local.broker}: {error}") from error
        current = next((each for each in found if not each.future), None)
        if current is None:
            holders = ", ".join(map(str, row.replica_nodes))
            raise misdirected_request(
                f"broker {local.broker} has no replica of {topic.name}-{index}; replicas are on {holders}"
            )
        page, more = behind(current.segments, lambda each: each.base_offset, after, limit)
        ends = dict(zip(bases(current.segments), bases(current.segments[1:]), strict=False))
        return SegmentPage(
            topic=topic.name or "",
            partition=index,
            broker=local.broker,
            log_dir=current.directory,
            future_log_dir=next((each.directory for each in found if each.future), None),
            segment_count=len(current.segments),
            size_bytes=sum(each.size for each in current.segments),
            segments=[segment_of(each, ends.get(each.base_offset)) for each in page],
            next=page[-1].base_offset if more else None,
        )

    def operations(self) -> Sequence[Operation]:
        """Return the path."""
        return [
            Operation.get(
                "/v1/topics/{topic}/partitions/{partition}/segments",
                "List the segments of a replica",
                self.list_segments,
                SegmentPage,
                parameters=(TOPIC_NAME, PARTITION_INDEX, BROKER, AFTER, SEGMENTS),
            )
        ]


def bases(segments: Sequence[LocalSegment]) -> list[int]:
    """Return where segments begin."""
    return [each.base_offset for each in segments]


def segment_of(found: LocalSegment, next_offset: int | None) -> Segment:
    """Return a segment for HTTP."""
    return Segment(
        base_offset=found.base_offset,
        next_offset=next_offset,
        size_bytes=found.size,
        modified_ms=found.modified_ms,
        max_timestamp_ms=found.max_timestamp_ms,
        index_bytes=found.index_size,
        time_index_bytes=found.time_index_size,
        txn_index_bytes=found.txn_index_size,
    )


def misdirected_request(message: str) -> HttpError:
    """Return the refusal of what another server could answer (RFC 9110, 15.5.20)."""
    return HttpError(421, "MISDIRECTED_REQUEST", message)
