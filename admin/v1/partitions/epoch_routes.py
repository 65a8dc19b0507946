"""The leader epochs of a partition's log over HTTP, with their offset ranges.

The leader knows them (its leader-epoch-checkpoint), and returns one at a time: OffsetForLeaderEpoch returns the largest
epoch not above the requested one, and its end; the end of the previous one is its start.
"""

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import PARTITION_INDEX, TOPIC_NAME, count, optional_number
from kvorum.admin.v1.models import INT32_MAX
from kvorum.client.partitions.offsets import fetch_offsets
from kvorum.client.wire.cluster_client import EARLIEST, ClusterClient, code_of
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.metadata import MetadataResponsePartition
from kvorum.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kvorum.protocol.topic_partition import TopicPartition

EPOCHS = count("epochs", default=100, most=1_000)
UNDEFINED = -1
ATTEMPTS = 1


BEFORE = optional_number("before", "only epochs below this one", 1, INT32_MAX)


class LeaderEpoch(BaseModel):
    """A leader epoch in the log. Only the newest one can be empty."""

    epoch: int
    start_offset: int
    end_offset: int = Field(description="Start offset of the next epoch")


class LeaderEpochs(BaseModel):
    """The leader epochs of a partition's log, newest first."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    log_start_offset: int
    epochs: list[LeaderEpoch]
    next: int | None = Field(description="The `before` of the next page; null: the log has no older epochs")


async def list_leader_epochs(call: Call[NoBody]) -> LeaderEpochs:
    """List the leader epochs of a partition's log with their offsets, newest first."""
    limit, before = EPOCHS.of(call), BEFORE.of(call)
    topic = await call.cluster.topic(TOPIC_NAME.of(call))
    place = TopicPartition(topic.name or "", PARTITION_INDEX.of(call))
    row = next((each for each in topic.partitions if each.partition_index == place.partition), None)
    if row is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {place}")
    begin = (await fetch_offsets(call.cluster, [place], EARLIEST, attempts=ATTEMPTS))[place]
    address = await leader_address(call.cluster, place, row)
    wanted = row.leader_epoch if before is None else before - 1
    epochs, more = await walk(call.cluster, address, place, wanted, begin, limit, newest=before is None)
    return LeaderEpochs(
        topic=place.topic,
        partition=place.partition,
        leader=row.leader_id,
        leader_epoch=row.leader_epoch,
        log_start_offset=begin,
        epochs=epochs,
        next=epochs[-1].epoch if more else None,
    )


async def leader_address(cluster: ClusterClient, place: TopicPartition, row: MetadataResponsePartition) -> Address:
    """Return where a partition's leader is. Raises KafkaError LEADER_NOT_AVAILABLE."""
    for broker in (await cluster.metadata([])).brokers:
        if broker.node_id == row.leader_id:
            return broker.host, broker.port
    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{place} has no leader now")


async def walk(
    cluster: ClusterClient, address: Address, place: TopicPartition, epoch: int, begin: int, limit: int, *, newest: bool
) -> tuple[list[LeaderEpoch], bool]:
    """Return the epochs of a log that begins at an offset, from one on downwards, and whether there are older ones.

    Below its oldest epoch a log returns no epoch, but its start. Only the newest may be without records.
    """
    found: list[LeaderEpoch] = []
    current = await end_of(cluster, address, place, epoch)
    while current.leader_epoch != UNDEFINED and (current.end_offset > begin or (newest and not found)):
        if len(found) == limit:
            return found, True
        older = EpochEndOffset(end_offset=begin)
        if current.leader_epoch > 0:
            older = await end_of(cluster, address, place, current.leader_epoch - 1)
        start = max(older.end_offset, begin)
        if start == current.end_offset and (found or not newest):
            break
        found.append(LeaderEpoch(epoch=current.leader_epoch, start_offset=start, end_offset=current.end_offset))
        current = older
    return found, False


async def end_of(cluster: ClusterClient, address: Address, place: TopicPartition, epoch: int) -> EpochEndOffset:
    """Query one epoch. Raises KafkaError, Unreachable."""
    wanted = OffsetForLeaderPartition(partition=place.partition, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=place.topic, partitions=[wanted])])
    answer = await cluster.ask(request, OffsetForLeaderEpochResponse, address)
    row = answer.topics[0].partitions[0]
    if row.error_code:
        raise KafkaError(code_of(row.error_code), f"leader epochs of {place} are not available")
    return row


OPERATIONS = [
    Operation.get(
        "/v1/topics/{topic}/partitions/{partition}/epochs",
        "List the leader epochs of a partition",
        list_leader_epochs,
        LeaderEpochs,
        parameters=(TOPIC_NAME, PARTITION_INDEX, BEFORE, EPOCHS),
    )
]
