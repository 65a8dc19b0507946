"""Changes of configs, and the resources that have own configs."""

from collections.abc import Iterable, Mapping

from kvorum.client.wire.cluster_client import ClusterClient, ConfigChange, ConfigOperation, ResourceType, refuse
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse


def config_changes(
    *,
    set: Mapping[str, str] | None = None,
    delete: Iterable[str] = (),
    append: Mapping[str, str] | None = None,
    subtract: Mapping[str, str] | None = None,
) -> list[ConfigChange]:
    """Return the changes. Raises KafkaError(INVALID_REQUEST) without any."""
    found = [ConfigChange(name=name, value=value) for name, value in (set or {}).items()]
    found += [ConfigChange(name=name, operation=ConfigOperation.DELETE) for name in delete]
    for operation, values in ((ConfigOperation.APPEND, append), (ConfigOperation.SUBTRACT, subtract)):
        found += [ConfigChange(name=name, value=value, operation=operation) for name, value in (values or {}).items()]
    if not found:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "nothing to change: give set, delete, append or subtract")
    return found


async def config_resources(cluster: ClusterClient, kind: ResourceType) -> list[str]:
    """Return the names of the resources of a kind with own configs (KIP-1142). Raises KafkaError, Unreachable."""
    answer = await cluster.ask(ListConfigResourcesRequest(resource_types=[kind]), ListConfigResourcesResponse)
    refuse(answer.error_code, f"list the {kind.name} resources")
    return sorted({each.resource_name for each in answer.config_resources})
