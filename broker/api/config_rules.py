"""What a broker checks of (Incremental)AlterConfigs before the controller sees them (Kafka's ConfigAdminManager).

A broker's own configs are checked by that very broker, which knows its static ones; tools send them there. The
controller checks again what it stores. Every refusal here is INVALID_REQUEST, as in Kafka, but that of secrets, which
is ours: they do not even travel to the controller.
"""

from collections.abc import Mapping

from kvorum.broker.services import Broker
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.configs.layers import check_broker_change, is_per_broker
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.runtime import config_defs
from kvorum.runtime.config_types import InvalidValue

KNOWN_TYPES = tuple(each.value for each in ResourceType if each is not ResourceType.UNKNOWN)


def check_type(resource_type: int) -> None:
    """Raise KafkaError INVALID_REQUEST for a type of resource nobody knows."""
    if resource_type not in KNOWN_TYPES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def check_broker(broker: Broker, name: str, changes: Mapping[str, str | None]) -> None:
    """Check changes of this broker's configs, or of all brokers' (empty name); None deletes.

    Keys nobody knows are taken, as in Kafka: a plugin may have them. What the metadata alone know (maintenance,
    decommission) is taken for another broker, too, which may be down.

    Raises:
        KafkaError: INVALID_REQUEST; INVALID_CONFIG for a value of a secret.
    """
    of_metadata = bool(changes) and config_defs.KEPT_IN_METADATA.issuperset(changes)
    if name != CLUSTER_DEFAULT and not of_metadata:
        require_own_id(broker, name)
    for key, value in changes.items():
        check_key(name, key, value)
    try:
        check_broker_change(broker.configs.layers, changes, cluster_wide=name == CLUSTER_DEFAULT)
    except InvalidValue as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def stored_configs(broker: Broker, name: str) -> Mapping[str, str]:
    """Return the dynamic configs stored for this broker, or for all (empty name)."""
    return broker.metadata.image.configs.of(ResourceType.BROKER, name)


def check_key(name: str, key: str, value: str | None) -> None:
    """Check whether a resource may have a dynamic config; removing one is always allowed. Raises KafkaError."""
    definition = config_defs.broker_def(key)
    if definition is None or value is None:
        return
    if not definition.dynamic:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")
    if key in config_defs.PER_LISTENER:
        problem = f"can be dynamically updated only per-listener using the listener prefix: [{key}]"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"These security configs {problem}")
    if name == CLUSTER_DEFAULT and is_per_broker(key, definition):
        problem = f"Cannot update these configs at default cluster level, broker id must be specified: [{key}]"
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if definition.sensitive:
        problem = f"{key} is a secret, which cannot be set dynamically yet: the metadata would hold it in clear"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{problem}. Set it in the node's own configuration")


def require_own_id(broker: Broker, name: str) -> None:
    """Raise KafkaError INVALID_REQUEST unless the resource's name is this broker's id."""
    if not (name.isascii() and name.removeprefix("-").isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != broker.broker_id:
        problem = f"Unexpected broker id, expected {broker.broker_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
