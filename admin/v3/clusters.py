"""The cluster and its brokers."""

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.v3.links import BROKER, CLUSTER, Links, cluster_of, not_found
from kvorum.admin.v3.models import BrokerData, BrokerDataList, ClusterData, ClusterDataList, CollectionMetadata
from kvorum.admin.v3.partitions import replica_data
from kvorum.admin.v3.path_parameters import BROKER_ID, get_operation
from kvorum.admin.v3.topic_models import ReplicaDataList
from kvorum.client.namespaces.metadata import Metadata
from kvorum.client.namespaces.topics import Topics
from kvorum.client.values.broker import Broker
from kvorum.client.values.cluster import ClusterDescription


def cluster_data(base_url: str, found: ClusterDescription) -> ClusterData:
    """Return the cluster."""
    links, controller = Links(base_url, found.cluster_id), found.controller_id
    known = {broker.id for broker in found.brokers}
    return ClusterData(
        metadata=links.metadata(()),
        cluster_id=links.cluster_id,
        # A controller that is no broker has no page here.
        controller=links.relationship("brokers", controller)
        if controller is not None and controller in known
        else None,
        acls=links.relationship("acls"),
        brokers=links.relationship("brokers"),
        broker_configs=links.relationship("broker-configs"),
        consumer_groups=links.relationship("consumer-groups"),
        topics=links.relationship("topics"),
        partition_reassignments=links.relationship("topics", "-", "partitions", "-", "reassignment"),
    )


async def list_kafka_clusters(call: Call[NoBody]) -> ClusterDataList:
    """List the cluster of this server."""
    data = cluster_data(call.base_url, await Metadata(call.cluster).cluster(fenced=False))
    return ClusterDataList(metadata=CollectionMetadata(self=f"{call.base_url}/v3/clusters"), data=[data])


async def get_kafka_cluster(call: Call[NoBody]) -> ClusterData:
    """Return the cluster."""
    return cluster_data(call.base_url, await cluster_of(call))


def broker_data(links: Links, broker: Broker) -> BrokerData:
    """Return one broker."""
    me = ("brokers", broker.id)
    return BrokerData(
        metadata=links.metadata(me, ("broker", broker.id)),
        cluster_id=links.cluster_id,
        broker_id=broker.id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        configs=links.relationship(*me, "configs"),
        partition_replicas=links.relationship(*me, "partition-replicas"),
    )


async def list_kafka_brokers(call: Call[NoBody]) -> BrokerDataList:
    """List the brokers that are not fenced."""
    found = await cluster_of(call)
    links = Links(call.base_url, found.cluster_id)
    return BrokerDataList(metadata=links.collection("brokers"), data=[broker_data(links, row) for row in found.brokers])


async def get_kafka_broker(call: Call[NoBody]) -> BrokerData:
    """Return one broker."""
    found = await cluster_of(call)
    return broker_data(Links(call.base_url, found.cluster_id), broker_of(call, found))


def broker_of(call: Call[NoBody], found: ClusterDescription) -> Broker:
    """Return the broker that the path names. Raises BadInput, HttpError."""
    wanted = BROKER_ID.of(call)
    for broker in found.brokers:
        if broker.id == wanted:
            return broker
    raise not_found(f"Broker {wanted} cannot be found.")


async def list_kafka_broker_replicas(call: Call[NoBody]) -> ReplicaDataList:
    """List the replicas on a broker, of all topics."""
    found = await cluster_of(call)
    links, broker = Links(call.base_url, found.cluster_id), broker_of(call, found).id
    rows = [
        replica_data(links, row, broker)
        for topic in await Topics(call.cluster).list(internal=True, reassignments=False)
        for row in topic.partitions
        if broker in row.replicas
    ]
    return ReplicaDataList(metadata=links.collection("brokers", broker, "partition-replicas"), data=rows)


OPERATIONS = [
    get_operation("/v3/clusters", "List clusters", list_kafka_clusters, ClusterDataList),
    get_operation(CLUSTER, "Get a cluster", get_kafka_cluster, ClusterData),
    get_operation(f"{CLUSTER}/brokers", "List brokers", list_kafka_brokers, BrokerDataList),
    get_operation(BROKER, "Get a broker", get_kafka_broker, BrokerData),
    get_operation(
        f"{BROKER}/partition-replicas", "List a broker's replicas", list_kafka_broker_replicas, ReplicaDataList
    ),
]
