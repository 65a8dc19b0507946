"""The gate before a leader's write: is the batch good, is it a duplicate, does it follow its producer's last one?"""

from kvorum.storage.log_config import LogConfig
from kvorum.storage.log_types import AppendInfo
from kvorum.storage.producer_replay import check_producer
from kvorum.storage.producer_state import Origin, ProducerState
from kvorum.storage.validator import Validated, validate_produce
from kvorum.storage.verification import VerificationGuard


def admit(
    records: memoryview,
    config: LogConfig,
    state: ProducerState,
    now_ms: int,
    origin: Origin,
    guard: VerificationGuard | None,
    transaction_version: int,
) -> Validated | AppendInfo:
    """Return the batch to write; or, for a client's duplicate, the response to its first append.

    Raises the KafkaErrors of validate_produce and ProducerState's checks; nothing has changed then.
    """
    valid = validate_produce(records, config, now_ms, origin)
    if not valid.header.has_producer_id:
        return valid
    duplicate = state.find_duplicate(valid.header) if origin is Origin.CLIENT else None
    if duplicate is None:
        check_producer(state, valid.header, valid.view, origin, guard, transaction_version)
        return valid
    # Kafka's answer to a duplicate carries its timestamp as the append time, whatever the topic's timestamp type.
    timestamp = duplicate.timestamp
    return AppendInfo(
        duplicate.base_offset, duplicate.last_offset, timestamp, timestamp, size=0, records_count=0, is_duplicate=True
    )
