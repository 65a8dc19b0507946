"""Checks of (Incremental)AlterConfigs on the broker, before the controller (Kafka's ConfigAdminManager).

A broker validates its own configs, because it knows the static ones; tools send them to it. The controller validates
them again before it stores them. Every rejection here is INVALID_REQUEST, as in Kafka, except that of secrets, which
Kvorum adds: they are not forwarded to the controller.
"""

from collections.abc import Collection, Mapping

from kvorum.broker.services import Broker
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.configs.changes import check_broker_change, check_key
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_types import InvalidValue

KNOWN_TYPES = tuple(each.value for each in ResourceType if each is not ResourceType.UNKNOWN)


def check_type(resource_type: int) -> None:
    """Raise KafkaError INVALID_REQUEST for an unknown resource type."""
    if resource_type not in KNOWN_TYPES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def check_broker(broker: Broker, name: str, changes: Mapping[str, str | None]) -> Settings:
    """Check changes of this broker's configs, or of all brokers' (empty name), and return the result; None deletes.

    Unknown keys are accepted, as in Kafka: a plugin may use them. Keys that exist only in the metadata (maintenance,
    decommission) are accepted for other brokers too, which may be down.

    Raises:
        KafkaError: INVALID_REQUEST; INVALID_CONFIG for a value of a secret.
    """
    of_metadata = bool(changes) and config_defs.KEPT_IN_METADATA.issuperset(changes)
    if name != CLUSTER_DEFAULT and not of_metadata:
        require_own_id(broker, name)
    cluster_wide = name == CLUSTER_DEFAULT
    for key, value in changes.items():
        if value is not None:  # a stored config can always be removed
            check_key(key, cluster_wide=cluster_wide)
    try:
        return check_broker_change(broker.configs.layers, changes, cluster_wide=cluster_wide)
    except InvalidValue as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


async def check_stores(broker: Broker, after: Settings, keys: Collection[str]) -> None:
    """Read the key and trust stores that these keys change, and compare them with those in use.

    Raises KafkaError INVALID_REQUEST.
    """
    if broker.stores is None:
        return
    try:
        await broker.stores.check(after, keys)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def stored_configs(broker: Broker, name: str) -> Mapping[str, str]:
    """Return the dynamic configs stored for this broker, or for all (empty name)."""
    return broker.metadata.image.configs.of(ResourceType.BROKER, name)


def require_own_id(broker: Broker, name: str) -> None:
    """Raise KafkaError INVALID_REQUEST unless the resource's name is this broker's id."""
    if not (name.isascii() and name.removeprefix("-").isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != broker.broker_id:
        problem = f"Unexpected broker id, expected {broker.broker_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
