"""Records: read and write them, without a group and without a producer id."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvorum.client.records.newest_search import NewestSearch
from kvorum.client.records.partitioner import partition_of
from kvorum.client.records.record_browser import Browser, Limits, Progress
from kvorum.client.records.record_producer import ALL, failure, produce
from kvorum.client.records.record_reader import Reader
from kvorum.client.values.record import NewRecord, Record, RecordMetadata, batch_record, record_value
from kvorum.client.wire.cluster_client import ClusterClient, IsolationLevel
from kvorum.protocol import records as batch
from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.clock import SystemClock

Acks = Literal["all", 1]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Start = Literal["earliest", "latest"] | Mapping[int, int]
End = Literal["latest"] | Mapping[int, int]

UNLIMITED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """{partition: first offset to read} and {partition: offset to stop at}, within the log at the time of the call."""

    starts: dict[int, int]
    ends: dict[int, int]


class Records:
    """Records of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def read(
        self,
        topic: str,
        *,
        partitions: Sequence[int] | None = None,
        start: Start = "earliest",
        start_ms: int | None = None,
        end: End = "latest",
        end_ms: int | None = None,
        follow: bool = False,
        limit: int | None = None,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> AsyncIterator[Record]:
        """Yield the records of a topic, by timestamp where each partition is ordered by it.

        They begin at `start`: an end of the log or {partition: offset}, or at the first record with at least the
        timestamp `start_ms`. They end at `end`, as it is now, or before the first record with at least the timestamp
        `end_ms`. With `follow` they do not end: new records follow. `limit`: maximum number of records. Without
        `partitions` all are read, or those in `start`. Offsets outside the log are replaced by the nearer end.
        """
        check_range(start, start_ms, end, end_ms, follow, limit)
        client = self._client.another()  # a request that waits for records delays others of its connection
        try:
            reader = Reader(client, topic, isolation)
            offsets = await find_range(reader, partitions, start, start_ms, end, end_ms)
            browser = Browser(
                reader=reader,
                progress=Progress(offsets=offsets.starts),
                limits=limits(UNLIMITED if limit is None else limit),
                clock=SystemClock(),
                ends=None if follow else offsets.ends,
            )
            async for found in browser.records():
                if found is not None:
                    yield record_value(topic, found.partition, found.record)
        finally:
            await client.close()

    async def read_newest(
        self,
        topic: str,
        count: int = 10,
        *,
        partitions: Sequence[int] | None = None,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Sequence[Record]:
        """Return the newest records of a topic by timestamp, oldest first. Only the ends of partitions are read."""
        if count < 1:
            raise ValueError("count must be at least 1")
        reader = Reader(self._client, topic, isolation)
        earliest, ends = await reader.ends(await reader.partitions(partitions))
        found = await NewestSearch(reader, limits(count), SystemClock(), earliest, ends).find()
        return [record_value(topic, each.partition, each.record) for each in found]

    async def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        acks: Acks = "all",
        compression: Compression = "none",
    ) -> RecordMetadata:
        """Write one record; texts are written as UTF-8, a value of None is a tombstone.

        Nothing is retried: after Unreachable or REQUEST_TIMED_OUT the record may or may not be written.
        """
        record = NewRecord(
            value=value,
            key=key,
            headers=tuple(headers.items() if isinstance(headers, Mapping) else headers),
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        (written,) = await self.produce_many(topic, [record], acks=acks, compression=compression)
        if written.error is not None:
            raise written.error
        return written

    async def produce_many(
        self, topic: str, records: Iterable[NewRecord], *, acks: Acks = "all", compression: Compression = "none"
    ) -> Sequence[RecordMetadata]:
        """Write records; those of a partition in one batch, in their order. Nothing is retried.

        Check `error` of each result: the records of a partition are written together or not at all. The error of a
        record for a missing partition is UNKNOWN_TOPIC_OR_PARTITION. Raises KafkaError only if the topic is missing.
        """
        found = await self._client.topic(topic)
        count, now_ms = len(found.partitions), SystemClock().wall_ms()
        without_key = self._client.chance.randrange(count)
        rows: dict[int, tuple[int, batch.Record]] = {}
        results: dict[int, RecordMetadata] = {}
        for index, each in enumerate(records):
            record = batch_record(each, now_ms)
            partition = without_key if each.partition is None else each.partition
            if each.partition is None and record.key is not None:
                partition = partition_of(record.key, count)
            if 0 <= partition < count:
                rows[index] = partition, record
            else:
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has partitions 0 to {count - 1}")
                results[index] = failure(TopicPartition(topic, partition), record, error)
        codec, required = Codec[compression.upper()], ALL if acks == "all" else acks
        written = await produce(self._client, found, [*rows.values()], acks=required, codec=codec) if rows else []
        results.update(zip(rows, written, strict=True))
        return [results[index] for index in sorted(results)]


def limits(records: int) -> Limits:
    """Return the limits of a search that only a number of records ends."""
    return Limits(records=records, scans_max=UNLIMITED, size=UNLIMITED, time_ms=UNLIMITED)


def check_range(
    start: Start, start_ms: int | None, end: End, end_ms: int | None, follow: bool, limit: int | None
) -> None:
    """Raise ValueError for arguments that exclude each other, or that mean nothing."""
    if start_ms is not None and start != "earliest":
        raise ValueError("give either start or start_ms")
    if end_ms is not None and end != "latest":
        raise ValueError("give either end or end_ms")
    if follow and (end_ms is not None or end != "latest"):
        raise ValueError("follow has no end: leave end and end_ms out")
    if not isinstance(start, Mapping) and start not in ("earliest", "latest"):
        raise ValueError(f"start is earliest, latest or offsets by partition, not {start!r}")
    if not isinstance(end, Mapping) and end != "latest":
        raise ValueError(f"end is latest or offsets by partition, not {end!r}")
    if limit is not None and limit < 0:
        raise ValueError("limit must not be negative")


async def find_range(
    reader: Reader,
    partitions: Sequence[int] | None,
    start: Start,
    start_ms: int | None,
    end: End,
    end_ms: int | None,
) -> OffsetRange:
    """Return the offsets to read. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE."""
    if partitions is None and isinstance(start, Mapping):
        partitions = sorted(start)
    numbers = await reader.partitions(partitions)
    earliest, latest = await reader.ends(numbers)
    starts = dict(earliest)
    if isinstance(start, Mapping):
        starts |= {each: offset for each, offset in start.items() if each in starts}
    elif start_ms is not None:
        starts = await offsets_at(reader, numbers, start_ms, latest)
    elif start == "latest":
        starts = dict(latest)
    ends = dict(latest)
    if isinstance(end, Mapping):
        ends |= {each: min(offset, latest[each]) for each, offset in end.items() if each in ends}
    elif end_ms is not None:
        ends = await offsets_at(reader, numbers, end_ms, latest)
    return OffsetRange({each: min(max(starts[each], earliest[each]), latest[each]) for each in numbers}, ends)


async def offsets_at(
    reader: Reader, partitions: Sequence[int], timestamp_ms: int, latest: Mapping[int, int]
) -> dict[int, int]:
    """Return {partition: offset of the first record with at least this timestamp}; the latest without one."""
    found = await reader.at_time(partitions, max(0, timestamp_ms))  # negative numbers mean the ends of the log
    return {each: latest[each] if found[each] < 0 else found[each] for each in partitions}
