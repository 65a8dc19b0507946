"""The partitions of an election that names whole topics."""

from collections.abc import Mapping, Sequence

from kvorum.admin.http.operations import NotInBody
from kvorum.client.groups.offsets import places_named
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.topic_partition import by_topic


async def partitions_of(
    cluster: ClusterClient, named: Mapping[str, Sequence[int] | None] | None
) -> dict[str, list[int]] | None:
    """Return {topic: partitions}, all of a topic for None; None without any topics.

    Raises NotInBody UNKNOWN_TOPIC_OR_PARTITION for a missing topic.
    """
    if named is None:
        return None
    try:
        return by_topic(await places_named(cluster, named.items()))
    except KafkaError as error:
        raise NotInBody("partitions", error.code, error.message or error.code.name) from error
