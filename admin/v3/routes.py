"""All of Confluent's paths that there are. What has a «-» in its path comes before what has a name there."""

from typing import Final

from kvorum.admin.operations import Operation
from kvorum.admin.v3 import acls, clusters, configs, consumer_groups, partitions, records, topics

OPERATIONS: Final[list[Operation]] = [
    *configs.OPERATIONS,
    *partitions.OPERATIONS,
    *clusters.OPERATIONS,
    *topics.OPERATIONS,
    *records.OPERATIONS,
    *consumer_groups.OPERATIONS,
    *acls.OPERATIONS,
]
