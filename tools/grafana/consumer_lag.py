"""The dashboard of consumer groups: lag, states, offsets, transactions."""

from typing import Final

from grafana.expressions import CLUSTER, GROUP, GROUP_ON_TOPIC, by, highest, rate, series, total
from grafana.panels import CLUSTER_VARIABLE, GROUP_VARIABLE, TOPIC_VARIABLE, Dashboard, curves, stat

OF_EACH: Final = "consumergroup, topic"
LAG: Final = by(OF_EACH, series("kafka_consumergroup_lag_sum", GROUP_ON_TOPIC))
CONSUMED: Final = by(OF_EACH, rate("kafka_consumergroup_current_offset_sum", GROUP_ON_TOPIC))

CONSUMER_LAG: Final = Dashboard(
    uid="kvorum-consumer-lag",
    title="Kvorum: consumer groups and lag",
    description="Lag of consumer groups, exposed by their coordinators. No exporter is needed.",
    variables=(CLUSTER_VARIABLE, GROUP_VARIABLE, TOPIC_VARIABLE),
    panels=(
        stat("Groups", total(series("kafka_server_group_coordinator_metrics_group_count", CLUSTER))),
        stat("Members", total(series("kafka_consumergroup_members", GROUP))),
        stat("Total lag", total(series("kafka_consumergroup_lag", GROUP_ON_TOPIC))),
        stat("Largest lag", highest(series("kafka_consumergroup_lag_sum", GROUP_ON_TOPIC)), "Per group and topic."),
        curves("Lag", LAG, description="Records between the committed offset and the high watermark."),
        curves(
            "Estimated time to catch up",
            (f"{LAG[0]} / clamp_min({CONSUMED[0]}, 0.01)", LAG[1]),
            unit="s",
            description="Lag divided by the present consume rate, without new records.",
        ),
        curves("Records consumed", CONSUMED, unit="cps", description="Rate of committed offsets."),
        curves(
            "Members",
            by("consumergroup", series("kafka_consumergroup_members", GROUP)),
        ),
        curves(
            "Lag per partition",
            (
                f"topk(30, {series('kafka_consumergroup_lag', GROUP_ON_TOPIC)})",
                "{{consumergroup}} {{topic}}-{{partition}}",
            ),
            description="The 30 partitions with the largest lag.",
        ),
        curves(
            "Rebalances",
            (total(rate("kafka_server_group_coordinator_metrics_group_completed_rebalance_total", CLUSTER)), "classic"),
            (
                total(rate("kafka_server_group_coordinator_metrics_consumer_group_rebalance_total", CLUSTER)),
                "consumer (KIP-848)",
            ),
            unit="cps",
        ),
        curves(
            "Classic groups per state",
            (total(series("kafka_coordinator_group_groupmetadatamanager_numgroupsstable", CLUSTER)), "stable"),
            (
                total(series("kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance", CLUSTER)),
                "preparing rebalance",
            ),
            (
                total(series("kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", CLUSTER)),
                "completing rebalance",
            ),
            (total(series("kafka_coordinator_group_groupmetadatamanager_numgroupsempty", CLUSTER)), "empty"),
            (total(series("kafka_coordinator_group_groupmetadatamanager_numgroupsdead", CLUSTER)), "dead"),
        ),
        curves(
            "Consumer groups per state",
            by("state", series("kafka_server_group_coordinator_metrics_consumer_group_count", CLUSTER)),
        ),
        curves(
            "Offsets",
            (total(rate("kafka_server_group_coordinator_metrics_offset_commit_total", CLUSTER)), "committed"),
            (total(rate("kafka_server_group_coordinator_metrics_offset_expiration_total", CLUSTER)), "expired"),
            (total(rate("kafka_server_group_coordinator_metrics_offset_deletion_total", CLUSTER)), "deleted"),
            unit="cps",
        ),
        curves(
            "Transactions",
            (
                total(series("kafka_server_replicamanager_partitionswithlatetransactionscount", CLUSTER)),
                "partitions with a hanging transaction",
            ),
            (
                total(
                    series(
                        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
                        CLUSTER,
                    )
                ),
                "markers whose partition has no leader",
            ),
            (
                total(
                    series(
                        "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize", CLUSTER
                    )
                ),
                "markers waiting for a retry",
            ),
        ),
    ),
)
