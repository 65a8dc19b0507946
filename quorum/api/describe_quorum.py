"""DescribeQuorum (55): v0-v2, from the active controller only (KIP-595, KIP-836, KIP-853).

v1: last fetch and caught-up times. v2: directory ids, error messages, the controllers' endpoints.
Observers are the brokers that fetch the log here. A combined node is one replica, as in Kafka, where its broker reads
the controller's log: it is listed as a controller. A controller whose directory is not in the voter set is an observer;
in a dynamic quorum the voter of the same id, with the directory that was lost, is listed beside it.
Order: authorise, the one partition, leadership, answer.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.quorum.batches import METADATA_PARTITION, METADATA_TOPIC
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: DescribeQuorumRequest, services: ControllerServices
) -> DescribeQuorumResponse:
    """Return voters and observers with their positions."""
    services.authorize_cluster(ctx, Operation.DESCRIBE)
    if not _asks_for_metadata(request):
        return _unknown_partitions(request)
    if not services.is_serving():
        # In the top-level field as well as in the row: forwarders read the former, Kafka's tools the latter.
        row = ResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message=None)
        return _answer(row, services, error_code=ErrorCode.NOT_CONTROLLER if ctx.forwarded else ErrorCode.NONE)
    leader_id, epoch = services.leader_and_epoch()
    replicas = services.metadata_log.replicas()
    states = [
        ReplicaState(
            replica_id=replica.node_id,
            replica_directory_id=replica.directory_id,
            log_end_offset=replica.log_end_offset,
            last_fetch_timestamp=replica.last_fetch_timestamp_ms,
            last_caught_up_timestamp=replica.last_caught_up_timestamp_ms,
        )
        for replica in replicas
    ]
    observers = [state for state, replica in zip(states, replicas, strict=True) if not replica.is_voter]
    observers += [
        ReplicaState(
            replica_id=seen.replica_id,
            replica_directory_id=seen.directory_id,
            log_end_offset=seen.fetch_offset,
            last_fetch_timestamp=seen.last_fetch_ms,
            last_caught_up_timestamp=seen.last_caught_up_ms,
        )
        for seen in services.followers()
    ]
    row = ResponsePartitionData(
        error_message=None,
        leader_id=leader_id,
        leader_epoch=epoch,
        high_watermark=services.metadata_log.high_watermark,
        current_voters=[state for state, replica in zip(states, replicas, strict=True) if replica.is_voter],
        observers=observers,
    )
    return _answer(row, services)


def _asks_for_metadata(request: DescribeQuorumRequest) -> bool:
    return (
        len(request.topics) == 1
        and request.topics[0].topic_name == METADATA_TOPIC
        and [partition.partition_index for partition in request.topics[0].partitions] == [METADATA_PARTITION]
    )


def _unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return UNKNOWN_TOPIC_OR_PARTITION for each requested partition, as Kafka's DescribeQuorumRequest."""
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    ResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=None,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _answer(
    row: ResponsePartitionData, services: ControllerServices, error_code: ErrorCode = ErrorCode.NONE
) -> DescribeQuorumResponse:
    name = services.listener_name
    endpoints = services.voter_endpoints() or {
        node_id: [(name, host, port)] for node_id, (host, port) in services.voter_addresses(name).items()
    }
    return DescribeQuorumResponse(
        error_code=error_code,
        error_message=None,
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[row])],
        nodes=[
            Node(node_id=node_id, listeners=[Listener(name=name, host=host, port=port) for name, host, port in found])
            for node_id, found in sorted(endpoints.items())
        ],
    )
