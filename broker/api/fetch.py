"""Fetch (1): v4-v18.

v7: incremental sessions (KIP-227). v9: current leader epoch (KIP-320). v11: racks, consumers are sent to followers and
read there (KIP-392). v12: flexible, last fetched epoch (KIP-595). v13: topic ids (KIP-516). v15: replica state
(KIP-903). v16: current leader's endpoint (KIP-951). v17: directory ids. v18: the follower's high watermark (KIP-1166;
not needed here). `__cluster_metadata` is read from this broker's own copy of the metadata log.
Order: session, authorise, read, wait for min bytes, quota, respond. Only active partitions of a session are inspected;
resting ones are added when a change wakes them, also during a wait. A consumer over its quota gets an empty response.
`records` is never null, because clients treat that as an error.
"""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from kvorum.broker.api import fetch_metadata_log
from kvorum.broker.api.hints import WRONG_LEADER, Hints
from kvorum.broker.api.metadata import may_describe
from kvorum.broker.fetch_session import TOPIC_ID_VERSION_MIN, FetchContext
from kvorum.broker.fetch_session_state import CachedPartition
from kvorum.broker.metadata.cache import METADATA_TOPIC, Node
from kvorum.broker.replica.fetches import FetchRows, ParkedFetch, error_row
from kvorum.broker.replica.types import CONSUMER_REPLICA_ID, FetchParams, IsolationLevel
from kvorum.broker.services import Broker, BrokerApi, Result
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kvorum.protocol.parts import Part, part_size
from kvorum.security.principal import ANONYMOUS

RACK_VERSION_MIN: Final = 11
REPLICA_STATE_VERSION_MIN: Final = 15
HINTS_VERSION_MIN: Final = 16


def handle(ctx: RequestContext, request: FetchRequest, broker: Broker) -> Result:
    """Read the available records; answer at once, with enough data, or when the client's wait time is over."""
    if request.isolation_level not in (0, 1):
        return failed(ctx, request, broker, ErrorCode.UNKNOWN_SERVER_ERROR)
    params = params_of(ctx, request, broker)
    now_ms = broker.clock.monotonic_ms()
    try:
        context = broker.fetch_sessions.context(
            request,
            ctx.api_version,
            is_from_follower=params.is_from_follower,
            topic_name=broker.metadata.topic_name,
            now_ms=now_ms,
            asker=asker_of(ctx, params, broker),
        )
    except KafkaError as error:
        throttle_time = broker.throttle(ctx, exempt=params.is_from_follower)
        return FetchResponse(error_code=error.code, throttle_time=throttle_time)
    refused, targets = sort_out(ctx, params, broker, context.targets)
    if any(target.topic == METADATA_TOPIC for target in targets):
        # It is woken in another way, and so must be the others in the session.
        context.wake_all()
        refused, targets = sort_out(ctx, params, broker, context.targets)
        return from_metadata_log(ctx, params, broker, context, refused, targets)
    if refused:
        # An error is returned at once, with all available rows.
        params = replace(params, max_wait_ms=0)
    answer = PendingAnswer(ctx, broker, context, refused, params)
    parked = broker.replica_manager.fetch_records(params, targets, answer.complete, context.has_resting)
    if answer.rows is not None:
        return answer.response(answer.rows)
    answer.future = future = asyncio.get_running_loop().create_future()
    if parked is not None:
        context.waits(parked)
        future.add_done_callback(partial(cancel_parked, parked))
    return future


class PendingAnswer:
    """The answer to a fetch that may be parked. No nested function: see produce.PendingAnswer."""

    __slots__ = ("_broker", "_context", "_ctx", "_params", "_refused", "future", "rows")

    def __init__(
        self, ctx: RequestContext, broker: Broker, context: FetchContext, refused: FetchRows, params: FetchParams
    ) -> None:
        """Start without rows; `refused` are those of partitions that are not read."""
        self._ctx = ctx
        self._broker = broker
        self._context = context
        self._refused = refused
        self._params = params
        self.rows: FetchRows | None = None
        """Handle of a completed fetch."""
        self.future: asyncio.Future[FetchResponse] | None = None
        """Set once the fetch turned out to be parked."""

    def complete(self, rows: FetchRows) -> None:
        """Store the rows of the fetch."""
        future = self.future
        if future is None:
            self.rows = rows
        elif not future.done():
            future.set_result(self.response(rows))

    def response(self, rows: FetchRows) -> FetchResponse:
        """Return the answer with these rows."""
        rows = self._refused + rows if self._refused else rows
        return respond(self._ctx, self._broker, self._context, rows, self._params)


def cancel_parked(parked: ParkedFetch, future: "asyncio.Future[FetchResponse]") -> None:
    """Unpark a fetch whose answer was cancelled."""
    if future.cancelled():
        parked.cancel()


def params_of(ctx: RequestContext, request: FetchRequest, broker: Broker) -> FetchParams:
    """Return the parameters of the whole fetch, within this broker's limits."""
    if ctx.api_version >= REPLICA_STATE_VERSION_MIN:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    else:
        replica_id, replica_epoch = request.replica_id, -1
    from_follower = replica_id >= 0
    bytes_max = max(0, min(request.max_bytes, broker.settings.int("fetch.max.bytes")))
    if broker.quotas.enabled and not from_follower:
        bytes_max = min(bytes_max, broker.quotas.fetch_bytes_max(ctx))
    return FetchParams(
        replica_id=replica_id if from_follower else CONSUMER_REPLICA_ID,
        replica_epoch=replica_epoch,
        max_wait_ms=request.max_wait,
        min_bytes=min(request.min_bytes, bytes_max),
        max_bytes=bytes_max,
        isolation_level=IsolationLevel.READ_COMMITTED
        if request.isolation_level == 1
        else IsolationLevel.READ_UNCOMMITTED,
        fetch_only_leader=from_follower or ctx.api_version < RACK_VERSION_MIN,
        rack_id=request.rack_id,
        listener=ctx.listener,
    )


def asker_of(ctx: RequestContext, params: FetchParams, broker: Broker) -> Hashable:
    """Return the client attributes on which responses depend; after a change all partitions are read."""
    replica_id = params.replica_id
    return (
        ctx.principal,
        broker.authorizer.version,
        replica_id,
        params.replica_epoch,
        broker.metadata.broker_epoch(replica_id) if replica_id >= 0 else None,
        params.isolation_level,
        params.fetch_only_leader,
        params.rack_id,
    )


def sort_out(
    ctx: RequestContext, params: FetchParams, broker: Broker, requested: Sequence[CachedPartition]
) -> tuple[FetchRows, list[CachedPartition]]:
    """Return rows for rejected partitions, and the targets that may be read."""
    refused: FetchRows = []
    targets: list[CachedPartition] = []
    as_broker = params.is_from_follower
    allowed: dict[str, bool] = {}
    may_replicate = as_broker and broker.authorizer.authorize(
        ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )
    for target in requested:
        topic = target.topic
        if not topic and ctx.api_version >= TOPIC_ID_VERSION_MIN:
            refused.append((target, refusal(target.partition, ErrorCode.UNKNOWN_TOPIC_ID)))
            continue
        may = may_replicate
        # No replica reads the metadata log from a broker, so a replica id gives no right to it.
        if not as_broker or topic == METADATA_TOPIC:
            if topic not in allowed:
                allowed[topic] = may_read(ctx, broker, topic)
            may = allowed[topic]
        if not may:
            refused.append((target, refusal(target.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
        elif topic != METADATA_TOPIC and broker.metadata.partition(topic, target.partition) is None:
            refused.append((target, refusal(target.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
        else:
            targets.append(target)
    return refused, targets


def refusal(partition_index: int, code: ErrorCode) -> PartitionData:
    """Return the row of a partition that is not read; unlike after a read there is a list of transactions."""
    row = error_row(partition_index, code)
    row.aborted_transactions = []
    return row


def failed(ctx: RequestContext, request: FetchRequest, broker: Broker, code: ErrorCode) -> FetchResponse:
    """Return an error for the whole request, before v13 also for every partition."""
    response = FetchResponse(throttle_time=broker.throttle(ctx), error_code=code, session_id=request.session_id)
    if ctx.api_version < TOPIC_ID_VERSION_MIN:
        for topic in request.topics:
            rows = [refusal(each.partition, code) for each in topic.partitions]
            response.responses.append(FetchableTopicResponse(topic=topic.topic, partitions=rows))
    return response


def may_read(ctx: RequestContext, broker: Broker, topic: str) -> bool:
    """Call the authorizer for a consumer.

    The metadata log requires DESCRIBE on the cluster. If it has credentials (SCRAM's salts and keys), it requires
    CLUSTER_ACTION too, and is not readable without authentication.
    """
    if topic == METADATA_TOPIC:
        if broker.metadata.image.scram.users:
            is_node = broker.authorizer.authorize(ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            if not is_node or ctx.principal == ANONYMOUS:
                return False
        return may_describe(ctx, broker, topic)
    return broker.authorizer.authorize(ctx, Operation.READ, ResourceType.TOPIC, topic)


def respond(
    ctx: RequestContext,
    broker: Broker,
    context: FetchContext,
    rows: FetchRows,
    params: FetchParams,
    *,
    may_rest: bool = True,
) -> FetchResponse:
    """Turn the rows into the session's answer; a consumer over its quota gets none of them.

    `may_rest`: a partition whose state was returned completely is skipped until it changes.
    """
    if broker.quotas.enabled and not params.is_from_follower:
        ctx.throttle_ms = broker.quotas.fetch_throttle_ms(ctx, size_of(rows))
        if ctx.throttle_ms:
            response = context.throttled()
            response.throttle_time = ctx.throttle_ms
            return response
    hints = add_hints(ctx, broker, rows) if ctx.api_version >= HINTS_VERSION_MIN else None
    try_rest = partial(broker.replica_manager.rest, params) if may_rest else None
    response = context.respond(rows, broker.clock.monotonic_ms(), try_rest)
    if hints is not None:
        response.node_endpoints = hints.endpoints(endpoint)
    return response


def size_of(rows: FetchRows) -> int:
    """Return the bytes of all records in the rows."""
    return sum(sum(part_size(part) for part in parts_of(row)) for _, row in rows)


def parts_of(row: PartitionData) -> tuple[Part, ...]:
    """Return a row's records as parts."""
    return row.records if isinstance(row.records, tuple) else ()


def add_hints(ctx: RequestContext, broker: Broker, rows: FetchRows) -> Hints | None:
    """Add the current leader where the client sent the request to the wrong broker."""
    hints: Hints | None = None
    for target, row in rows:
        if row.error_code in WRONG_LEADER:
            hints = hints or Hints(broker, ctx.listener)
            leader_id, leader_epoch = hints.leader(target.topic, target.partition)
            row.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return hints


def endpoint(node: Node) -> NodeEndpoint:
    """Return a leader's endpoint as this answer has it."""
    return NodeEndpoint(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)


async def from_metadata_log(
    ctx: RequestContext,
    params: FetchParams,
    broker: Broker,
    context: FetchContext,
    refused: FetchRows,
    targets: list[CachedPartition],
) -> FetchResponse:
    """Answer a fetch with the metadata log in it: rare, so it may cost a task."""
    rows = await fetch_metadata_log.fetch(params, broker, targets, urgent=bool(refused))
    return respond(ctx, broker, context, refused + rows, params, may_rest=False)


HANDLER = BrokerApi(ApiKey.FETCH, handle, abandon=True)
