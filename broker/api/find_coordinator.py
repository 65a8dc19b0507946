"""FindCoordinator (10): v0-v6.

v1: transactional ids as keys. v4: several keys at once (KIP-699). v6: share groups (KIP-932).
Not here: coordinators themselves. Every key is answered COORDINATOR_NOT_AVAILABLE, which a client takes for a cluster
that has just started: it asks again.
Order: check the type, authorise each key, answer.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kvorum.protocol.uuids import ZERO_UUID, Uuid

NO_NODE = -1


def handle(ctx: RequestContext, request: FindCoordinatorRequest, broker: Broker) -> FindCoordinatorResponse:
    """Answer for one key (before v4) or several."""
    throttle_time = broker.throttle(ctx)
    if ctx.api_version < 4:
        code, message = find(ctx, request.key_type, request.key, broker)
        return FindCoordinatorResponse(
            throttle_time=throttle_time, error_code=code, error_message=message, node_id=NO_NODE, host="", port=NO_NODE
        )
    coordinators: list[Coordinator] = []
    for key in request.coordinator_keys:
        code, message = find(ctx, request.key_type, key, broker)
        coordinators.append(
            Coordinator(key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=code, error_message=message)
        )
    return FindCoordinatorResponse(throttle_time=throttle_time, coordinators=coordinators)


def find(ctx: RequestContext, key_type: int, key: str, broker: Broker) -> tuple[ErrorCode, str]:
    """Return the code for one key, and a word for people."""
    authorize = broker.authorizer.authorize
    match key_type:
        case 0:  # GROUP
            if not authorize(ctx, Operation.DESCRIBE, ResourceType.GROUP, key):
                return ErrorCode.GROUP_AUTHORIZATION_FAILED, "Not authorized to describe the group"
        case 1:  # TRANSACTION
            if not authorize(ctx, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Not authorized to describe the id"
        case 2 if ctx.api_version >= 6:  # SHARE
            if not authorize(ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Not authorized to find share coordinators"
            if not is_share_key(key):
                return ErrorCode.INVALID_REQUEST, "A key of a share coordinator is GROUP:TOPIC_ID:PARTITION"
        case _:
            return ErrorCode.INVALID_REQUEST, f"The coordinator type {key_type} is not known"
    return ErrorCode.COORDINATOR_NOT_AVAILABLE, "This cluster has no coordinators yet"


def is_share_key(key: str) -> bool:
    """Tell whether a key names a partition of a share group (Kafka's SharePartitionKey)."""
    group, _, rest = key.rpartition(":")
    group, _, topic_id = group.rpartition(":")
    try:
        return bool(group) and rest.isdecimal() and len(Uuid.parse(topic_id)) == len(ZERO_UUID)
    except ValueError:
        return False


HANDLER = BrokerApi(ApiKey.FIND_COORDINATOR, handle)
