"""Who may change which resource's configs (ControllerApis.handleIncrementalAlterConfigs)."""

from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image.configs import ResourceType as ConfigResourceType
from kvorum.quorum.services import ControllerServices


def alter_refusal(
    ctx: RequestContext, services: ControllerServices, resource_type: int, resource_name: str
) -> KafkaError | None:
    """Return why the principal may not change this resource's configs, None if it may."""
    if resource_type == ConfigResourceType.TOPIC:
        if services.may(ctx, Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource_name):
            return None
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    # Whatever is no topic's belongs to the cluster; a type that has no configs is refused by the decision.
    if services.may(ctx, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Authorization failed.")
