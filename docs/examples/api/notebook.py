"""A cluster from a notebook: each `# %%` is a cell (Jupytext, VS Code, PyCharm)."""

# %% [markdown]
# # A cluster from a notebook
# `SyncCluster` has the methods of `Cluster` without `await`. It also works where an event loop runs already (Jupyter).

# %%
import os

from kvorum.client import KafkaError, OffsetSpec, ResourceType, SyncCluster, TopicPartition

cluster = SyncCluster.connect(os.environ.get("KAFKA_SERVERS", "localhost:9092"))
cluster.metadata.cluster()

# %% [markdown]
# ## Topics

# %%
topic = "notebook"
try:
    cluster.topics.create(topic, partitions=3, configs={"cleanup.policy": "delete"})
except KafkaError as error:
    print(error.code.name)

# %%
for partition in cluster.topics.describe(topic).partitions:
    print(partition.partition, partition.leader, partition.isr, partition.earliest_offset, partition.latest_offset)

# %% [markdown]
# ## Configs

# %%
cluster.configs.alter(ResourceType.TOPIC, topic, set={"retention.ms": "3600000"}, delete=["cleanup.policy"])
print(cluster.topics.describe(topic).configs)

# %%
for config in cluster.configs.describe(ResourceType.TOPIC, topic):
    if not config.is_default:
        print(config.name, config.value, config.source)

# %% [markdown]
# ## Offsets and records

# %%
partitions = [TopicPartition(topic, number) for number in range(3)]
print(cluster.partitions.list_offsets(partitions, OffsetSpec.EARLIEST))
print(cluster.partitions.delete_records(dict.fromkeys(partitions)))

# %% [markdown]
# ## Brokers and disks

# %%
for directory in cluster.log_dirs.list():
    print(directory.broker, directory.path, len(directory.replicas), directory.size_bytes)

# %%
quorum = cluster.quorum.describe()
print(quorum.leader_id, [voter.node_id for voter in quorum.voters], quorum.high_watermark)

# %%
cluster.topics.delete(topic)
cluster.close()
