"""An application of the public API, as mypy --strict reads it (test_types.py): every namespace, in both forms."""

import asyncio

from kvorum.client import (
    AdminState,
    Cluster,
    Config,
    CreatedTopic,
    ErrorCode,
    KafkaError,
    KafkaException,
    Listener,
    LogDir,
    NewTopic,
    OffsetSpec,
    PartitionOffset,
    ResourceType,
    SyncCluster,
    Topic,
    TopicPartition,
    TopicPartitionReplica,
    Unreachable,
    UpgradeType,
    Uuid,
)


async def topics(cluster: Cluster) -> list[str]:
    created: CreatedTopic = await cluster.topics.create("a", partitions=3, configs={"retention.ms": "1"})
    many: dict[str, CreatedTopic | KafkaError] = await cluster.topics.create_many([NewTopic(name="b")])
    for name, result in many.items():
        if isinstance(result, KafkaError):
            code: ErrorCode = result.code
            print(name, code.name, result.message)
        else:
            print(result.partition_count, created.topic_id)
    topic: Topic = await cluster.topics.describe("a")
    leaders: list[int | None] = [partition.leader for partition in topic.partitions]
    print(leaders, topic.configs, topic.replication_factor)
    await cluster.topics.delete("a")
    errors: dict[str, KafkaError | None] = await cluster.topics.delete_many(["b"])
    print(errors)
    return [each.name for each in await cluster.topics.list("a*", internal=True)]


async def partitions(cluster: Cluster) -> None:
    first = TopicPartition("a", 0)
    offsets: dict[TopicPartition, PartitionOffset] = await cluster.partitions.list_offsets([first], OffsetSpec.EARLIEST)
    offset: int | None = offsets[first].offset
    deleted: dict[TopicPartition, int | KafkaError] = await cluster.partitions.delete_records({first: offset})
    elected: dict[TopicPartition, KafkaError | None] = await cluster.partitions.elect_leaders([first], unclean=True)
    await cluster.partitions.add("a", 6, validate_only=True)
    print(deleted, elected)


async def operate(cluster: Cluster) -> None:
    configs: list[Config] = [*await cluster.configs.describe(ResourceType.BROKER, 1)]
    await cluster.configs.alter(ResourceType.TOPIC, "a", set={"k": "v"}, delete=["d"], append={"l": "x"})
    names: list[str] = [*await cluster.configs.list(ResourceType.GROUP)]
    for broker in await cluster.brokers.list():
        if (await cluster.brokers.state(broker.id)).state is AdminState.DRAINING:
            await cluster.brokers.end_maintenance(broker.id)
    await cluster.brokers.decommission(3, throttle_bytes_per_second=1_000)
    quorum = await cluster.quorum.describe()
    voter: int = quorum.voters[0].node_id
    directory: Uuid = quorum.voters[0].directory_id
    await cluster.quorum.add_voter(voter, directory, [Listener(name="CONTROLLER", host="h", port=1)])
    await cluster.features.update({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    tree = await cluster.metadata.tree("/image", at=await cluster.metadata.log_end_offset())
    folder: list[str] = list(tree) if isinstance(tree, dict) else []
    directories: list[LogDir] = [*await cluster.log_dirs.list([1])]
    moved: dict[TopicPartitionReplica, KafkaError | None] = await cluster.log_dirs.move(
        {TopicPartitionReplica("a", 0, 1): "/b"}
    )
    print(configs, names, folder, directories, moved, (await cluster.metadata.cluster()).cluster_id)


async def main() -> None:
    try:
        async with Cluster.connect(["localhost:9092"], request_timeout_ms=1_000) as cluster:
            await topics(cluster)
            await partitions(cluster)
            await operate(cluster)
    except Unreachable as error:
        print(error.code)
    except KafkaException as error:
        print(error.code.name)


def synchronous() -> None:
    with SyncCluster.connect("localhost:9092", client_id="app") as cluster:
        topic: Topic = cluster.topics.describe("a")
        offsets: dict[TopicPartition, PartitionOffset] = cluster.partitions.list_offsets([TopicPartition("a", 0)])
        configs: list[Config] = [*cluster.configs.describe(ResourceType.TOPIC, topic.name)]
        print(offsets, configs, cluster.brokers.states(), cluster.quorum.describe(), cluster.features.list())
        print(cluster.metadata.cluster(), cluster.log_dirs.moves())


if __name__ == "__main__":
    asyncio.run(main())
