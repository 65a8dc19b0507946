"""The dashboard of topics: traffic, size and unhealthy partitions."""

from typing import Final

from grafana.expressions import EACH_TOPIC, TOPIC, by, rate, series, total
from grafana.panels import CLUSTER_VARIABLE, TOPIC_VARIABLE, Dashboard, curves, stat, table

OLDEST_OFFSET: Final = "kafka_topic_partition_oldest_offset"
CURRENT_OFFSET: Final = "kafka_topic_partition_current_offset"
"""The high watermark."""
UNDER_REPLICATED: Final = "kafka_topic_partition_under_replicated_partition"

TOPICS: Final = Dashboard(
    uid="kvorum-topics",
    title="Kvorum: topics and partitions",
    description="Traffic and size of each topic, and unhealthy partitions.",
    variables=(CLUSTER_VARIABLE, TOPIC_VARIABLE),
    panels=(
        stat("Topics", f"count({series('kafka_topic_partitions', TOPIC)})"),
        stat("Partitions", total(series("kafka_topic_partitions", TOPIC))),
        stat("Replicas", total(series("kafka_topic_partition_replicas", TOPIC))),
        stat("In sync", total(series("kafka_topic_partition_in_sync_replica", TOPIC))),
        stat("Under-replicated", total(series(UNDER_REPLICATED, TOPIC)), red_from=1),
        stat("Under min ISR", total(series("kafka_cluster_partition_underminisr", TOPIC)), red_from=1),
        curves(
            "Bytes in",
            by("topic", rate("kafka_server_brokertopicmetrics_bytesin_total", TOPIC + EACH_TOPIC)),
            unit="Bps",
        ),
        curves(
            "Bytes out",
            by("topic", rate("kafka_server_brokertopicmetrics_bytesout_total", TOPIC + EACH_TOPIC)),
            unit="Bps",
        ),
        curves(
            "Records in, by high watermarks",
            by("topic", rate(CURRENT_OFFSET, TOPIC)),
            unit="cps",
            description="Rate of the high watermarks, transaction markers included.",
        ),
        curves(
            "Requests per topic",
            by(
                "topic",
                rate("kafka_server_brokertopicmetrics_totalproducerequests_total", TOPIC + EACH_TOPIC),
                "produce ",
            ),
            by("topic", rate("kafka_server_brokertopicmetrics_totalfetchrequests_total", TOPIC + EACH_TOPIC), "fetch "),
            unit="reqps",
        ),
        curves("Size of all replicas", by("topic", series("kafka_log_log_size", TOPIC)), unit="bytes"),
        curves(
            "Records, by offsets",
            by("topic", f"{series(CURRENT_OFFSET, TOPIC)} - {series(OLDEST_OFFSET, TOPIC)}"),
            description="Difference of the offsets. Compacted topics have fewer records.",
        ),
        curves("Segments", by("topic", series("kafka_log_log_numlogsegments", TOPIC))),
        curves(
            "Unhealthy partitions",
            (total(series(UNDER_REPLICATED, TOPIC)), "under-replicated"),
            (total(series("kafka_cluster_partition_underminisr", TOPIC)), "under min ISR"),
            (total(series("kafka_cluster_partition_atminisr", TOPIC)), "at min ISR"),
            (
                f"sum({series('kafka_topic_partition_leader_is_preferred', TOPIC)} < bool 1)",
                "not led by the preferred replica",
            ),
        ),
        table("Under-replicated partitions", f"{series(UNDER_REPLICATED, TOPIC)} == 1"),
        table(
            "Largest partitions",
            f"topk(20, max by (topic, partition) ({series('kafka_log_log_size', TOPIC)}))",
            unit="bytes",
        ),
    ),
)
