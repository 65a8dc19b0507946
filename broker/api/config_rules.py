"""What a broker checks of (Incremental)AlterConfigs before the controller sees them (Kafka's ConfigAdminManager).

A broker's own configs are checked by that very broker, which knows its static ones; tools send them there. The
controller checks again what it stores. Every refusal here is INVALID_REQUEST, as in Kafka, but that of secrets, which
is ours: they do not even travel to the controller.
"""

from collections.abc import Iterable

from kvorum.broker.services import Broker
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.runtime import config_defs
from kvorum.runtime.config_defs import Mutability
from kvorum.runtime.config_types import InvalidValue

KNOWN_TYPES = tuple(each.value for each in ResourceType if each is not ResourceType.UNKNOWN)


def check_type(resource_type: int) -> None:
    """Raise KafkaError INVALID_REQUEST for a type of resource nobody knows."""
    if resource_type not in KNOWN_TYPES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def check_broker(broker: Broker, name: str, configs: Iterable[tuple[str, str | None]]) -> None:
    """Check (key, value) pairs for this broker, or for all (empty name).

    A value that is None deletes. Keys nobody knows are taken, as in Kafka: a plugin may have them. What the metadata
    alone know (maintenance, decommission) is taken for another broker, too, which may be down.

    Raises:
        KafkaError: INVALID_REQUEST; INVALID_CONFIG for a value of a secret.
    """
    configs = list(configs)
    if name != CLUSTER_DEFAULT and not (configs and all(key in config_defs.KEPT_IN_METADATA for key, _ in configs)):
        require_own_id(broker, name)
    for key, value in configs:
        definition = config_defs.broker_def(key)
        if definition is None:
            continue
        if not definition.dynamic:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")
        if name == CLUSTER_DEFAULT and definition.mutability is Mutability.PER_BROKER:
            problem = f"Cannot update these configs at default cluster level, they are each broker's own: {key}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        if value is not None and definition.sensitive:
            problem = f"{key} is a secret, which cannot be set dynamically yet: the metadata would hold it in clear"
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{problem}. Set it in the node's own configuration")
        if value is not None:
            try:
                definition.parse(value)
            except InvalidValue as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def require_own_id(broker: Broker, name: str) -> None:
    """Raise KafkaError INVALID_REQUEST unless the resource's name is this broker's id."""
    if not (name.isascii() and name.removeprefix("-").isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != broker.broker_id:
        problem = f"Unexpected broker id, expected {broker.broker_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
