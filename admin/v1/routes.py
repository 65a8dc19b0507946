"""The table of the operations of /v1. The paths are in the module of each subject."""

from collections.abc import Sequence

from kvorum.admin.http.operations import Operation
from kvorum.admin.v1.cluster import (
    api_versions_routes,
    broker_admin_state_routes,
    cluster_routes,
    config_diff_routes,
    feature_routes,
    logger_routes,
    node_routes,
    quota_routes,
    resource_config_routes,
    token_routes,
    user_routes,
    voter_routes,
)
from kvorum.admin.v1.cluster.broker_routes import BrokerRoutes
from kvorum.admin.v1.cluster.debug_bundle_routes import DebugBundleRoutes
from kvorum.admin.v1.groups import group_offset_routes, group_reset_routes, groups_routes
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.admin.v1.jobs.job_routes import JobRoutes
from kvorum.admin.v1.metadata import event_routes, live_routes, quorum_stream
from kvorum.admin.v1.metadata.metadata_routes import MetadataRoutes
from kvorum.admin.v1.partitions import (
    batch_routes,
    epoch_routes,
    leader_routes,
    log_dir_routes,
    partition_routes,
    verify_routes,
)
from kvorum.admin.v1.partitions.history_routes import HistoryRoutes
from kvorum.admin.v1.partitions.segment_routes import LocalLogs, SegmentRoutes
from kvorum.admin.v1.reassignments import reassignment_routes, throttle_routes
from kvorum.admin.v1.records import message_routes, newest_routes
from kvorum.admin.v1.topics import (
    analysis_routes,
    topic_clone,
    topic_document_routes,
    topic_group_routes,
    topic_list,
    topic_routes,
)
from kvorum.admin.v1.transactions import transaction_routes
from kvorum.client.metadata_log.metadata_reader import MetadataReader


def operations(local: LocalLogs | None = None, connect: ConnectClient | None = None) -> Sequence[Operation]:
    """Return all operations of /v1.

    `local`: the logs of the broker on the same node; `connect`: client of Kafka Connect.
    """
    metadata = MetadataReader()
    return [
        *cluster_routes.OPERATIONS,
        *BrokerRoutes(metadata).operations(),
        *node_routes.OPERATIONS,
        *api_versions_routes.OPERATIONS,
        *broker_admin_state_routes.OPERATIONS,
        *topic_list.OPERATIONS,
        *topic_routes.OPERATIONS,
        *topic_document_routes.OPERATIONS,
        *topic_clone.OPERATIONS,
        *topic_group_routes.OPERATIONS,
        *analysis_routes.OPERATIONS,
        *partition_routes.OPERATIONS,
        *message_routes.OPERATIONS,
        *newest_routes.OPERATIONS,
        *groups_routes.OPERATIONS,
        *group_offset_routes.OPERATIONS,
        *group_reset_routes.OPERATIONS,
        *resource_config_routes.OPERATIONS,
        *transaction_routes.OPERATIONS,
        *event_routes.OPERATIONS,
        *quota_routes.OPERATIONS,
        *user_routes.OPERATIONS,
        *token_routes.OPERATIONS,
        *feature_routes.OPERATIONS,
        *logger_routes.OPERATIONS,
        *config_diff_routes.OPERATIONS,
        *reassignment_routes.OPERATIONS,
        *log_dir_routes.OPERATIONS,
        *throttle_routes.OPERATIONS,
        *epoch_routes.OPERATIONS,
        *verify_routes.OPERATIONS,
        *leader_routes.OPERATIONS,
        *live_routes.OPERATIONS,
        *batch_routes.OPERATIONS,
        *quorum_stream.OPERATIONS,
        *voter_routes.OPERATIONS,
        *MetadataRoutes(metadata).operations(),
        *HistoryRoutes(metadata).operations(),
        *DebugBundleRoutes(metadata).operations(),
        *SegmentRoutes(local).operations(),
        *JobRoutes(connect or ConnectClient()).operations(),
    ]
