"""IncrementalAlterConfigs (44): v0-v1 (KIP-339). The rules: controller/configs_control.py.

This process's loggers (BROKER_LOGGER, KIP-412) are not metadata: they are set at once, on any controller.
Order: loggers (CLUSTER_ACTION on the cluster); authorise each resource (ALTER_CONFIGS on the topic, or on the cluster),
decide, answer when committed.
"""

from collections.abc import Iterator

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.broker_loggers import checked_changes
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kvorum.quorum.api.config_rights import by_rights
from kvorum.quorum.controller.configs_control import answer_row, incremental_alter_configs
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.services import ControllerServices
from kvorum.runtime import logs


async def handle(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest, services: ControllerServices
) -> IncrementalAlterConfigsResponse:
    """Change single configs."""
    loggers = [answer_row(AlterConfigsResourceResponse, *each) for each in alter_loggers(ctx, request, services)]
    resources = [each for each in request.resources if each.resource_type != ResourceType.BROKER_LOGGER]
    if loggers and not resources:
        return IncrementalAlterConfigsResponse(responses=loggers)
    request.resources, refused = by_rights(ctx, services, resources)
    try:
        rows = (
            await services.submit(ctx, incremental_alter_configs, request, name="incrementalAlterConfigs")
        ).responses
    except KafkaError as error:
        rows = [answer_row(AlterConfigsResourceResponse, item, error) for item in request.resources]
    rows += [answer_row(AlterConfigsResourceResponse, *each) for each in refused]
    return IncrementalAlterConfigsResponse(responses=rows + loggers)


def alter_loggers(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest, services: ControllerServices
) -> Iterator[tuple[AlterConfigsResource, KafkaError | None]]:
    """Change the requested log levels of this process if permitted; yield each resource with its error."""
    for resource in request.resources:
        if resource.resource_type != ResourceType.BROKER_LOGGER:
            continue
        try:
            services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
            changes = checked_changes(resource, services.node_id, logs.get_levels())
        except KafkaError as error:
            yield resource, error
            continue
        if not request.validate_only:
            logs.change_levels(changes)
        yield resource, None
