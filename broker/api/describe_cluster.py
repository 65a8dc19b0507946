"""DescribeCluster (60): v0-v2.

v1: endpoint type, brokers or controllers (KIP-919). v2: fenced brokers too, if requested (KIP-1073).
Order: check the endpoint type, respond; authorised operations on the cluster only if requested and if the client may
describe it.
"""

from kvorum.broker.metadata.cache import node_of
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType, authorized_operations
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKER_ENDPOINT = 1
CONTROLLER_ENDPOINT = 2


def handle(ctx: RequestContext, request: DescribeClusterRequest, broker: Broker) -> DescribeClusterResponse:
    """Answer the brokers as clients of this listener reach them."""
    response = DescribeClusterResponse(throttle_time=broker.throttle_handshake(ctx, ctx.software_name))
    if request.include_cluster_authorized_operations:
        may = broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = (
            authorized_operations(broker.authorizer, ctx, ResourceType.CLUSTER, CLUSTER_NAME) if may else 0
        )
    if ctx.api_version >= 1 and request.endpoint_type != BROKER_ENDPOINT:
        mismatched = request.endpoint_type == CONTROLLER_ENDPOINT
        response.error_code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if mismatched else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        response.error_message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            if mismatched
            else f"Unsupported endpoint type {request.endpoint_type}"
        )
        return response
    response.endpoint_type = BROKER_ENDPOINT
    response.cluster_id = broker.cluster_id
    response.controller_id = broker.metadata.controller_id()
    for registration in broker.metadata.image.cluster.sorted_brokers():
        node = node_of(registration, ctx.listener)
        if node is None or (registration.fenced and not request.include_fenced_brokers):
            continue
        response.brokers.append(
            DescribeClusterBroker(
                broker_id=node.broker_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=registration.fenced,
            )
        )
    return response


HANDLER = BrokerApi(ApiKey.DESCRIBE_CLUSTER, handle)
