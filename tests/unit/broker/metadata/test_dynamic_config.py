"""The configuration in force: layers, what is left out, who is told."""

from typing import Any

import pytest

from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.quorum.configs.entries import broker_entries
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.configs import ConfigsImage, ResourceType
from kvorum.quorum.records import Config
from kvorum.runtime.config import ConfigSource, Settings

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


def configs_of(*values: tuple[int, str, str, str]) -> ConfigsImage:
    delta = MetadataDelta(MetadataImage())
    for kind, resource, key, value in values:
        delta.replay(Config(resource_type=kind, resource_name=resource, name=key, value=value))
    return delta.apply(1, 1).configs


def in_force(configs: DynamicConfig, *values: tuple[int, str, str, str]) -> frozenset[str]:
    configs.set_image(configs_of(*values))
    return configs.apply()


def test_a_stronger_layer_wins_and_leaves_the_weaker_one_behind_it() -> None:
    configs = DynamicConfig(Settings.of({"log.retention.bytes": 1}), 4)
    assert configs.settings.int("log.retention.bytes") == 1
    everyone = (BROKER, "", "log.retention.bytes", "2")
    own = (BROKER, "4", "log.retention.bytes", "3")
    another = (BROKER, "5", "log.retention.bytes", "9")
    assert in_force(configs, everyone, another) == {"log.retention.bytes"}
    assert configs.settings.int("log.retention.bytes") == 2
    assert configs.settings.source("log.retention.bytes").layer is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert in_force(configs, everyone, own) == {"log.retention.bytes"}
    assert configs.settings.int("log.retention.bytes") == 3
    assert configs.settings.source("log.retention.bytes").layer is ConfigSource.DYNAMIC_BROKER_CONFIG
    assert in_force(configs, everyone) == {"log.retention.bytes"}
    assert in_force(configs) == {"log.retention.bytes"}
    assert configs.settings.int("log.retention.bytes") == 1
    assert in_force(configs) == frozenset()


def test_a_topics_logs_follow_topic_broker_and_default() -> None:
    configs = DynamicConfig(Settings.of({"min.insync.replicas": 2, "log.retention.hours": 1}), 4)
    in_force(configs, (TOPIC, "a", "min.insync.replicas", "3"), (BROKER, "", "message.max.bytes", "999"))
    mine, other = configs.log_config("a"), configs.log_config("b")
    assert (mine.min_insync_replicas, other.min_insync_replicas) == (3, 2)
    assert (mine.max_message_bytes, other.max_message_bytes) == (999, 999)
    assert (mine.retention_ms, other.segment_bytes) == (3_600_000, 1024**3)


def test_a_new_topic_is_made_with_the_configs_of_its_own_image() -> None:
    configs = DynamicConfig(Settings.of({}), 4)
    configs.set_image(configs_of((TOPIC, "a", "retention.ms", "5"), (BROKER, "", "log.retention.bytes", "7")))
    assert (configs.log_config("a").retention_ms, configs.log_config("a").retention_bytes) == (5, -1)
    configs.apply()
    assert configs.log_config("a").retention_bytes == 7


@pytest.mark.parametrize(
    ("resource", "key", "value"),
    [
        ("", "log.retention.bytes", "many"),
        ("", "node.id", "9"),
        ("", "no.such.key", "x"),
        ("", "listeners", "PLAINTEXT://:1"),
    ],
)
def test_invalid_dynamic_configs_are_ignored_and_the_others_apply(resource: str, key: str, value: str) -> None:
    configs = DynamicConfig(Settings.of({"node.id": 4}), 4)
    in_force(configs, (BROKER, resource, key, value), (BROKER, "", "message.max.bytes", "999"))
    assert configs.settings.int("message.max.bytes") == 999
    assert configs.settings.int("node.id") == 4
    assert configs.settings.int("log.retention.bytes") == -1


def test_an_unreadable_topic_config_does_not_keep_a_log_from_being_made() -> None:
    configs = DynamicConfig(Settings.of({}), 4)
    in_force(configs, (TOPIC, "a", "retention.ms", "soon"), (TOPIC, "a", "retention.bytes", "7"))
    made = configs.log_config("a")
    assert (made.retention_ms, made.retention_bytes) == (604_800_000, 7)


def test_subscribers_get_changes_only() -> None:
    reported: list[Any] = []
    configs = DynamicConfig(Settings.of({}), 4)
    configs.subscribe(lambda settings, keys: reported.append((settings.int("max.connections"), sorted(keys))))
    in_force(configs, (BROKER, "4", "max.connections", "10"))
    in_force(configs, (BROKER, "4", "max.connections", "10"), (TOPIC, "a", "retention.ms", "5"))
    assert reported == [(10, ["max.connections"])]


def test_a_replication_throttle_is_described_only_where_it_is_set() -> None:
    key = "leader.replication.throttled.rate"
    configs = DynamicConfig(Settings.of({}), 4)
    assert key not in {each.name for each in broker_entries(configs.layers)}
    in_force(configs, (BROKER, "4", key, "1000"))
    (entry,) = [each for each in broker_entries(configs.layers) if each.name == key]
    assert (entry.value, entry.source, entry.read_only) == ("1000", ConfigSource.DYNAMIC_BROKER_CONFIG, False)


def test_a_mistyped_value_leaves_the_old_one_in_force_and_at_a_start_the_static_one() -> None:
    key = "max.connections.per.ip.overrides"
    configs = DynamicConfig(Settings.of({key: "10.0.0.1:1"}), 4)
    in_force(configs, (BROKER, "", key, "127.0.0.1:5"))
    assert in_force(configs, (BROKER, "", key, "127.0.0.1:5x")) == frozenset()
    assert configs.settings.str(key) == "127.0.0.1:5"
    ((name, value, _, _),) = configs.layers.left_out
    assert (name, value, configs.errors) == (key, "127.0.0.1:5x", 1)

    restarted = DynamicConfig(Settings.of({key: "10.0.0.1:1"}), 4)
    in_force(restarted, (BROKER, "", key, "127.0.0.1:5x"))
    assert restarted.settings.str(key) == "10.0.0.1:1" and restarted.errors == 1
    in_force(restarted)
    assert not restarted.layers.left_out


def test_values_that_break_a_rule_together_are_left_out_together() -> None:
    threads, memory = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
    configs = DynamicConfig(Settings.of({}), 4)
    in_force(configs, (BROKER, "", threads, "2"))
    in_force(configs, (BROKER, "", threads, "2147483647"), (BROKER, "", "log.retention.bytes", "7"))
    assert configs.settings.int(threads) == 2 and configs.settings.int("log.retention.bytes") == 7
    in_force(configs, (BROKER, "", threads, "200"), (BROKER, "", memory, str(1 << 30)))
    assert (configs.settings.int(threads), configs.settings.int(memory)) == (200, 1 << 30)
    in_force(configs, (BROKER, "", threads, "200"))
    assert configs.settings.int(threads) == 1, "without the memory, which was removed, 200 cannot count"
    assert [each.key for each in configs.layers.left_out] == [threads]


def test_a_subscriber_that_fails_costs_only_the_value_it_fails_at() -> None:
    taken: list[tuple[int, int]] = []

    def take(settings: Settings, keys: frozenset[str]) -> None:
        assert settings.int("max.connections") != 13, "a fault of our own"
        taken.append((settings.int("max.connections"), settings.int("message.max.bytes")))

    configs = DynamicConfig(Settings.of({"max.connections": 5}), 4)
    configs.subscribe(take)
    changed = in_force(configs, (BROKER, "", "max.connections", "13"), (BROKER, "", "message.max.bytes", "99"))
    assert changed == {"message.max.bytes"} and taken[-1] == (5, 99)
    assert (configs.settings.int("max.connections"), configs.settings.int("message.max.bytes")) == (5, 99)
    assert [(each.key, each.value) for each in configs.layers.left_out] == [("max.connections", "13")]
    in_force(configs, (BROKER, "", "max.connections", "14"))
    assert configs.settings.int("max.connections") == 14 and not configs.layers.left_out
