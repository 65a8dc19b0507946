"""Partitions of topics: their number, offsets, records and leaders."""

from collections.abc import Iterable, Mapping, Sequence

from kvorum.client.partitions import delete_records, offsets
from kvorum.client.values.offset import OffsetSpec, PartitionOffset
from kvorum.client.wire.cluster_client import ClusterClient, IsolationLevel
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition, by_topic


class Partitions:
    """Partitions of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def add(
        self,
        topic: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase the number of partitions of a topic to `total`; `assignments`: the replicas of each new one.

        Returns when the leaders serve all partitions, or after some 5 s. Raises KafkaError INVALID_PARTITIONS,
        INVALID_REPLICA_ASSIGNMENT, ...
        """
        await self._client.create_partitions(topic, total, assignments=assignments, validate_only=validate_only)
        if not validate_only:
            await offsets.wait_for_leaders(self._client, {topic: total})

    async def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: OffsetSpec | int = OffsetSpec.LATEST,
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, PartitionOffset]:
        """Return the offset of each partition: first, last, or of the first record from a time (ms) on.

        READ_COMMITTED: the last is the last stable offset. Raises KafkaError if a leader rejects it, or does not
        respond within some 15 s.
        """
        if at < 0 and not isinstance(at, OffsetSpec):
            raise ValueError(f"{at} is not a time in ms; use OffsetSpec")
        found = await offsets.list_offsets(self._client, dict.fromkeys(partitions, int(at)), isolation_level=isolation)
        for partition, each in found.items():
            if each.error is not ErrorCode.NONE:
                raise KafkaError(each.error, f"offsets of {partition} are not available")
        return {
            partition: PartitionOffset(
                offset=each.offset if each.offset >= 0 else None,
                timestamp_ms=each.timestamp if each.timestamp >= 0 else None,
                leader_epoch=each.leader_epoch if each.leader_epoch >= 0 else None,
            )
            for partition, each in found.items()
        }

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records below an offset of each partition, or all (None): those below the high watermark.

        Return the new log start offset or the error of each. It cannot be undone.
        """
        wanted = {
            partition: delete_records.HIGH_WATERMARK if offset is None else offset
            for partition, offset in offsets.items()
        }
        for partition, offset in offsets.items():
            if offset is not None and offset < 0:
                raise ValueError(f"{offset} is not an offset of {partition}; use None for all records")
        return {
            partition: each.low_watermark if each.error is ErrorCode.NONE else KafkaError(each.error, str(partition))
            for partition, each in (await delete_records.delete_records(self._client, wanted)).items()
        }

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred leaders of partitions (None: all); `unclean`: any live replica, which can lose records.

        Return the error of each partition: None if its leader was elected, ELECTION_NOT_NEEDED if it leads already.
        With all partitions, those whose leader leads already are omitted.
        """
        wanted = None if partitions is None else by_topic(partitions)
        return await self._client.elect_leaders(wanted, unclean=unclean)
