"""AlterReplicaLogDirs (34): v1-v2: moves replicas of this broker to other log directories of it (KIP-113).

v2: flexible. The response is sent when the empty copy has been created; the move continues in the background
(broker/replica/log_dir_moves), and DescribeLogDirs shows its progress.
Order: authorise, then each partition separately.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime.logs import first_names, get_logger

log = get_logger("broker")


async def handle(
    ctx: RequestContext, request: AlterReplicaLogDirsRequest, broker: Broker
) -> AlterReplicaLogDirsResponse:
    """Start or cancel moves, or store the directory for a replica that does not exist here yet."""
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    may_alter = broker.authorizer.authorize(ctx, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    response = AlterReplicaLogDirsResponse()
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    altered: list[TopicPartition] = []
    for key, path in wanted.items():
        code = await alter(broker, key, path) if may_alter else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if code is ErrorCode.NONE:
            altered.append(key)
        topic = topics.setdefault(key.topic, AlterReplicaLogDirTopicResult(topic_name=key.topic))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=key.partition, error_code=code))
    if altered:
        log.info("log directories of replicas altered", replicas=len(altered), first=first_names(altered))
    response.results = list(topics.values())
    response.throttle_time = broker.throttle(ctx)
    return response


async def alter(broker: Broker, key: TopicPartition, path: str) -> ErrorCode:
    """Move one replica to a directory; return the error code."""
    try:
        await broker.replica_manager.moves.alter(key, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


HANDLER = BrokerApi(ApiKey.ALTER_REPLICA_LOG_DIRS, handle)
