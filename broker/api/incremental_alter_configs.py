"""IncrementalAlterConfigs (44): v0-v1: set, delete, append, subtract (KIP-339).

Loggers of a broker (BROKER_LOGGER, KIP-412) are set here, at once; a restart of the process resets them.
Order: each resource once, no null value but to delete, a broker's loggers here, forward the rest.
"""

from collections import Counter

from kvorum.broker.api.config_rules import check_broker, check_stores, check_type, stored_configs
from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.broker_loggers import checked_changes
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kvorum.quorum.configs.alterations import Operation as AlterOperation
from kvorum.quorum.configs.alterations import altered
from kvorum.quorum.image.configs import ResourceType as ConfigResourceType
from kvorum.runtime import config_defs, logs
from kvorum.runtime.config_types import ConfigType


async def handle(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest, broker: Broker
) -> IncrementalAlterConfigsResponse:
    """Forward changes of configs to the controller."""
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
    answered: list[AlterConfigsResourceResponse] = []
    taken: list[AlterConfigsResource] = []
    for resource in request.resources:
        try:
            check(resource, times[resource.resource_type, resource.resource_name])
            if resource.resource_type == ConfigResourceType.BROKER:
                stored = stored_configs(broker, resource.resource_name)
                changes = {each.name: new_value(each, stored.get(each.name)) for each in resource.configs}
                after = check_broker(broker, resource.resource_name, changes)
                await check_stores(broker, after, changes.keys())
            if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
                alter_loggers(ctx, resource, broker, request.validate_only)
                answered.append(answer(resource, None))
            else:
                taken.append(resource)
        except KafkaError as error:
            answered.append(answer(resource, error))
    if not taken:
        throttle_time = broker.throttle(ctx)
        return IncrementalAlterConfigsResponse(throttle_time=throttle_time, responses=answered)
    rest = IncrementalAlterConfigsRequest(resources=taken, validate_only=request.validate_only)
    response = await forward(ctx, rest, broker, IncrementalAlterConfigsResponse, failed)
    response.responses.extend(answered)
    return response


def check(resource: AlterConfigsResource, times: int) -> None:
    """Raise KafkaError INVALID_REQUEST where the request itself is wrong."""
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    check_type(resource.resource_type)
    empty = sorted(
        config.name
        for config in resource.configs
        if config.config_operation != AlterOperation.DELETE and config.value is None
    )
    if empty:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(empty)}")


def new_value(alteration: AlterableConfig, stored: str | None) -> str | None:
    """Return the new value of a broker config, None to delete it. Raises KafkaError."""
    definition = config_defs.broker_def(alteration.name)
    default = None if definition is None else definition.default
    is_list = definition is not None and definition.type is ConfigType.LIST
    return altered(alteration, stored, default, is_list=is_list)


def alter_loggers(ctx: RequestContext, resource: AlterConfigsResource, broker: Broker, validate_only: bool) -> None:
    """Change this broker's log levels. Raises KafkaError as Kafka's RuntimeLoggerManager does."""
    if not broker.authorizer.authorize(ctx, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    changes = checked_changes(resource, broker.broker_id, logs.get_levels())
    if not validate_only:
        logs.change_levels(changes)


def answer(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    """Answer one resource."""
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def failed(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    """Answer the same for every resource."""
    return IncrementalAlterConfigsResponse(responses=[answer(resource, error) for resource in request.resources])


HANDLER = BrokerApi(ApiKey.INCREMENTAL_ALTER_CONFIGS, handle)
