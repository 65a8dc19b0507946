"""The cluster and its brokers."""

from kvorum.admin.http.operations import Call, NoBody, Operation, number_of
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v3.links import BROKER, CLUSTER, Links, cluster_of, not_found
from kvorum.admin.v3.models import (
    BrokerData,
    BrokerDataList,
    ClusterData,
    ClusterDataList,
    CollectionMetadata,
    ReplicaDataList,
)
from kvorum.admin.v3.partitions import replica_data
from kvorum.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse

NOBODY = -1


def cluster_data(links: Links, found: DescribeClusterResponse) -> ClusterData:
    """Return the cluster."""
    known = {broker.broker_id for broker in found.brokers}
    return ClusterData(
        metadata=links.metadata(()),
        cluster_id=links.cluster_id,
        # A controller that is no broker has no page here.
        controller=links.related("brokers", found.controller_id) if found.controller_id in known else None,
        acls=links.related("acls"),
        brokers=links.related("brokers"),
        broker_configs=links.related("broker-configs"),
        consumer_groups=links.related("consumer-groups"),
        topics=links.related("topics"),
        partition_reassignments=links.related("topics", "-", "partitions", "-", "reassignment"),
    )


async def list_kafka_clusters(call: Call[NoBody]) -> ClusterDataList:
    """List the cluster of this server."""
    found = await call.cluster.describe_cluster(fenced=False)
    data = cluster_data(Links(call.base_url, found.cluster_id), found)
    return ClusterDataList(metadata=CollectionMetadata(self=f"{call.base_url}/v3/clusters"), data=[data])


async def get_kafka_cluster(call: Call[NoBody]) -> ClusterData:
    """Return the cluster."""
    found = await cluster_of(call)
    return cluster_data(Links(call.base_url, found.cluster_id), found)


def broker_data(links: Links, broker: DescribeClusterBroker) -> BrokerData:
    """Return one broker."""
    me = ("brokers", broker.broker_id)
    return BrokerData(
        metadata=links.metadata(me, ("broker", broker.broker_id)),
        cluster_id=links.cluster_id,
        broker_id=broker.broker_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        configs=links.related(*me, "configs"),
        partition_replicas=links.related(*me, "partition-replicas"),
    )


async def list_kafka_brokers(call: Call[NoBody]) -> BrokerDataList:
    """List the brokers that are not fenced."""
    found = await cluster_of(call)
    links = Links(call.base_url, found.cluster_id)
    rows = sorted(found.brokers, key=lambda broker: broker.broker_id)
    return BrokerDataList(metadata=links.collection("brokers"), data=[broker_data(links, row) for row in rows])


async def get_kafka_broker(call: Call[NoBody]) -> BrokerData:
    """Return one broker."""
    found = await cluster_of(call)
    return broker_data(Links(call.base_url, found.cluster_id), broker_of(call, found))


def broker_of(call: Call[NoBody], found: DescribeClusterResponse) -> DescribeClusterBroker:
    """Return the broker that the path names. Raises BadInput, Refused."""
    wanted = number_of("broker_id", call.path["broker_id"], 0, INT32_MAX)
    for broker in found.brokers:
        if broker.broker_id == wanted:
            return broker
    raise not_found(f"Broker {wanted} cannot be found.")


async def list_kafka_broker_replicas(call: Call[NoBody]) -> ReplicaDataList:
    """List the replicas on a broker, of all topics."""
    found = await cluster_of(call)
    links, broker = Links(call.base_url, found.cluster_id), broker_of(call, found).broker_id
    topics = sorted((await call.cluster.metadata()).topics, key=lambda topic: topic.name or "")
    rows = [
        replica_data(links, topic.name or "", row, broker)
        for topic in topics
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
        if broker in row.replica_nodes
    ]
    return ReplicaDataList(metadata=links.collection("brokers", broker, "partition-replicas"), data=rows)


OPERATIONS = [
    Operation.get("/v3/clusters", "List clusters", list_kafka_clusters, ClusterDataList),
    Operation.get(CLUSTER, "Get a cluster", get_kafka_cluster, ClusterData),
    Operation.get(f"{CLUSTER}/brokers", "List brokers", list_kafka_brokers, BrokerDataList),
    Operation.get(BROKER, "Get a broker", get_kafka_broker, BrokerData),
    Operation.get(
        f"{BROKER}/partition-replicas", "List a broker's replicas", list_kafka_broker_replicas, ReplicaDataList
    ),
]
