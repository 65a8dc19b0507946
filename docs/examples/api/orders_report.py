"""Create a topic on any Kafka cluster and print a report of all topics: python orders_report.py HOST:PORT."""

import asyncio
import sys

from kvorum.client import Cluster, ErrorCode, KafkaError, KafkaException, OffsetSpec, TopicPartition


async def create_if_missing(cluster: Cluster, topic: str) -> None:
    """Create a topic with the cluster's default number of replicas."""
    try:
        created = await cluster.topics.create(topic, partitions=6, configs={"retention.ms": "86400000"})
        print(f"created {created.name} with {created.partition_count} partitions")
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def report(bootstrap: str) -> None:
    """Print a line per topic: partitions, replicas, records, and problems."""
    async with Cluster.connect(bootstrap, client_id="orders-report", request_timeout_ms=10_000) as cluster:
        await create_if_missing(cluster, "orders")
        for topic in await cluster.topics.list():
            partitions = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
            first = await cluster.partitions.list_offsets(partitions, OffsetSpec.EARLIEST)
            last = await cluster.partitions.list_offsets(partitions)
            records = sum((last[each].offset or 0) - (first[each].offset or 0) for each in partitions)
            problems = f", {topic.under_replicated_count} under-replicated" if topic.under_replicated_count else ""
            size = f"{len(partitions)} partitions x {topic.replication_factor} replicas"
            print(f"{topic.name}: {size}, {records} records{problems}")


if __name__ == "__main__":
    try:
        asyncio.run(report(sys.argv[1]))
    except KafkaException as error:
        sys.exit(f"{error.code.name}: {error}")
