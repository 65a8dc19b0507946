"""Topics of a cluster."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kvorum.client.config_sources import topic_overrides
from kvorum.client.partitions.offsets import wait_for_leaders
from kvorum.client.partitions.replication import NOTHING, reassignments_or_nothing
from kvorum.client.partitions.topic_partitions import topic_partitions
from kvorum.client.values.config import Config, new_topic_config
from kvorum.client.values.topic import CreatedTopic, NewTopic, Topic, creatable_topic, created_topic_of, topic_value
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, error_in, refuse
from kvorum.protocol.errors import KafkaError


class Topics:
    """Topics of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def list(
        self,
        pattern: str = "*",
        *,
        internal: bool = False,
        reassignments: bool = True,
        authorized_operations: bool = False,
    ) -> Sequence[Topic]:
        """Return the topics by name, without configs and offsets; `pattern`: a name with * and ?.

        `reassignments=False`: the current ones are not requested; replicas that they add or remove count as replicas.
        """
        metadata = await self._client.metadata(authorized_operations=authorized_operations)
        found = [
            topic
            for topic in metadata.topics
            if fnmatch.fnmatchcase(topic.name or "", pattern) and (internal or not topic.is_internal)
        ]
        moving = await reassignments_or_nothing(self._client, found) if reassignments else NOTHING
        return [
            topic_value(topic, moving, authorized_operations=authorized_operations)
            for topic in sorted(found, key=lambda topic: topic.name or "")
        ]

    async def get(self, name: str, *, authorized_operations: bool = False) -> Topic:
        """Return a topic with one request: without configs, offsets and reassignments."""
        (row,) = (await self._client.metadata([name], authorized_operations=authorized_operations)).topics
        refuse(row.error_code, f"topic {name!r}")
        return topic_value(row, authorized_operations=authorized_operations)

    async def describe(self, name: str) -> Topic:
        """Return a topic with its configs, eligible leader replicas and offsets."""
        client = self._client
        row = await client.topic(name)
        configs = topic_overrides(await client.describe_configs(ResourceType.TOPIC, name))
        moving = await reassignments_or_nothing(client, [row])
        return replace(
            topic_value(row, moving), configs=configs, partitions=await topic_partitions(client, row, moving)
        )

    async def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; None: the cluster's defaults. `assignments`: replicas per partition, instead of numbers.

        Returns when the leaders serve its partitions, or after some 5 s.
        Raises KafkaError TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR, ...
        """
        topic = NewTopic(
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            assignments=assignments,
            configs=configs or {},
        )
        answer = await self._client.create_topic(creatable_topic(topic), validate_only=validate_only)
        created = created_topic_of(answer.topics[0])
        if not validate_only:
            await wait_for_leaders(self._client, {created.name: created.partition_count or 0})
        return created

    async def default_configs(self) -> Sequence[Config]:
        """Return the configs that a new topic would have, by name (KIP-525; Kafka 2.4).

        They are those of a topic that does not exist and is not created: of an existing topic, clusters do not return
        the values below its own.
        """
        name = f"defaults-{self._client.chance.getrandbits(64):016x}"
        answer = await self._client.create_topic(creatable_topic(NewTopic(name=name)), validate_only=True)
        return sorted(map(new_topic_config, answer.topics[0].configs or ()), key=lambda config: config.name)

    async def create_many(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics with one request; return the result or the error of each, by name. Returns as `create`."""
        answer = await self._client.create_topics(
            [creatable_topic(each) for each in topics], validate_only=validate_only
        )
        found = {
            row.name: error_in(row.error_code, row.error_message) or created_topic_of(row) for row in answer.topics
        }
        if not validate_only:
            created = [each for each in found.values() if isinstance(each, CreatedTopic)]
            await wait_for_leaders(self._client, {each.name: each.partition_count or 0 for each in created})
        return found

    async def delete(self, name: str) -> None:
        """Delete a topic with its records. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, ..."""
        await self._client.delete_topic(name)

    async def delete_many(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with one request; return the error of each, by name."""
        return await self._client.delete_topics(list(names))
