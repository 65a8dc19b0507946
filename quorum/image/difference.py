"""From one image to another that did not come from it by records: a snapshot loaded over an older image. Sans-IO."""

from collections.abc import Iterator

from kvorum.quorum.image.client_quotas import ClientQuotasImage, quota_record
from kvorum.quorum.image.configs import ConfigResource, ResourceType
from kvorum.quorum.image.delegation_tokens import token_changes
from kvorum.quorum.image.metadata import MetadataDelta, MetadataImage
from kvorum.quorum.image.scram import scram_changes
from kvorum.quorum.records import Config, Feature, MetadataRecord, RemoveTopic, UnregisterBroker


def delta_between(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Return a delta on `before` whose `apply` has the content of `after`: for publishers of a snapshot.

    Cost: both images. Not meant for the log: a broker of another incarnation appears in it in its final state.
    """
    delta = MetadataDelta(before)
    for record in _changes(before, after):
        delta.replay(record)
    return delta


def _changes(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for name in sorted(set(before.features.levels) - set(after.features.levels)):
        yield Feature(name=name, level=0)
    for name, level in sorted(after.features.levels.items()):
        if before.features.level(name) != level:
            yield Feature(name=name, level=level)
    yield from _broker_changes(before, after)
    yield from _topic_changes(before, after)
    yield from _config_changes(before, after)
    if before.producer_ids != after.producer_ids:
        yield from after.producer_ids.to_records()
    if before.client_quotas != after.client_quotas:
        yield from _quota_changes(before.client_quotas, after.client_quotas)
    if before.scram != after.scram:
        yield from scram_changes(before.scram, after.scram)
    if before.delegation_tokens != after.delegation_tokens:
        yield from token_changes(before.delegation_tokens, after.delegation_tokens)


def _broker_changes(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for broker in before.cluster.sorted_brokers():
        if after.cluster.broker(broker.broker_id) is None:
            yield UnregisterBroker(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    for broker in after.cluster.sorted_brokers():
        if before.cluster.broker(broker.broker_id) != broker:
            yield broker.to_record()


def _topic_changes(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    for topic in before.topics.sorted_topics():
        if topic.topic_id not in after.topics.by_id:
            yield RemoveTopic(topic_id=topic.topic_id)
    for topic in after.topics.sorted_topics():
        old = before.topics.topic_by_id(topic.topic_id)
        if old is None:
            yield from topic.to_records()
        elif old is not topic:
            for partition_id, partition in topic.sorted_partitions():
                if old.partition(partition_id) != partition:
                    yield partition.to_record(topic.topic_id, partition_id)


def _config_changes(before: MetadataImage, after: MetadataImage) -> Iterator[MetadataRecord]:
    removed = {topic.name for topic in before.topics.by_id.values() if topic.topic_id not in after.topics.by_id}
    for resource, configs in sorted(before.configs.resources.items(), key=lambda item: item[0]):
        gone_with_topic = resource.resource_type == ResourceType.TOPIC and resource.name in removed
        for name in sorted(configs):
            if not gone_with_topic and name not in after.configs.of(*resource):
                yield _config(resource, name, None)
    for resource, configs in sorted(after.configs.resources.items(), key=lambda item: item[0]):
        gone_with_topic = resource.resource_type == ResourceType.TOPIC and resource.name in removed
        old = {} if gone_with_topic else before.configs.of(*resource)
        for name, value in sorted(configs.items()):
            if old.get(name) != value:
                yield _config(resource, name, value)


def _config(resource: ConfigResource, name: str, value: str | None) -> Config:
    return Config(resource_type=resource.resource_type, resource_name=resource.name, name=name, value=value)


def _quota_changes(before: ClientQuotasImage, after: ClientQuotasImage) -> Iterator[MetadataRecord]:
    for entity, quotas in before.sorted_entities():
        for key in sorted(quotas):
            if key not in after.of(entity):
                yield quota_record(entity, key, None)
    for entity, quotas in after.sorted_entities():
        for key, value in sorted(quotas.items()):
            if before.of(entity).get(key) != value:
                yield quota_record(entity, key, value)
