"""Administrative state of a broker: active, maintenance or decommissioned (docs/decisions/0024). Sans-IO.

It is the dynamic broker config `kvorum.broker.state`. Any Kafka client can set it (IncrementalAlterConfigs). It is
stored in the metadata log as a Config record and survives a change of the active controller:

    not set         normal service
    maintenance     the broker leads no partition that has another in-sync replica; its replicas follow
    active          maintenance has ended: preferred leaderships return, then the controller removes the config
    decommissioned  no new replicas; the controller moves the replicas to other brokers. A broker without
                    replicas can be stopped and unregistered, which removes the config

Replacing or removing `decommissioned` cancels the decommission: moves in progress are reverted, completed moves are
kept. `relief` and `departure` decide; quorum/broker_admin_states drives them.
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


class BrokerAdminState(StrEnum):
    """The values of the config."""

    ACTIVE = "active"
    MAINTENANCE = "maintenance"
    DECOMMISSIONED = "decommissioned"


ADMIN_STATES: Final = {state.value: state for state in BrokerAdminState}


def admin_state_of(configs: ConfigsImage, broker_id: int) -> BrokerAdminState | None:
    """Return a broker's administrative state; None: not set, or a value that this release does not know."""
    return ADMIN_STATES.get(configs.of(ResourceType.BROKER, str(broker_id)).get(STATE_KEY, ""))


def admin_states_in(image: MetadataImage) -> dict[int, BrokerAdminState]:
    """Return the administrative states of registered brokers, by id. Cost: the number of brokers."""
    found = {each: admin_state_of(image.configs, each) for each in sorted(image.cluster.brokers)}
    return {broker_id: state for broker_id, state in found.items() if state is not None}


def rests(configs: ConfigsImage, broker_id: int) -> bool:
    """Return whether a broker is in maintenance."""
    return admin_state_of(configs, broker_id) is BrokerAdminState.MAINTENANCE


def is_leaving(configs: ConfigsImage, broker_id: int) -> bool:
    """Return whether a broker is being decommissioned."""
    return admin_state_of(configs, broker_id) is BrokerAdminState.DECOMMISSIONED


def staying_brokers(cluster: ClusterImage, configs: ConfigsImage) -> list[int]:
    """Return the registered brokers that may get new replicas, by id."""
    return [each for each in sorted(cluster.brokers) if not is_leaving(configs, each)]


def cleared(broker_id: int, key: str = STATE_KEY) -> Config:
    """Return the record that removes a broker's administrative state."""
    return Config(resource_type=ResourceType.BROKER, resource_name=str(broker_id), name=key, value=None)


Refusals = Mapping[int, KafkaError]
"""By broker: why it cannot leave."""


def refusals_of(image: MetadataImage, wanted: Sequence[int]) -> Steps[Refusals]:
    """Find the brokers that cannot be decommissioned because too few would be left for a partition.

    Cost: all partitions. A broker that is already being decommissioned is never rejected.
    """
    leaving = sorted({each for each in wanted if not is_leaving(image.configs, each)})
    left = len([each for each in staying_brokers(image.cluster, image.configs) if each not in leaving])
    refused: dict[int, KafkaError] = {}
    if not leaving:
        return refused
    if left == 0:
        message = f"Broker(s) {named(leaving)} cannot be decommissioned: no broker would remain."
        return {broker_id: KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message) for broker_id in leaving}
    for topic in image.topics.by_id.values():
        for piece in pieces(topic.partitions.items()):
            for number, partition in piece:
                size = len(partition.replicas) - len(partition.adding_replicas)
                for broker_id in leaving if size > left else ():
                    if broker_id in partition.replicas and broker_id not in refused:
                        refused[broker_id] = _too_few(broker_id, f"{topic.name}-{number}", size, left)
            yield
    return refused


def _too_few(broker_id: int, partition: str, size: int, left: int) -> KafkaError:
    message = (
        f"Broker {broker_id} cannot be decommissioned: {partition} has {size} replica(s), and {left} broker(s) would "
        "remain. Add brokers, or reassign it to fewer replicas."
    )
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def decommissioned_by(changes: Sequence[tuple[int, str, Mapping[str, str | None]]]) -> list[int]:
    """Return the brokers that a request decommissions; `changes`: resource type, name, {config: value} of each."""
    return [
        int(name)
        for kind, name, configs in changes
        if kind == ResourceType.BROKER and name.isascii() and name.isdigit()
        if configs.get(STATE_KEY) == BrokerAdminState.DECOMMISSIONED
    ]


def check_admin_state_configs(image: MetadataImage, refusals: Refusals, changes: Sequence[Config]) -> None:
    """Reject invalid administrative states.

    Raises KafkaError BROKER_ID_NOT_REGISTERED: a node that is no broker; INVALID_REPLICATION_FACTOR: see refusals_of.
    """
    for change in changes:
        if change.name != STATE_KEY or change.resource_type != ResourceType.BROKER or change.value is None:
            continue
        if change.resource_name == CLUSTER_DEFAULT or not change.resource_name.isdigit():
            continue  # rejected by other checks of broker configs
        broker_id = int(change.resource_name)
        if image.cluster.broker(broker_id) is None:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
        if change.value == BrokerAdminState.DECOMMISSIONED and broker_id in refusals:
            raise refusals[broker_id]


def taken_back(image: MetadataImage, changes: Sequence[MetadataRecord]) -> list[int]:
    """Return the brokers whose decommission is cancelled by these changes."""
    return [
        int(change.resource_name)
        for change in changes
        if isinstance(change, Config) and change.name == STATE_KEY and change.resource_type == ResourceType.BROKER
        if change.resource_name.isdigit() and change.value != BrokerAdminState.DECOMMISSIONED
        if is_leaving(image.configs, int(change.resource_name))
    ]


def named(broker_ids: Sequence[int]) -> str:
    """Return the first broker ids as text."""
    text = ", ".join(map(str, broker_ids[:BROKERS_NAMED_MAX]))
    return text if len(broker_ids) <= BROKERS_NAMED_MAX else f"{text}, ..."


def replica_counts(image: MetadataImage) -> Steps[Counter[int]]:
    """Count the replicas per broker after all current reassignments. Cost: all partitions."""
    counts: Counter[int] = Counter()
    for topic in image.topics.by_id.values():
        for piece in pieces(topic.partitions.values()):
            for partition in piece:
                counts.update(partition.replicas)
                counts.subtract(partition.removing_replicas)
            yield
    return counts
