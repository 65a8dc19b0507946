"""AlterConfigs (33): v0-v2. Replaces all configs of a resource; deprecated for IncrementalAlterConfigs.

Log levels of a broker cannot be set by this request: INVALID_REQUEST.
Order: reject duplicate resources, reject resources without cluster configs, forward the others.
"""

from collections import Counter

from kvorum.broker.api.config_rules import check_broker, check_stores, check_type, stored_configs
from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kvorum.quorum.image.configs import ResourceType


async def handle(ctx: RequestContext, request: AlterConfigsRequest, broker: Broker) -> AlterConfigsResponse:
    """Forward the replacement of configs to the controller."""
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    refused: list[AlterConfigsResourceResponse] = []
    taken: list[AlterConfigsResource] = []
    for resource in request.resources:
        try:
            await check(broker, resource, times[resource.resource_type, resource.resource_name])
            taken.append(resource)
        except KafkaError as error:
            refused.append(refuse(resource, error))
    if not taken:
        return AlterConfigsResponse(throttle_time=broker.throttle(ctx), responses=refused)
    rest = AlterConfigsRequest(resources=taken, validate_only=request.validate_only)
    response = await forward(ctx, rest, broker, AlterConfigsResponse, failed)
    response.responses.extend(refused)
    return response


async def check(broker: Broker, resource: AlterConfigsResource, times: int) -> None:
    """Raise KafkaError INVALID_REQUEST where the request itself is wrong."""
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    check_type(resource.resource_type)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        problem = f"Unexpected resource type BROKER_LOGGER for resource {resource.resource_name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    empty = sorted(config.name for config in resource.configs if config.value is None)
    if empty:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(empty)}")
    if resource.resource_type == ResourceType.BROKER:
        stored = stored_configs(broker, resource.resource_name)
        changes = {**dict.fromkeys(stored), **{each.name: each.value for each in resource.configs}}
        after = check_broker(broker, resource.resource_name, changes)
        await check_stores(broker, after, changes.keys())


def refuse(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    """Answer one resource with an error."""
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def failed(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    """Answer the same for every resource."""
    return AlterConfigsResponse(responses=[refuse(resource, error) for resource in request.resources])


HANDLER = BrokerApi(ApiKey.ALTER_CONFIGS, handle)
