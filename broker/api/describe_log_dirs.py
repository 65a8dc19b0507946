"""DescribeLogDirs (35): v1-v5: replicas of each log directory, with their sizes.

v3: top-level error. v4: space on the volume (KIP-827). v5: cordoned directories.
A copy that will replace a replica (AlterReplicaLogDirs) is a separate entry, a future one; its lag is relative to the
replica's log.
Order: authorise, list the directories.
"""

from collections.abc import Iterable
from typing import Final

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kvorum.storage.log import Log
from kvorum.storage.log_dir import LogDir

UNKNOWN_BYTES: Final = -1
INVALID_OFFSET_LAG: Final = -1
"""Lag of a copy whose log no longer exists here."""


def handle(ctx: RequestContext, request: DescribeLogDirsRequest, broker: Broker) -> DescribeLogDirsResponse:
    """Describe all directories, with the requested partitions (null: all)."""
    response = DescribeLogDirsResponse(throttle_time=broker.throttle(ctx))
    if not broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        if ctx.api_version >= 3:
            response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return response
    requested = None
    if request.topics is not None:
        requested = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    for directory in broker.log_manager.dirs:
        result = describe(broker, directory, requested)
        result.is_cordoned = broker.log_manager.is_cordoned(directory)
        response.results.append(result)
    return response


def describe(broker: Broker, directory: LogDir, requested: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    """Describe one directory; of an offline one only that it is."""
    result = DescribeLogDirsResult(log_dir=directory.path, total_bytes=UNKNOWN_BYTES, usable_bytes=UNKNOWN_BYTES)
    if not directory.is_online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    try:
        usable, total = broker.disk.free_bytes(directory.path), broker.disk.total_bytes(directory.path)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.usable_bytes, result.total_bytes = usable, total
    logs = broker.log_manager.logs_in(directory)
    result.topics = by_topic(broker, (each for each in logs if requested is None or tuple(each.partition) in requested))
    return result


def by_topic(broker: Broker, logs: Iterable[Log]) -> list[DescribeLogDirsTopic]:
    """Group the logs by topic."""
    topics: dict[str, DescribeLogDirsTopic] = {}
    for each in logs:
        name = each.partition.topic
        topics.setdefault(name, DescribeLogDirsTopic(name=name)).partitions.append(
            DescribeLogDirsPartition(
                partition_index=each.partition.partition,
                partition_size=each.size,
                offset_lag=offset_lag(broker, each),
                is_future_key=broker.log_manager.futures.get(each.partition) is each,
            )
        )
    return list(topics.values())


def offset_lag(broker: Broker, each: Log) -> int:
    """Return the lag of a log: a replica's relative to its high watermark, a future one's to the replica."""
    current = broker.log_manager.get_log(each.partition)
    if current is None:
        return INVALID_OFFSET_LAG
    if current is each:
        return max(0, each.high_watermark - each.log_end_offset)
    return current.log_end_offset - each.log_end_offset


HANDLER = BrokerApi(ApiKey.DESCRIBE_LOG_DIRS, handle)
