"""Reassignments of partitions."""

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.v3.links import CLUSTER, PARTITION, TOPIC, Links, links_of, not_found
from kvorum.admin.v3.path_parameters import PARTITION_ID, TOPIC_NAME, get_operation
from kvorum.admin.v3.topic_models import ReassignmentData, ReassignmentDataList
from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.values.reassignment import Reassignment


def reassignment_data(links: Links, row: Reassignment) -> ReassignmentData:
    """Return the fields of a reassignment of a partition."""
    me = ("topics", row.topic, "partitions", row.partition)
    names = ("topic", row.topic), ("partition", row.partition), ("reassignment", None)
    return ReassignmentData(
        metadata=links.metadata((*me, "reassignment"), *names),
        cluster_id=links.cluster_id,
        topic_name=row.topic,
        partition_id=row.partition,
        adding_replicas=[*row.adding],
        removing_replicas=[*row.removing],
        replicas=links.relationship(*me, "replicas"),
    )


async def reassignments(call: Call[NoBody], links: Links, topic: str | None) -> list[ReassignmentData]:
    """Return current reassignments, of one topic or of all."""
    found = (await Reassignments(call.cluster).list()).values()
    return [reassignment_data(links, row) for row in found if topic in (None, row.topic)]


async def list_kafka_reassignments(call: Call[NoBody]) -> ReassignmentDataList:
    """List current reassignments."""
    links = await links_of(call)
    parts = ("topics", "-", "partitions", "-", "reassignment")
    return ReassignmentDataList(metadata=links.collection(*parts), data=await reassignments(call, links, None))


async def list_kafka_topic_reassignments(call: Call[NoBody]) -> ReassignmentDataList:
    """List current reassignments of a topic."""
    links, topic = await links_of(call), TOPIC_NAME.of(call)
    parts = ("topics", topic, "partitions", "-", "reassignment")
    return ReassignmentDataList(metadata=links.collection(*parts), data=await reassignments(call, links, topic))


async def get_kafka_reassignment(call: Call[NoBody]) -> ReassignmentData:
    """Return a partition's reassignment; 404 if there is none."""
    links, topic = await links_of(call), TOPIC_NAME.of(call)
    partition = PARTITION_ID.of(call)
    for row in await reassignments(call, links, topic):
        if row.partition_id == partition:
            return row
    raise not_found()


OPERATIONS = [
    get_operation(
        f"{CLUSTER}/topics/-/partitions/-/reassignment",
        "List reassignments",
        list_kafka_reassignments,
        ReassignmentDataList,
    ),
    get_operation(
        f"{TOPIC}/partitions/-/reassignment",
        "List a topic's reassignments",
        list_kafka_topic_reassignments,
        ReassignmentDataList,
    ),
    get_operation(
        f"{PARTITION}/reassignment", "Get a partition's reassignment", get_kafka_reassignment, ReassignmentData
    ),
]
