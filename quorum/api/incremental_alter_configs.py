"""IncrementalAlterConfigs (44): v0-v1 (KIP-339). The rules: controller/configs_control.py.

Not here: configs of BROKER_LOGGER, CLIENT_METRICS and GROUP, which are refused with INVALID_REQUEST.
Order: authorise each resource (ALTER_CONFIGS on the topic, or on the cluster), decide, answer when committed.
"""

from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kvorum.quorum.api.config_rights import by_rights
from kvorum.quorum.controller.configs_control import answer_row, incremental_alter_configs
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest, services: ControllerServices
) -> IncrementalAlterConfigsResponse:
    """Change single configs."""
    request.resources, refused = by_rights(ctx, services, request.resources)
    try:
        rows = (
            await services.submit(ctx, incremental_alter_configs, request, name="incrementalAlterConfigs")
        ).responses
    except KafkaError as error:
        rows = [answer_row(AlterConfigsResourceResponse, item, error) for item in request.resources]
    rows += [answer_row(AlterConfigsResourceResponse, *each) for each in refused]
    return IncrementalAlterConfigsResponse(responses=rows)
