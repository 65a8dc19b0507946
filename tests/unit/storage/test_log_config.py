"""A topic's configuration: its own, then the broker's, then Kafka's default."""

import pytest

from kvorum.protocol.compression import Codec
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.config import Settings
from kvorum.storage.log_config import LogConfig

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("broker", "field", "value"),
    [
        ({"log.retention.hours": "2"}, "retention_ms", 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "retention_ms", 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "retention_ms", 4),
        ({"log.retention.hours": "-1"}, "retention_ms", -1),
        ({"log.roll.hours": "1"}, "segment_ms", HOUR_MS),
        ({"log.roll.ms": "9"}, "segment_ms", 9),
        ({"log.roll.jitter.ms": "7"}, "segment_jitter_ms", 7),
        ({"log.segment.bytes": "2000000"}, "segment_bytes", 2_000_000),
        ({"message.max.bytes": "77"}, "max_message_bytes", 77),
        ({"log.flush.interval.messages": "5"}, "flush_messages", 5),
        ({"log.flush.interval.ms": "6"}, "flush_ms", 6),
        ({"log.flush.scheduler.interval.ms": "8"}, "flush_ms", 8),
        ({"log.index.interval.bytes": "10"}, "index_interval_bytes", 10),
        ({"log.index.size.max.bytes": "80"}, "segment_index_bytes", 80),
        ({"log.segment.delete.delay.ms": "1"}, "file_delete_delay_ms", 1),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup_policy", frozenset({"compact", "delete"})),
        ({"log.message.timestamp.type": "LogAppendTime"}, "message_timestamp_type", "LogAppendTime"),
        ({"log.message.timestamp.after.max.ms": "3"}, "message_timestamp_after_max_ms", 3),
        ({"log.message.timestamp.before.max.ms": "4"}, "message_timestamp_before_max_ms", 4),
        ({"min.insync.replicas": "2"}, "min_insync_replicas", 2),
        ({"compression.type": "lz4"}, "compression_type", "lz4"),
        ({"unclean.leader.election.enable": "true"}, "unclean_leader_election_enable", True),
        ({"log.cleaner.min.cleanable.ratio": "0.25"}, "min_cleanable_dirty_ratio", 0.25),
    ],
)
def test_the_brokers_keys_are_defaults(broker: dict[str, str], field: str, value: object) -> None:
    assert getattr(LogConfig.from_overrides({}, Settings.of(broker)), field) == value


def test_a_topics_own_value_wins() -> None:
    settings = Settings.of({"log.retention.ms": "5", "message.max.bytes": "6"})
    config = LogConfig.from_overrides({"retention.ms": "7", "cleanup.policy": "compact"}, settings)
    assert (config.retention_ms, config.max_message_bytes, config.is_compacted, config.is_deleted) == (
        7,
        6,
        True,
        False,
    )


def test_internal_segment_bytes_goes_below_the_minimum() -> None:
    assert LogConfig.from_overrides({"internal.segment.bytes": "100"}).segment_bytes == 100
    assert LogConfig.from_overrides({"internal.segment.bytes": "100", "segment.bytes": "2000000"}).segment_bytes == 100


@pytest.mark.parametrize(
    ("name", "value"),
    [("segment.bytes", "100"), ("retention.ms", "-2"), ("retention.ms", "x"), ("cleanup.policy", "shred"),
     ("compression.type", "brotli"), ("min.insync.replicas", "0"), ("preallocate", "perhaps"),
     ("message.timestamp.type", "Never"), ("flush.messages", "0"), ("max.message.bytes", str(2**31))],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(name: str, value: str) -> None:
    with pytest.raises(KafkaError) as raised:
        LogConfig.from_overrides({name: value})
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert name in str(raised.value)


def test_configs_of_no_log_are_ignored() -> None:
    assert LogConfig.from_overrides({"leader.replication.throttled.replicas": "*"}) == LogConfig()


def test_codecs_have_their_levels() -> None:
    config = LogConfig.from_overrides({"compression.type": "gzip", "compression.gzip.level": "2"})
    assert (config.target_codec, config.compression_level(Codec.GZIP)) == (Codec.GZIP, 2)
    assert (config.compression_level(Codec.LZ4), config.compression_level(Codec.ZSTD)) == (9, 3)
    assert config.compression_level(Codec.SNAPPY) is None
    assert LogConfig().target_codec is None
    assert LogConfig.from_overrides({"compression.type": "uncompressed"}).target_codec is Codec.NONE
