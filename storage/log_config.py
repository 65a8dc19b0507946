"""A log's configuration: Kafka's topic configs, each falling back to the broker's key for it (Kafka's LogConfig)."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.config import Settings
from kvorum.runtime.config_defs import TOPIC, ConfigDef
from kvorum.runtime.config_types import ConfigType, InvalidValue, Value

INT64_MAX: Final = 2**63 - 1
DAY_MS: Final = 24 * 60 * 60 * 1000
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
"""Replaces segment.bytes, without its minimum of 1 MiB; for tests."""

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
CODECS: Final[Mapping[str, Codec | None]] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Defaults are Apache Kafka 4.3's. Times in ms, sizes in bytes."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1024**3
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    unclean_leader_election_enable: bool = False

    is_compacted: bool = field(init=False, repr=False, compare=False)
    """Whether records without a key are refused."""
    uses_log_append_time: bool = field(init=False, repr=False, compare=False)
    """Whether the broker stamps the records."""
    target_codec: Codec | None = field(init=False, repr=False, compare=False)
    """The codec to store in; None to keep the producer's."""
    segment_ms_max: int = field(init=False, repr=False, compare=False)
    """Time that a segment stays active: one that must be compacted within max.compaction.lag.ms rolls by then."""

    def __post_init__(self) -> None:
        """Derive the values that every append needs."""
        derive = functools.partial(object.__setattr__, self)
        derive("is_compacted", "compact" in self.cleanup_policy)
        derive("uses_log_append_time", self.message_timestamp_type == LOG_APPEND_TIME)
        derive("target_codec", CODECS[self.compression_type])
        longest_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
        derive("segment_ms_max", longest_ms)

    @property
    def is_deleted(self) -> bool:
        """Whether retention by time and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def init_file_size(self) -> int:
        """The length a new segment's file is given at once: segment.bytes with preallocate, else none."""
        return self.segment_bytes if self.preallocate else 0

    def compression_level(self, codec: Codec) -> int | None:
        """Return the configured level for a codec that has one."""
        match codec:
            case Codec.GZIP:
                return self.compression_gzip_level
            case Codec.LZ4:
                return self.compression_lz4_level
            case Codec.ZSTD:
                return self.compression_zstd_level
            case _:
                return None

    @staticmethod
    def from_overrides(overrides: Mapping[str, str], settings: Settings | None = None) -> "LogConfig":
        """Return the configuration of a topic: its own configs, then the broker's, then Kafka's defaults.

        Configs of the topic that do not affect logs (follower.replication.throttled.replicas, ...) are ignored. Raises
        KafkaError INVALID_CONFIG for an invalid value.
        """
        values: dict[str, object] = {}
        for name, definition in TOPIC.items():
            value = _value(definition, overrides.get(name), settings)
            if (field := name.replace(".", "_")) in LogConfig.__dataclass_fields__:
                values[field] = frozenset(value) if isinstance(value, tuple) else value
        if (internal := _value(TOPIC[INTERNAL_SEGMENT_BYTES], overrides.get(INTERNAL_SEGMENT_BYTES), None)) is not None:
            values["segment_bytes"] = internal
        return LogConfig(**values)  # type: ignore[arg-type]  # each definition parses to its field's type


def _value(definition: ConfigDef, text: str | None, settings: Settings | None) -> Value:
    """Return the topic's value, else the broker's under the first of its synonyms, else the default."""
    if text is not None:
        try:
            return definition.parse(text)
        except InvalidValue as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if settings is None or not definition.synonyms:
        return definition.default_value
    key = definition.synonyms[0]
    match definition.type:
        case ConfigType.BOOLEAN:
            return settings.bool(key)
        case ConfigType.DOUBLE:
            return settings.float(key)
        case ConfigType.LIST:
            return tuple(settings.list(key))
        case ConfigType.STRING:
            return settings.str(key)
        case _:
            value = settings.optional_int(key)
            return definition.default_value if value is None else value
