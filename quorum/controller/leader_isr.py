"""Changes of partitions when a broker is fenced or unfenced (ReplicationControlManager.generateLeaderAndIsrUpdates).

Sans-IO. The partitions come from the image's index, so the cost depends on the broker's partitions only. These can be
tens of thousands, so the work is done in steps.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.partition_change import Election, PartitionChangeBuilder
from kvorum.quorum.image.partition import UNASSIGNED_DIRECTORY
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import BrokerRegistrationChange, MetadataRecord
from kvorum.quorum.steps import Steps, pieces

NOBODY = -1
PARTITIONS_A_STEP: Final = 50
"""Some 10 us each."""


def leader_and_isr_changes(
    context: Context,
    partitions: Iterable[TopicIdPartition],
    *,
    remove: int = NOBODY,
    add: int = NOBODY,
    unclean_shutdown: int = NOBODY,
    lost: int = NOBODY,
) -> Steps[list[MetadataRecord]]:
    """Return the changes of these partitions when one broker fails or one becomes eligible to lead.

    `remove` leaves every ISR (without ELR: except as its last member) and may not lead, whatever its state in the
    image; `add` may lead although the image has it fenced. For `unclean_shutdown` and `lost` see the builder.
    """
    cluster = context.image.cluster
    added = cluster.broker(add)
    add_may_lead = added is not None and not added.in_controlled_shutdown

    def is_acceptable_leader(broker_id: int) -> bool:
        return broker_id != remove and ((add_may_lead and broker_id == add) or cluster.is_active(broker_id))

    changes: list[MetadataRecord] = []
    for piece in pieces(partitions, PARTITIONS_A_STEP):
        for key in piece:
            topic, partition = context.image.topics.existing(key)
            unclean = context.unclean_election_enabled(topic.name)
            change = PartitionChangeBuilder(
                topic_id=key.topic_id,
                partition_id=key.partition_id,
                partition=partition,
                is_acceptable_leader=is_acceptable_leader,
                default_directory=context.default_directory,
                is_online_directory=context.image.cluster.has_online_directory,
                is_resting=context.rests,
                election=Election.UNCLEAN if unclean else Election.ONLINE,
                target_isr=tuple(replica for replica in partition.isr if replica != remove),
                elr_enabled=context.elr_enabled,
                min_isr=context.effective_min_isr(topic),
                unclean_shutdown=unclean_shutdown,
                lost=lost,
            ).build()
            if change is not None:
                changes.append(change)
        yield
    return changes


def fence_records(context: Context, broker_id: int) -> Steps[list[MetadataRecord]]:
    """Return the records that fence a broker: it leaves every ISR, and other replicas become leaders."""
    broker = context.image.cluster.broker(broker_id)
    assert broker is not None, f"broker {broker_id} is registered"
    records = yield from leaving_records(context, broker_id)
    records.append(BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker.broker_epoch, fenced=True))
    return records


def unfence_records(context: Context, broker_id: int) -> Steps[list[MetadataRecord]]:
    """Return the records that unfence a broker: it becomes leader of partitions without one where permitted."""
    broker = context.image.cluster.broker(broker_id)
    assert broker is not None, f"broker {broker_id} is registered"
    leaderless = yield from context.image.topics.index.partitions_without_leader()
    changes = yield from leader_and_isr_changes(context, leaderless, add=broker_id)
    return [BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker.broker_epoch, fenced=False), *changes]


def controlled_shutdown_records(context: Context, broker_id: int) -> Steps[list[MetadataRecord]]:
    """Return the records that start or continue a controlled shutdown: it leaves ISRs and leaderships."""
    broker = context.image.cluster.broker(broker_id)
    assert broker is not None, f"broker {broker_id} is registered"
    changes = yield from leaving_records(context, broker_id)
    if broker.in_controlled_shutdown:
        return changes
    begun = BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=True)
    return [begun, *changes]


def leaving_records(context: Context, broker_id: int) -> Steps[list[MetadataRecord]]:
    """Find what takes a broker out of every ISR and every leadership."""
    partitions = yield from context.image.topics.index.partitions_with_in_isr(broker_id)
    return (yield from leader_and_isr_changes(context, partitions, remove=broker_id))


def new_incarnation_records(
    context: Context, broker_id: int, log_dirs: Sequence[Uuid], *, is_clean: bool, is_any_gone: bool
) -> Steps[list[MetadataRecord]]:
    """Return the records that remove the earlier incarnation of a broker from ISRs, leaderships and ELRs.

    `log_dirs` are those of the new one; `is_any_gone`: the earlier one had, or may have had, others. Replicas covered
    by a clean shutdown stay eligible (KIP-966), if their directory still exists. If the directory of a replica is
    unknown, it counts as lost if any is gone.
    """
    kept: list[TopicIdPartition] = []
    fell: list[TopicIdPartition] = []
    lost: list[TopicIdPartition] = []
    index = context.image.topics.index
    in_isr = yield from index.partitions_with_in_isr(broker_id)
    eligible = yield from index.partitions_with_eligible(broker_id)
    for piece in pieces(dict.fromkeys((*in_isr, *eligible))):
        for key in piece:
            _, partition = context.image.topics.existing(key)
            directory = partition.directory(broker_id)
            if directory == UNASSIGNED_DIRECTORY and is_any_gone:
                lost.append(key)
            elif not is_clean or directory not in (UNASSIGNED_DIRECTORY, *log_dirs):
                fell.append(key)
            elif broker_id in partition.isr:
                kept.append(key)
        yield
    records = yield from leader_and_isr_changes(context, kept, remove=broker_id)
    records += yield from leader_and_isr_changes(context, fell, remove=broker_id, unclean_shutdown=broker_id)
    records += yield from leader_and_isr_changes(
        context, lost, remove=broker_id, unclean_shutdown=broker_id, lost=broker_id
    )
    return records
