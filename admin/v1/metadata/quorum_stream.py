"""Live state of the quorum: GET /v1/quorum/stream.

No request waits for a change of the quorum. Its changes are in the metadata log, which grows at least twice per second:
with new records, or after a while without any, DescribeQuorum is sent.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from kvorum.admin.http.operations import EVENT_STREAM, Call, NoBody, Operation, Stream
from kvorum.admin.http.parameters import STREAM_COUNT, STREAM_SECONDS
from kvorum.admin.v1.metadata.event_routes import end_of_log, log_row
from kvorum.admin.v1.metadata.metadata_models import QuorumMember, QuorumSample
from kvorum.admin.v1.records.message_routes import event
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_quorum import ReplicaState
from kvorum.protocol.records import batches

WAIT_MS = 1_000
"""Time that a broker waits for new log records; then the quorum is queried anyway."""
SAMPLE_MS_MIN = 1_000
"""Between two questions, however much happens."""
ANSWER_MS = 5_000
"""Timeout of a broker, which waits longer for a missing active controller."""


async def follow_quorum(call: Call[NoBody]) -> Stream:
    """Stream the quorum's state as `quorum` events, at most once per second; `end` comes last.

    Without a reachable active controller `leader_id` is -1 and `error` has the reason.
    """
    limit = STREAM_COUNT.of(call)
    seconds = STREAM_SECONDS.of(call)
    begin = await end_of_log(call.cluster)

    async def samples() -> AsyncIterator[bytes]:
        cluster = call.cluster.another()
        cluster.timeout_ms = ANSWER_MS
        deadline_ms = call.clock.monotonic_ms() + seconds * 1_000
        offset, sent = begin, 0
        try:
            while call.clock.monotonic_ms() < deadline_ms:
                requested_ms = call.clock.monotonic_ms()
                sample = await sample_of(cluster, call.clock.wall_ms())
                yield event("quorum", sample.model_dump_json().encode())
                sent += 1
                if sent >= limit:
                    yield event("end", msgspec.json.encode({"stopped_by": "limit"}))
                    return
                offset = await wait_for_growth(cluster, offset)
                await asyncio.sleep((requested_ms + SAMPLE_MS_MIN - call.clock.monotonic_ms()) / 1_000)
            yield event("end", msgspec.json.encode({"stopped_by": "time"}))
        finally:
            await cluster.close()

    return Stream(media=EVENT_STREAM, chunks=samples())


async def sample_of(cluster: ClusterClient, now_ms: int) -> QuorumSample:
    """Return the state of the quorum, also if it is not available."""
    try:
        partition = (await cluster.describe_quorum()).topics[0].partitions[0]
    except (KafkaError, Unreachable) as error:
        return QuorumSample(
            timestamp_ms=now_ms,
            leader_id=-1,
            leader_epoch=-1,
            high_watermark=-1,
            voters=[],
            observers=[],
            error=error.code.name if isinstance(error, KafkaError) else "CLUSTER_UNREACHABLE",
        )
    end = max([state.log_end_offset for state in partition.current_voters], default=0)
    return QuorumSample(
        timestamp_ms=now_ms,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=members(partition.current_voters, end),
        observers=members(partition.observers, end),
        error=None,
    )


def members(states: Sequence[ReplicaState], end: int) -> list[QuorumMember]:
    """Return each member, by its id."""
    return [
        QuorumMember(
            id=state.replica_id,
            log_end_offset=state.log_end_offset,
            lag=max(0, end - state.log_end_offset),
            last_caught_up_ms=state.last_caught_up_timestamp,
        )
        for state in sorted(states, key=lambda state: state.replica_id)
    ]


async def wait_for_growth(cluster: ClusterClient, offset: int) -> int:
    """Wait until the log has grown, or WAIT_MS; return where it ends. Raises KafkaError."""
    try:
        row = await log_row(cluster, offset, WAIT_MS)
    except Unreachable:  # the queried broker has died: the next sample uses another
        return offset
    except KafkaError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        return await end_of_log(cluster)  # the skipped records do not show the present quorum
    if row is None:
        return offset
    data = b"" if row.records is None else memoryview(row.records)  # type: ignore[arg-type]  # decoded: a view
    for _, header in batches(memoryview(data)):
        offset = max(offset, header.next_offset)
    return offset


OPERATIONS = [
    Operation.get(
        "/v1/quorum/stream",
        "Stream the quorum",
        follow_quorum,
        QuorumSample,
        media=(EVENT_STREAM,),
        parameters=(STREAM_COUNT, STREAM_SECONDS),
    )
]
