"""The cluster as a whole."""

from dataclasses import dataclass

from kvorum.client.values.broker import Broker, broker_value
from kvorum.client.wire.cluster_client import CONTROLLERS
from kvorum.protocol.messages.describe_cluster import DescribeClusterResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """A cluster with its brokers, by id."""

    cluster_id: str
    controller_id: int | None
    """Id that the broker returned for the controller; a broker of a KRaft cluster may return any broker."""
    brokers: tuple[Broker, ...]
    is_of_controllers: bool = False
    """Whether `brokers` are the controllers, to which the client is connected."""


def cluster_value(answer: DescribeClusterResponse) -> ClusterDescription:
    """Return the cluster of a DescribeCluster response."""
    return ClusterDescription(
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id if answer.controller_id >= 0 else None,
        brokers=tuple(sorted(map(broker_value, answer.brokers), key=lambda broker: broker.id)),
        is_of_controllers=answer.endpoint_type == CONTROLLERS,
    )
