"""Eligible leader replicas and the configs and feature they depend on (KIP-966, ConfigurationControlManager).

Sans-IO. An ELR is safe as long as controller and leaders agree on min.insync.replicas: a leader that took a smaller one
would move the high watermark while the controller keeps an ELR. So, while the feature is on, the config is set for the
whole cluster (it then overrides a broker's own file), cannot be removed there, and cannot be set for a single broker. A
smaller value takes effect in the same change that empties the ELRs that it makes unsafe.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.controller.context import MIN_INSYNC_REPLICAS, Context
from kvorum.quorum.controller.partition_change import PartitionChangeBuilder
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.quorum.image.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import Config, Feature, MetadataRecord
from kvorum.quorum.steps import finish


def check_min_isr_configs(context: Context, changes: Iterable[Config]) -> None:
    """Reject changes that would make controller and leaders disagree. Raises KafkaError INVALID_CONFIG."""
    if not context.elr_enabled:
        return
    for change in changes:
        if change.name != MIN_INSYNC_REPLICAS or change.resource_type != ResourceType.BROKER:
            continue
        if change.resource_name != CLUSTER_DEFAULT:
            message = f"Broker-level {change.name} cannot be altered while ELR is enabled."
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        if change.value is None:
            message = f"Cluster-level {change.name} cannot be removed while ELR is enabled."
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def min_isr_consequences(context: Context, changes: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """Return what changes of min.insync.replicas do to ELRs; to be appended with them, behind them."""
    if not context.elr_enabled or not any(isinstance(c, Config) and c.name == MIN_INSYNC_REPLICAS for c in changes):
        return []
    return _settled(context, after(context.image, changes), _partitions_with_elr(context.image))


def enabling_records(context: Context) -> list[MetadataRecord]:
    """Return the records that accompany enabling: min.insync.replicas for the cluster, for no single broker."""
    records: list[MetadataRecord] = []
    kind = ResourceType.BROKER
    if MIN_INSYNC_REPLICAS not in context.image.configs.of(kind, CLUSTER_DEFAULT):
        value = context.schema.topic_value(context.image.configs, "", MIN_INSYNC_REPLICAS)
        records.append(Config(resource_type=kind, resource_name=CLUSTER_DEFAULT, name=MIN_INSYNC_REPLICAS, value=value))
    single = sorted(
        resource.name
        for resource, configs in context.image.configs.resources.items()
        if resource.resource_type == kind and resource.name != CLUSTER_DEFAULT and MIN_INSYNC_REPLICAS in configs
    )
    records += (Config(resource_type=kind, resource_name=name, name=MIN_INSYNC_REPLICAS, value=None) for name in single)
    return records


def disabling_records(context: Context, level: int) -> list[MetadataRecord]:
    """Return the records that accompany disabling: an empty ISR is restored from its last members."""
    image = after(context.image, [Feature(name=ELIGIBLE_LEADER_REPLICAS_VERSION, level=level)])
    return _settled(context, image, _partitions_with_elr(context.image))


def after(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataImage:
    """Return the image with further records, as if they were next."""
    delta = MetadataDelta(image)
    for offset, record in enumerate(records, image.offset + 1):
        delta.replay(record, offset)
    return delta.apply(image.offset + 1, image.epoch)


def _partitions_with_elr(image: MetadataImage) -> Iterable[TopicIdPartition]:
    index = image.topics.index
    return sorted({key for broker_id in index.eligible for key in finish(index.partitions_with_eligible(broker_id))})


def _settled(context: Context, image: MetadataImage, partitions: Iterable[TopicIdPartition]) -> list[MetadataRecord]:
    """Return the changes of partitions to what holds in an image to come."""
    then = replace(context, image=image, _unclean={}, _min_isr={}, _described={}, _rests={})
    records: list[MetadataRecord] = []
    for key in partitions:
        topic, partition = image.topics.existing(key)
        isr = partition.isr
        if not isr and not then.elr_enabled:
            # Without ELR an ISR keeps its last member, and no other failed one; one that has its log, if possible.
            last = sorted(partition.elr, key=lambda each: each not in partition.last_known_elr)
            has_log = (r for r in last if image.cluster.has_online_directory(r, partition.directory(r)))
            kept = next(has_log, last[0] if last else None)
            isr = partition.last_known_elr if kept is None else (kept,)
        change = PartitionChangeBuilder(
            topic_id=key.topic_id,
            partition_id=key.partition_id,
            partition=partition,
            is_acceptable_leader=image.cluster.is_active,
            default_directory=then.default_directory,
            is_online_directory=image.cluster.has_online_directory,
            is_resting=then.rests,
            target_isr=isr,
            elr_enabled=then.elr_enabled,
            min_isr=then.effective_min_isr(topic),
        ).build()
        if change is not None:
            records.append(change)
    return records
