"""AlterConfigs (33): v0-v2, replaces all configs of a resource. The rules: controller/configs_control.py.

Not here: configs of BROKER_LOGGER, CLIENT_METRICS and GROUP, which are refused with INVALID_REQUEST.
Order: authorise each resource (ALTER_CONFIGS on the topic, or on the cluster), decide, answer when committed.
"""

from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kvorum.quorum.api.config_rights import alter_refusal
from kvorum.quorum.controller.configs_control import alter_configs
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: AlterConfigsRequest, services: ControllerServices
) -> AlterConfigsResponse:
    """Replace the configs of resources."""
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
        response = await services.submit(ctx, alter_configs, request, name="alterConfigs")
    except KafkaError as error:
        response = AlterConfigsResponse(responses=[_row(resource, error) for resource in allowed])
    response.responses += refused
    return response


def _row(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
