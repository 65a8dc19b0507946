"""What is asked of a broker: to serve, to rest for maintenance, or to leave (docs/decisions/0024). Sans-IO.

It is a dynamic config of the broker, `kvorum.broker.state`, so any Kafka client asks for it (IncrementalAlterConfigs),
it is in the metadata log as a Config record, and it holds whoever is the active controller:

    not set         serves, as any broker
    maintenance     leads nothing that another replica in sync could lead; its replicas follow
    active          maintenance is over: it gets back what it is the preferred leader of; then the controller removes
                    the config
    decommissioned  gets no new replica; the controller moves those it has to other brokers, and when it has none it may
                    be stopped and unregistered, which removes the config

Taking `decommissioned` back (any other value, or none) stops it: what is on its way goes back, what has moved stays.
`relief` and `departure` decide what follows; quorum/broker_duties drives them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image.cluster import ClusterImage
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ConfigsImage, ResourceType
from kvorum.quorum.image.metadata import MetadataImage
from kvorum.quorum.records import Config, MetadataRecord
from kvorum.quorum.steps import Steps, pieces
from kvorum.runtime.config_defs import BROKER_STATE

STATE_KEY: Final = BROKER_STATE
BROKERS_NAMED_MAX: Final = 10


class Duty(StrEnum):
    """The values of the config."""

    ACTIVE = "active"
    MAINTENANCE = "maintenance"
    DECOMMISSIONED = "decommissioned"


DUTIES: Final = {duty.value: duty for duty in Duty}


def duty_of(configs: ConfigsImage, broker_id: int) -> Duty | None:
    """Return what is asked of a broker; None: nothing, or what a release wrote that did not know of it."""
    return DUTIES.get(configs.of(ResourceType.BROKER, str(broker_id)).get(STATE_KEY, ""))


def duties_in(image: MetadataImage) -> dict[int, Duty]:
    """Return the registered brokers of which something is asked, by id. Cost: the number of brokers."""
    found = {each: duty_of(image.configs, each) for each in sorted(image.cluster.brokers)}
    return {broker_id: duty for broker_id, duty in found.items() if duty is not None}


def rests(configs: ConfigsImage, broker_id: int) -> bool:
    """Tell whether a broker is to lead nothing that another could lead."""
    return duty_of(configs, broker_id) is Duty.MAINTENANCE


def is_leaving(configs: ConfigsImage, broker_id: int) -> bool:
    """Tell whether a broker is to get no new replica."""
    return duty_of(configs, broker_id) is Duty.DECOMMISSIONED


def staying_brokers(cluster: ClusterImage, configs: ConfigsImage) -> list[int]:
    """Return the registered brokers that may get new replicas, by id."""
    return [each for each in sorted(cluster.brokers) if not is_leaving(configs, each)]


def cleared(broker_id: int, key: str = STATE_KEY) -> Config:
    """Return the record with which nothing is asked of a broker any more."""
    return Config(resource_type=ResourceType.BROKER, resource_name=str(broker_id), name=key, value=None)


Refusals = Mapping[int, KafkaError]
"""By broker: why it cannot leave."""


def refusals_of(image: MetadataImage, wanted: Sequence[int]) -> Steps[Refusals]:
    """Find whom of the brokers that are to leave, all of them, the partitions cannot do without.

    Cost: all partitions. A broker that is leaving already is refused nothing.
    """
    asked = sorted({each for each in wanted if not is_leaving(image.configs, each)})
    left = len([each for each in staying_brokers(image.cluster, image.configs) if each not in asked])
    refused: dict[int, KafkaError] = {}
    if not asked:
        return refused
    if left == 0:
        message = f"Broker(s) {named(asked)} cannot be decommissioned: no broker would be left."
        return {broker_id: KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message) for broker_id in asked}
    for topic in image.topics.by_id.values():
        for piece in pieces(topic.partitions.items()):
            for number, partition in piece:
                size = len(partition.replicas) - len(partition.adding_replicas)
                for broker_id in asked if size > left else ():
                    if broker_id in partition.replicas and broker_id not in refused:
                        refused[broker_id] = _too_few(broker_id, f"{topic.name}-{number}", size, left)
            yield
    return refused


def _too_few(broker_id: int, partition: str, size: int, left: int) -> KafkaError:
    message = (
        f"Broker {broker_id} cannot be decommissioned: {partition} has {size} replica(s), and {left} broker(s) would "
        "be left to have them. Add brokers, or reassign it to fewer replicas."
    )
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def decommissioned_by(changes: Sequence[tuple[int, str, Mapping[str, str | None]]]) -> list[int]:
    """Return the brokers that a request decommissions; `changes`: resource type, name, {config: value} of each."""
    return [
        int(name)
        for kind, name, configs in changes
        if kind == ResourceType.BROKER and name.isascii() and name.isdigit()
        if configs.get(STATE_KEY) == Duty.DECOMMISSIONED
    ]


def check_duty_configs(image: MetadataImage, refusals: Refusals, changes: Sequence[Config]) -> None:
    """Refuse what cannot be asked of a broker.

    Raises KafkaError BROKER_ID_NOT_REGISTERED: a node that is no broker; INVALID_REPLICATION_FACTOR: see refusals_of.
    """
    for change in changes:
        if change.name != STATE_KEY or change.resource_type != ResourceType.BROKER or change.value is None:
            continue
        if change.resource_name == CLUSTER_DEFAULT or not change.resource_name.isdigit():
            continue  # what else is checked of brokers' configs refuses it
        broker_id = int(change.resource_name)
        if image.cluster.broker(broker_id) is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
        if change.value == Duty.DECOMMISSIONED and broker_id in refusals:
            raise refusals[broker_id]


def taken_back(image: MetadataImage, changes: Sequence[MetadataRecord]) -> list[int]:
    """Return the brokers that were leaving and are to stay after these changes."""
    return [
        int(change.resource_name)
        for change in changes
        if isinstance(change, Config) and change.name == STATE_KEY and change.resource_type == ResourceType.BROKER
        if change.resource_name.isdigit() and change.value != Duty.DECOMMISSIONED
        if is_leaving(image.configs, int(change.resource_name))
    ]


def named(broker_ids: Sequence[int]) -> str:
    """Write a few of them for people."""
    text = ", ".join(map(str, broker_ids[:BROKERS_NAMED_MAX]))
    return text if len(broker_ids) <= BROKERS_NAMED_MAX else f"{text}, ..."


def replica_counts(image: MetadataImage) -> Steps[Counter[int]]:
    """Count the replicas each broker has or will have when what is under way is over. Cost: all partitions."""
    counts: Counter[int] = Counter()
    for topic in image.topics.by_id.values():
        for piece in pieces(topic.partitions.values()):
            for partition in piece:
                counts.update(partition.replicas)
                counts.subtract(partition.removing_replicas)
            yield
    return counts
