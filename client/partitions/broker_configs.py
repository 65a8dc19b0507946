"""Change of a broker's dynamic configs, also while the broker is down.

A running broker receives its own configs and validates them against its static ones. The active controller accepts
those of any broker, as from Kafka's tools with --bootstrap-controller (KIP-919); it must be reachable from here.
"""

from collections.abc import Collection, Sequence

from kvorum.client.metadata_log.metadata_fetch import active_controller
from kvorum.client.metadata_log.metadata_image import MetadataProblem
from kvorum.client.wire.cluster_client import ClusterClient, ConfigChange, ResourceType, Unreachable, refuse
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def alter_broker(
    cluster: ClusterClient, broker_id: int, changes: Sequence[ConfigChange], alive: Collection[int]
) -> None:
    """Change configs of a broker: at the broker if it is alive and responds, else at the active controller.

    Raises KafkaError; Unreachable: no node accepted the change.
    """
    if broker_id in alive:
        try:
            await cluster.alter_configs(ResourceType.BROKER, str(broker_id), changes)
        except Unreachable:
            pass  # it is dead or unresponsive: the controller gets the same request, which is harmless
        else:
            return
    try:
        controller = await active_controller(cluster)
    except MetadataProblem as error:
        raise Unreachable(f"broker {broker_id} is down, and the address of the active controller is unknown") from error
    configs = [AlterableConfig(name=c.name, config_operation=c.operation, value=c.value) for c in changes]
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(broker_id), configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = (await cluster.ask(request, IncrementalAlterConfigsResponse, controller)).responses[0]
    refuse(answer.error_code, answer.error_message)
