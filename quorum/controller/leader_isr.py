"""What happens to partitions when a broker goes or comes (ReplicationControlManager.generateLeaderAndIsrUpdates).

Sans-IO. The partitions come from the image's index, so the cost is what the broker had a part in, not what exists.
"""

from collections.abc import Iterable

from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.partition_change import Election, PartitionChangeBuilder
from kvorum.quorum.image.index import TopicIdPartition
from kvorum.quorum.records import BrokerRegistrationChange, MetadataRecord

NOBODY = -1


def leader_and_isr_changes(
    context: Context, partitions: Iterable[TopicIdPartition], *, remove: int = NOBODY, add: int = NOBODY
) -> list[MetadataRecord]:
    """Return the changes of these partitions when one broker goes or one becomes able to lead.

    `remove` leaves every ISR (but as its last member) and may not lead, whatever the image still says of it; `add` may
    lead though the image still has it fenced.
    """
    cluster = context.image.cluster
    added = cluster.broker(add)
    add_may_lead = added is not None and not added.in_controlled_shutdown

    def is_acceptable_leader(broker_id: int) -> bool:
        return broker_id != remove and ((add_may_lead and broker_id == add) or cluster.is_active(broker_id))

    changes: list[MetadataRecord] = []
    for key in partitions:
        topic, partition = context.image.topics.existing(key)
        unclean = context.unclean_election_enabled(topic.name)
        change = PartitionChangeBuilder(
            topic_id=key.topic_id,
            partition_id=key.partition_id,
            partition=partition,
            is_acceptable_leader=is_acceptable_leader,
            default_directory=context.default_directory,
            election=Election.UNCLEAN if unclean else Election.ONLINE,
            target_isr=tuple(replica for replica in partition.isr if replica != remove),
        ).build()
        if change is not None:
            changes.append(change)
    return changes


def fence_records(context: Context, broker_id: int) -> list[MetadataRecord]:
    """Return what fences a broker: it leaves every ISR, somebody else leads, and it may do neither again."""
    broker = context.image.cluster.broker(broker_id)
    assert broker is not None, f"broker {broker_id} is registered"
    index = context.image.topics.index
    records = leader_and_isr_changes(context, index.partitions_with_in_isr(broker_id), remove=broker_id)
    records.append(BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker.broker_epoch, fenced=True))
    return records


def unfence_records(context: Context, broker_id: int) -> list[MetadataRecord]:
    """Return what unfences a broker: it may lead again, and leads what nobody does where it may."""
    broker = context.image.cluster.broker(broker_id)
    assert broker is not None, f"broker {broker_id} is registered"
    records: list[MetadataRecord] = [
        BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker.broker_epoch, fenced=False)
    ]
    records += leader_and_isr_changes(context, context.image.topics.index.partitions_without_leader(), add=broker_id)
    return records


def controlled_shutdown_records(context: Context, broker_id: int) -> list[MetadataRecord]:
    """Return what begins (or goes on with) a controlled shutdown: it leaves every ISR and leads nothing it need not."""
    broker = context.image.cluster.broker(broker_id)
    assert broker is not None, f"broker {broker_id} is registered"
    records: list[MetadataRecord] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=True)
        )
    index = context.image.topics.index
    records += leader_and_isr_changes(context, index.partitions_with_in_isr(broker_id), remove=broker_id)
    return records
