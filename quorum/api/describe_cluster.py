"""DescribeCluster (60): v0-v2, of the controllers (KIP-700, KIP-919).

v1: endpoint type; a controller's listener answers for controllers only. v2: fenced brokers (controllers are never
fenced). A broker's ClusterAction is sufficient beside Kafka's Alter: each connection to a controller begins with this
request (network/cluster_check). Order: authorise, endpoint type, answer.
"""

from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType, authorized_operations
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kvorum.quorum.services import ControllerServices

BROKERS = 1
CONTROLLERS = 2
"""EndpointType on the wire."""


async def handle(
    ctx: RequestContext, request: DescribeClusterRequest, services: ControllerServices
) -> DescribeClusterResponse:
    """Answer where the controllers are and which of them is active."""
    if not services.may(ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        services.authorize_cluster(ctx, Operation.ALTER)
    if request.endpoint_type != CONTROLLERS:
        known = request.endpoint_type == BROKERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of the wrong type."
                if known
                else f"Unsupported endpoint type {request.endpoint_type}"
            ),
        )
    leader_id, _ = services.leader_and_epoch()
    response = DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=services.cluster_id,
        controller_id=leader_id,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=host, port=port)
            for node_id, (host, port) in sorted(services.voter_addresses(ctx.listener).items())
        ],
    )
    if request.include_cluster_authorized_operations and services.may(
        ctx, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        response.cluster_authorized_operations = authorized_operations(
            services.authorizer, ctx, ResourceType.CLUSTER, CLUSTER_NAME
        )
    return response
