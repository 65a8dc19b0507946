"""ListConfigResources (74): v0-v1.

v0: client metrics only (KIP-714). v1: any type (KIP-1142); no types means all.
Order: authorise, check the types, answer.
"""

from collections.abc import Iterator

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kvorum.quorum.image.configs import ResourceType as ConfigResourceType

LISTED = (
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.GROUP,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)
"""In the order in which Kafka lists them."""


def handle(ctx: RequestContext, request: ListConfigResourcesRequest, broker: Broker) -> ListConfigResourcesResponse:
    """List the resources that have configs."""
    response = ListConfigResourcesResponse(throttle_time=broker.throttle(ctx))
    if not broker.authorizer.authorize(ctx, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return response
    types = [ConfigResourceType.CLIENT_METRICS] if ctx.api_version == 0 else request.resource_types or [*LISTED]
    if any(each not in LISTED for each in types):
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return response
    response.config_resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in LISTED
        if kind in types
        for name in names(kind, broker)
    ]
    return response


def names(kind: ConfigResourceType, broker: Broker) -> Iterator[str]:
    """Yield the names of the resources of a type."""
    match kind:
        case ConfigResourceType.TOPIC:
            yield from broker.metadata.topic_names()
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            for registration in broker.metadata.image.cluster.sorted_brokers():
                yield str(registration.broker_id)
        case ConfigResourceType.GROUP | ConfigResourceType.CLIENT_METRICS:
            resources = broker.metadata.image.configs.resources
            yield from sorted(each.name for each in resources if each.resource_type == kind)
        case _:
            return


HANDLER = BrokerApi(ApiKey.LIST_CONFIG_RESOURCES, handle)
