"""All of Confluent's paths that there are. Paths with a «-» come before those with a name there."""

from typing import Final

from kvorum.admin.http.operations import Operation
from kvorum.admin.v3 import (
    acls,
    broker_configs,
    cluster_configs,
    clusters,
    consumer_groups,
    group_lags,
    group_members,
    partitions,
    reassignments,
    records,
    topic_configs,
    topics,
)

OPERATIONS: Final[list[Operation]] = [
    *topic_configs.OPERATIONS,
    *broker_configs.OPERATIONS,
    *cluster_configs.OPERATIONS,
    *reassignments.OPERATIONS,
    *partitions.OPERATIONS,
    *clusters.OPERATIONS,
    *topics.OPERATIONS,
    *records.OPERATIONS,
    *consumer_groups.OPERATIONS,
    *group_members.OPERATIONS,
    *group_lags.OPERATIONS,
    *acls.OPERATIONS,
]
