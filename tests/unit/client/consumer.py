"""An application of the public API, as mypy --strict reads it (test_types.py): every namespace, in both forms."""

import asyncio
from collections.abc import Sequence

from kvorum.client import (
    AdminState,
    Cluster,
    Config,
    CreatedTopic,
    ErrorCode,
    Group,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Listener,
    LogDir,
    NewRecord,
    NewTopic,
    OffsetAndMetadata,
    OffsetReset,
    OffsetSpec,
    PartitionOffset,
    PlanProgress,
    Reassignment,
    RecordMetadata,
    ResetTarget,
    ResourceType,
    SyncCluster,
    Topic,
    TopicPartition,
    TopicPartitionReplica,
    Transaction,
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


async def consume(cluster: Cluster) -> None:
    groups: list[str] = [each.group_id for each in await cluster.groups.list(types=["consumer"]) if each.has_consumers]
    group: Group = await cluster.groups.describe(groups[0])
    owners: list[str] = [member.member_id for member in group.members]
    offsets: dict[TopicPartition, OffsetAndMetadata] = await cluster.groups.offsets("g")
    lags: list[int | None] = [each.lag for each in await cluster.groups.lags(group)]
    resets: Sequence[OffsetReset] = await cluster.groups.reset_offsets("g", ResetTarget(to="earliest"), dry_run=True)
    deleted: dict[TopicPartition, KafkaError | None] = await cluster.groups.delete_offsets("g", offsets)
    removals = await cluster.groups.remove_members("g", instance_ids=["i"])
    print(owners, lags, resets, deleted, [each.error for each in removals])
    async for record in cluster.records.read("a", start={0: 5}, isolation=IsolationLevel.READ_COMMITTED, limit=3):
        value: bytes | None = record.value
        print(value, record.timestamp_ms)
    written: RecordMetadata = await cluster.records.produce("a", "text", key=b"k", headers={"h": None}, acks=1)
    results = await cluster.records.produce_many("a", [NewRecord(value=b"x", partition=0)], compression="zstd")
    failures: list[KafkaException] = [each.error for each in results if each.error is not None]
    print(written.offset, failures)


async def control(cluster: Cluster) -> None:
    first = TopicPartition("a", 0)
    for quota in await cluster.quotas.list({"user": None}):
        rate: float | None = quota.values.get("producer_byte_rate")
        await cluster.quotas.alter(quota.entity, {"producer_byte_rate": rate or 1.0}, remove=["request_percentage"])
    for hanging in await cluster.transactions.find_hanging("a"):
        await cluster.transactions.abort(hanging.topic_partition, hanging.start_offset)
    transaction: Transaction = await cluster.transactions.describe("t")
    await cluster.transactions.force_terminate(transaction.transactional_id)
    current: dict[TopicPartition, Reassignment] = await cluster.reassignments.list()
    rejected: dict[TopicPartition, KafkaError] = await cluster.reassignments.alter(
        {first: [1, 2], **dict.fromkeys(current)}
    )
    progress: PlanProgress = await cluster.reassignments.verify({first: [1, 2]})
    await cluster.reassignments.throttle(1_000)
    cancelled: dict[TopicPartition, KafkaError | None] = await cluster.reassignments.cancel()
    print(rejected, progress.is_completed, cancelled)


async def main() -> None:
    try:
        async with Cluster.connect(["localhost:9092"], request_timeout_ms=1_000) as cluster:
            await topics(cluster)
            await partitions(cluster)
            await operate(cluster)
            await consume(cluster)
            await control(cluster)
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
        values: list[bytes | None] = [record.value for record in cluster.records.read("a", limit=10)]
        lags: dict[str, int] = {name: each.lag for name, each in cluster.groups.total_lags(["g"]).items()}
        print(values, lags, cluster.records.read_newest("a"), cluster.quotas.list(), cluster.transactions.list())
        print(cluster.reassignments.throttles())


if __name__ == "__main__":
    asyncio.run(main())
