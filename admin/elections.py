"""Which partitions an election is of, where whole topics are named."""

from collections.abc import Mapping, Sequence

from kvorum.admin.client import ClusterClient
from kvorum.admin.group_offsets import places_named
from kvorum.admin.places import by_topic


async def partitions_of(
    cluster: ClusterClient, named: Mapping[str, Sequence[int] | None] | None
) -> dict[str, list[int]] | None:
    """Return {topic: partitions}, all of a topic where None stands for them; None where nothing was named.

    Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION for such a topic that is not there.
    """
    return None if named is None else by_topic(await places_named(cluster, named.items()))
