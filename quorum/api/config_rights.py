"""Authorization of config changes by resource (ControllerApis.handleIncrementalAlterConfigs)."""

from collections.abc import Sequence

from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.controller.configs_control import Item
from kvorum.quorum.image.configs import ResourceType as ConfigResourceType
from kvorum.quorum.services import ControllerServices


def by_rights(
    ctx: RequestContext, services: ControllerServices, items: Sequence[Item]
) -> tuple[list[Item], list[tuple[Item, KafkaError]]]:
    """Return the resources that the principal may change, and the others with the reason."""
    allowed: list[Item] = []
    refused: list[tuple[Item, KafkaError]] = []
    for item in items:
        refusal = _refusal(ctx, services, item.resource_type, item.resource_name)
        if refusal is None:
            allowed.append(item)
        else:
            refused.append((item, refusal))
    return allowed, refused


def _refusal(
    ctx: RequestContext, services: ControllerServices, resource_type: int, resource_name: str
) -> KafkaError | None:
    if resource_type == ConfigResourceType.TOPIC:
        if services.may(ctx, Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource_name):
            return None
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    # All other resources belong to the cluster; the decision rejects a type without configs.
    if services.may(ctx, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Authorization failed.")
