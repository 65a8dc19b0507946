"""All of Confluent's paths that there are. Paths with a «-» come before those with a name there."""

from typing import Final

from kvorum.admin.http.operations import Operation
from kvorum.admin.v3 import acls, broker_configs, clusters, consumer_groups, partitions, records, topic_configs, topics

OPERATIONS: Final[list[Operation]] = [
    *topic_configs.OPERATIONS,
    *broker_configs.OPERATIONS,
    *partitions.OPERATIONS,
    *clusters.OPERATIONS,
    *topics.OPERATIONS,
    *records.OPERATIONS,
    *consumer_groups.OPERATIONS,
    *acls.OPERATIONS,
]
