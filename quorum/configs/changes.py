"""Checks of dynamic broker config changes, on brokers before forwarding and on controllers. Sans-IO.

Source: Kafka's DynamicBrokerConfig.validate.
"""

from collections.abc import Mapping

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.configs.layers import CLUSTER_LAYER, DYNAMIC_LAYERS, OWN_LAYER, ConfigLayers, check_value, overlaid
from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_changes import check_change
from kvorum.runtime.config_defs import Mutability
from kvorum.runtime.config_types import InvalidValue


def check_key(key: str, *, cluster_wide: bool) -> None:
    """Check whether a broker, or all of them, may have a dynamic config of this name.

    Unknown keys are accepted: a plugin may use them.

    Raises:
        KafkaError: INVALID_REQUEST; INVALID_CONFIG for a secret.
    """
    definition = config_defs.broker_def(key)
    if definition is None and not key.startswith(config_defs.LISTENER_PREFIX):
        return
    if definition is not None and not definition.dynamic:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")
    if key in config_defs.PER_LISTENER:
        problem = f"can be dynamically updated only per-listener using the listener prefix: [{key}]"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"These security configs {problem}")
    if cluster_wide and (definition is None or definition.mutability is Mutability.PER_BROKER):
        problem = f"Cannot update these configs at default cluster level, broker id must be specified: [{key}]"
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if definition is not None and definition.sensitive:
        # Kafka stores it unchanged; here the metadata, which every client may read, contain no secret in clear.
        problem = (
            f"{key} is a secret and cannot be set dynamically yet, because the metadata would contain it unencrypted"
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{problem}. Set it in the node's own configuration")


def check_broker_change(layers: ConfigLayers, changes: Mapping[str, str | None], *, cluster_wide: bool) -> Settings:
    """Check and return the result of changes of a node's dynamic configs (None: removed), or of those of all nodes.

    Unknown keys are ignored, as in Kafka: a plugin may use them. Raises InvalidValue.
    """
    known = {key: text for key, text in changes.items() if config_defs.broker_def(key) is not None}
    layer, in_force = CLUSTER_LAYER if cluster_wide else OWN_LAYER, [dict(each) for each in layers.in_force]
    texts = in_force[DYNAMIC_LAYERS.index(layer)]
    try:
        for key, text in known.items():
            if text is None:
                texts.pop(key, None)
            else:
                check_value(key, text, layer)
                texts[key] = text
        after = overlaid(layers.static, in_force)
        check_change(layers.settings, after, known.keys())
    except ConfigError as error:
        raise InvalidValue(error.key, error.text, error.reason) from None
    return after
