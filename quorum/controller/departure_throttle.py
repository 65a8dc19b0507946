"""The throttle of a decommission: moving replicas are listed in the topics' configs, as by Kafka's tools (KIP-73).

Sans-IO.

    kvorum.decommission.throttle       of a decommissioned broker: bytes per second; the lowest of all counts
    leader., follower.replication.throttled.rate      set cluster-wide while replicas move
    leader., follower.replication.throttled.replicas  of the topics: sources as leaders, targets as
                                                      followers

The rates are the smallest throttle of the leaving brokers, and change with it: when a broker is empty, is
recommissioned, is unregistered or gets another throttle. After the last one all four are removed, except replicas of
partitions in another reassignment; each step that adds replicas of a topic removes those that have already moved. It
replaces an operator's own cluster-wide rate, but not before a move starts. A throttle that is set before the
decommission is kept until then.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Final

from kvorum.quorum.controller.broker_admin_state import STATE_KEY, BrokerAdminState, cleared, taken_back
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigsImage, ResourceType
from kvorum.quorum.image.metadata import MetadataImage
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import Config, MetadataRecord, PartitionChange
from kvorum.quorum.steps import Steps, pieces
from kvorum.runtime.config_defs import BROKER, DECOMMISSION_THROTTLE, is_value

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
EVERY_REPLICA: Final = "*"


def throttles_in(image: MetadataImage) -> dict[int, int]:
    """Return {broker: bytes per second} of registered brokers that leave with a throttle.

    Cost: the number of brokers.
    """
    found: dict[int, int] = {}
    for broker_id in sorted(image.cluster.brokers):
        configs = image.configs.of(ResourceType.BROKER, str(broker_id))
        rate = _throttle_in(configs)
        if rate is not None:
            found[broker_id] = rate
    return found


def _throttle_in(configs: Mapping[str, str | None]) -> int | None:
    """Return by how much a broker with these configs is throttled; None where it is not, or does not leave."""
    value = configs.get(DECOMMISSION_THROTTLE)
    leaves = configs.get(STATE_KEY) == BrokerAdminState.DECOMMISSIONED
    known = BROKER[DECOMMISSION_THROTTLE]
    return int(value) if leaves and value is not None and is_value(known, value) else None


def throttle_records(
    image: MetadataImage, throttles: Collection[int], changes: Sequence[PartitionChange]
) -> list[Config]:
    """Return the records that throttle the moves started by these changes; none without a throttle."""
    if not throttles or not changes:
        return []
    records = [record for key in RATES for record in _rate(image.configs, key, str(min(throttles)))]
    marks: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        topic, partition = image.topics.existing(TopicIdPartition(change.topic_id, change.partition_id))
        adding = change.adding_replicas or ()
        sides = ((LEADERS, [each for each in partition.replicas if each not in adding]), (FOLLOWERS, adding))
        for key, replicas in sides:
            marks.setdefault((topic.name, key), []).extend(f"{change.partition_id}:{each}" for each in replicas)
    for (topic_name, key), added in marks.items():
        # Without those whose moves are over: else a topic's marks are written again and again, ever longer.
        present = [*_still_moving(image, topic_name, key)]
        if EVERY_REPLICA not in present:
            value = ",".join(dict.fromkeys((*present, *added)))
            records += _set(image.configs, ResourceType.TOPIC, topic_name, key, value)
    return records


def throttle_consequences(image: MetadataImage, changes: Sequence[MetadataRecord]) -> Steps[list[Config]]:
    """Return the changes of throttles that result from changes of brokers' configs.

    A broker that stays loses its throttle, unless the changes give it one. Cost: all resources with configs, if no
    leaving broker has a throttle afterwards.
    """
    before = throttles_in(image)
    if not before:
        return []
    theirs = [each for each in changes if isinstance(each, Config) and each.resource_type == ResourceType.BROKER]
    given = {each.resource_name for each in theirs if each.name == DECOMMISSION_THROTTLE}
    stay = [each for each in taken_back(image, theirs) if each in before and str(each) not in given]
    records = [cleared(each, DECOMMISSION_THROTTLE) for each in stay]
    after = _throttles_after(image, [*theirs, *records])
    rate, next_rate = str(min(before.values())), str(min(after.values())) if after else None
    for key in RATES:
        if image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT).get(key) == rate:  # else it is an operator's own
            records += _rate(image.configs, key, next_rate)
    return records if after else records + (yield from _marks_off(image, before))


def _throttles_after(image: MetadataImage, changes: Sequence[Config]) -> dict[int, int]:
    """Return what throttles_in will after these changes of brokers."""
    found: dict[int, int] = {}
    for broker_id in image.cluster.brokers:
        name = str(broker_id)
        changed = {each.name: each.value for each in changes if each.resource_name == name}
        rate = _throttle_in({**image.configs.of(ResourceType.BROKER, name), **changed})
        if rate is not None:
            found[broker_id] = rate
    return found


def _marks_off(image: MetadataImage, departed: Container[int]) -> Steps[list[Config]]:
    """Return records that unthrottle replicas whose partitions are not reassigned, or only those of some brokers."""
    records: list[Config] = []
    for piece in pieces(image.configs.resources.items()):
        for resource, configs in piece:
            if resource.resource_type == ResourceType.TOPIC:
                for key in (LEADERS, FOLLOWERS):
                    if key in configs:
                        kept = ",".join(_still_moving(image, resource.name, key, departed)) or None
                        records += _set(image.configs, ResourceType.TOPIC, resource.name, key, kept)
        yield
    return records


def _still_moving(image: MetadataImage, topic_name: str, key: str, departed: Container[int] = ()) -> Iterator[str]:
    """Yield the throttled replicas of reassignments, except those that leave these brokers; and the mark of all."""
    topic = image.topics.topic(topic_name)
    for mark in _listed(image.configs.topic(topic_name).get(key, "")):
        number, _, broker_id = mark.partition(":")
        partition = topic.partition(int(number)) if topic is not None and number.isdecimal() else None
        if mark == EVERY_REPLICA or (partition is not None and _is_moved(partition, key, broker_id, departed)):
            yield mark


def _is_moved(partition: PartitionRegistration, key: str, broker_id: str, departed: Container[int]) -> bool:
    """Return whether an entry belongs to a reassignment in progress that removes nothing from those brokers."""
    of_it = key == LEADERS or broker_id in map(str, partition.adding_replicas)
    return partition.is_reassigning and of_it and not any(each in departed for each in partition.removing_replicas)


def _rate(configs: ConfigsImage, key: str, value: str | None) -> list[Config]:
    return _set(configs, ResourceType.BROKER, CLUSTER_DEFAULT, key, value)


def _listed(text: str) -> list[str]:
    return [mark for part in text.split(",") if (mark := part.strip())]


def _set(configs: ConfigsImage, kind: ResourceType, name: str, key: str, value: str | None) -> list[Config]:
    """Return the record, none where it is so already."""
    if configs.of(kind, name).get(key) == value:
        return []
    return [Config(resource_type=kind, resource_name=name, name=key, value=value)]
