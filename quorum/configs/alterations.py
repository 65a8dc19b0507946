"""Operations of IncrementalAlterConfigs: set, delete, and for lists append and subtract (KIP-339). Sans-IO."""

from enum import IntEnum

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.incremental_alter_configs import AlterableConfig


class Operation(IntEnum):
    """AlterConfigOp.OpType on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def altered(alteration: AlterableConfig, current: str | None, default: str | None, *, is_list: bool) -> str | None:
    """Return the new value of a config; None: it is removed. `current` is stored, `default` built in.

    Raises:
        KafkaError: INVALID_REQUEST (unknown operation, no value), INVALID_CONFIG (not a list).
    """
    try:
        operation = Operation(alteration.config_operation)
    except ValueError:
        message = f"Unknown operation {alteration.config_operation} for {alteration.name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None
    if operation is Operation.DELETE:
        return None
    if alteration.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {alteration.name}")
    if operation is Operation.SET:
        return alteration.value
    if not is_list:
        message = f"Can't {operation.name} to key {alteration.name} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    base = default if current is None else current
    parts = [part for part in (base or "").split(",") if part]
    for value in alteration.value.split(","):
        if operation is Operation.APPEND and value not in parts:
            parts.append(value)
        elif operation is Operation.SUBTRACT and value in parts:
            parts.remove(value)
    return ",".join(parts)
