"""IncrementalAlterConfigs (44): v0-v1 (KIP-339). The rules: controller/configs_control.py.

Not here: configs of BROKER_LOGGER, CLIENT_METRICS and GROUP, which are refused with INVALID_REQUEST.
Order: authorise each resource (ALTER_CONFIGS on the topic, or on the cluster), decide, answer when committed.
"""

from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kvorum.quorum.api.config_rights import alter_refusal
from kvorum.quorum.controller.configs_control import incremental_alter_configs
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest, services: ControllerServices
) -> IncrementalAlterConfigsResponse:
    """Change single configs."""
    refused: list[AlterConfigsResourceResponse] = []
    allowed: list[AlterConfigsResource] = []
    for resource in request.resources:
        refusal = alter_refusal(ctx, services, resource.resource_type, resource.resource_name)
        if refusal is None:
            allowed.append(resource)
        else:
            refused.append(_row(resource, refusal))
    request.resources = allowed
    try:
        response = await services.submit(ctx, incremental_alter_configs, request, name="incrementalAlterConfigs")
    except KafkaError as error:
        response = IncrementalAlterConfigsResponse(responses=[_row(resource, error) for resource in allowed])
    response.responses += refused
    return response


def _row(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
