"""The throttle of a decommission: what moves is named in the topics' configs, as Kafka's tools do it (KIP-73). Sans-IO.

    kvorum.decommission.throttle       of a broker that is decommissioned: bytes a second; the least of all counts
    leader., follower.replication.throttled.rate      set cluster-wide while something of it is on its way
    leader., follower.replication.throttled.replicas  of the topics: those who have it as leaders, those who get it as
                                                      followers

When no broker with a throttle has anything left, or is to leave any more, all four are taken away: of the replicas
those whose partitions nobody reassigns. An operator's own cluster-wide rate has given way by then. A throttle that is
set before anything of its broker moves stays for then.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kvorum.quorum.controller.duty import cleared, is_leaving
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigsImage, ResourceType
from kvorum.quorum.image.metadata import MetadataImage
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import Config, PartitionChange
from kvorum.quorum.steps import Steps, pieces
from kvorum.runtime.config_defs import DECOMMISSION_THROTTLE

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
EVERY_REPLICA: Final = "*"


def throttles_in(image: MetadataImage) -> dict[int, int]:
    """Return {broker: bytes a second} of the registered brokers that have a throttle. Cost: the number of brokers."""
    found: dict[int, int] = {}
    for broker_id in sorted(image.cluster.brokers):
        value = image.configs.of(ResourceType.BROKER, str(broker_id)).get(DECOMMISSION_THROTTLE)
        if value is not None and value.isdecimal():
            found[broker_id] = int(value)
    return found


def throttle_records(image: MetadataImage, changes: Sequence[PartitionChange]) -> list[Config]:
    """Return what throttles the moves that begin with these changes; nothing where no throttle is asked for."""
    rates = [rate for broker_id, rate in throttles_in(image).items() if is_leaving(image.configs, broker_id)]
    if not rates or not changes:
        return []
    records = [record for key in RATES for record in _set(image.configs, ResourceType.BROKER, "", key, str(min(rates)))]
    marks: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        topic, partition = image.topics.existing(TopicIdPartition(change.topic_id, change.partition_id))
        adding = change.adding_replicas or ()
        sides = ((LEADERS, [each for each in partition.replicas if each not in adding]), (FOLLOWERS, adding))
        for key, replicas in sides:
            marks.setdefault((topic.name, key), []).extend(f"{change.partition_id}:{each}" for each in replicas)
    for (topic_name, key), added in marks.items():
        present = _listed(image.configs.topic(topic_name).get(key, ""))
        if EVERY_REPLICA not in present:
            value = ",".join(dict.fromkeys((*present, *added)))
            records += _set(image.configs, ResourceType.TOPIC, topic_name, key, value)
    return records


def unthrottle_records(image: MetadataImage, busy: Iterable[int]) -> Steps[list[Config]]:
    """Return what takes the throttle off when no broker that has one is among those who still have something to move.

    Cost: all resources with configs.
    """
    throttled = throttles_in(image)
    if not throttled or throttled.keys() & {*busy}:
        return []
    cluster_wide = image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT)
    if not any(key in cluster_wide for key in RATES) and not any(is_leaving(image.configs, each) for each in throttled):
        return []  # nothing was throttled yet: it is asked for ahead of the decommission
    records = [cleared(each, DECOMMISSION_THROTTLE) for each in throttled]
    for key in RATES:
        records += _set(image.configs, ResourceType.BROKER, CLUSTER_DEFAULT, key, None)
    for piece in pieces(image.configs.resources.items()):
        for resource, configs in piece:
            if resource.resource_type == ResourceType.TOPIC:
                for key in (LEADERS, FOLLOWERS):
                    if key in configs:
                        kept = ",".join(_still_moving(image, resource.name, _listed(configs[key]))) or None
                        records += _set(image.configs, ResourceType.TOPIC, resource.name, key, kept)
        yield
    return records


def _still_moving(image: MetadataImage, topic_name: str, marks: Sequence[str]) -> Iterator[str]:
    """Yield those of partitions that are being reassigned, and a mark of all."""
    topic = image.topics.topic(topic_name)
    for mark in marks:
        number = mark.partition(":")[0]
        partition = topic.partition(int(number)) if topic is not None and number.isdigit() else None
        if mark == EVERY_REPLICA or (partition is not None and partition.is_reassigning):
            yield mark


def _listed(text: str) -> list[str]:
    return [mark for part in text.split(",") if (mark := part.strip())]


def _set(configs: ConfigsImage, kind: ResourceType, name: str, key: str, value: str | None) -> list[Config]:
    """Return the record, none where it is so already."""
    if configs.of(kind, name).get(key) == value:
        return []
    return [Config(resource_type=kind, resource_name=name, name=key, value=value)]
