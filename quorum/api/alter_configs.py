"""AlterConfigs (33): v0-v2, replaces all configs of a resource. The rules: controller/configs_control.py.

Order: authorise each resource (ALTER_CONFIGS on the topic, or on the cluster), decide, answer when committed.
"""

from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kvorum.quorum.api.config_rights import by_rights
from kvorum.quorum.controller.configs_control import alter_configs, answer_row
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: AlterConfigsRequest, services: ControllerServices
) -> AlterConfigsResponse:
    """Replace the configs of resources."""
    request.resources, refused = by_rights(ctx, services, request.resources)
    try:
        rows = (await services.submit(ctx, alter_configs, request, name="alterConfigs")).responses
    except KafkaError as error:
        rows = [answer_row(AlterConfigsResourceResponse, item, error) for item in request.resources]
    rows += [answer_row(AlterConfigsResourceResponse, *each) for each in refused]
    return AlterConfigsResponse(responses=rows)
