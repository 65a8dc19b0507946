"""The values a Log takes and gives."""

from typing import Final, NamedTuple

from kvorum.storage.durable_length import DurableLength
from kvorum.storage.epoch_cache import EpochCache
from kvorum.storage.producer_state import ProducerState
from kvorum.storage.segments import Segments
from kvorum.storage.snapshots import Snapshots

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""producer.id.expiration.ms' default."""


class AppendInfo(NamedTuple):
    """Result of an append. A duplicate wrote nothing: its offsets are those of the original batch."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    """A Produce response's log_append_time_ms: -1 under CreateTime, unless it is a duplicate."""
    size: int
    records_count: int
    is_duplicate: bool = False


class LogParts(NamedTuple):
    """Parts of a log that recovery found or created."""

    segments: Segments
    log_start_offset: int
    log_end_offset: int
    durable: DurableLength
    epoch_cache: EpochCache
    producer_state: ProducerState
    snapshots: Snapshots
