"""Settings: values by type, synonyms, overrides, where each came from, and errors that say what was meant."""

import pytest

from kvorum.runtime.config import ConfigError, ConfigSource, Entry, Settings, Source


def test_defaults_exist_without_being_written() -> None:
    settings = Settings.of()
    assert settings.int("socket.request.max.bytes") == 104_857_600
    assert settings.bool("auto.create.topics.enable") is True
    assert settings.float("log.cleaner.min.cleanable.ratio") == 0.5
    assert settings.str("compression.type") == "producer"
    assert settings.list("log.cleanup.policy") == ["delete"]
    assert settings.optional_str("broker.rack") is None
    assert settings.optional_int("num.replica.alter.log.dirs.threads") is None
    assert settings.list("advertised.listeners") == []
    assert settings.explicit() == {}
    assert settings.source("num.partitions").layer is ConfigSource.DEFAULT_CONFIG


def test_plain_values_of_every_kind_can_be_given() -> None:
    settings = Settings.of(
        {
            "node.id": 7,
            "auto.create.topics.enable": False,
            "process.roles": ["broker", "controller"],
            "log.cleaner.min.cleanable.ratio": 0.25,
            "broker.rack": "a",
            "log.dirs": ("/a", "/b"),
            "advertised.listeners": None,
        }
    )
    assert settings.int("node.id") == 7
    assert settings.bool("auto.create.topics.enable") is False
    assert settings.list("process.roles") == ["broker", "controller"]
    assert settings.float("log.cleaner.min.cleanable.ratio") == 0.25
    assert settings.optional_str("broker.rack") == "a"
    assert settings.list("log.dirs") == ["/a", "/b"]
    assert "advertised.listeners" not in settings.explicit()
    assert settings.explicit()["node.id"].text == "7"


# What is written, the key asked for, its outcome, and the key that decided it.
SYNONYMS = [
    ({}, "log.retention.ms", 604_800_000, None),
    ({"log.retention.hours": 2}, "log.retention.ms", 7_200_000, "log.retention.hours"),
    ({"log.retention.hours": 2, "log.retention.minutes": 3}, "log.retention.ms", 180_000, "log.retention.minutes"),
    ({"log.retention.minutes": 3, "log.retention.ms": 4}, "log.retention.ms", 4, "log.retention.ms"),
    ({"log.retention.hours": -1}, "log.retention.ms", -1, "log.retention.hours"),
    ({"log.retention.ms": -1}, "log.retention.ms", -1, "log.retention.ms"),
    ({}, "log.roll.ms", 604_800_000, None),
    ({"log.roll.hours": 1}, "log.roll.ms", 3_600_000, "log.roll.hours"),
    ({"log.roll.hours": 1, "log.roll.ms": 5}, "log.roll.ms", 5, "log.roll.ms"),
    ({}, "log.roll.jitter.ms", 0, None),
    ({"log.roll.jitter.hours": 1}, "log.roll.jitter.ms", 3_600_000, "log.roll.jitter.hours"),
    ({}, "log.flush.interval.ms", 2**63 - 1, None),
    ({"log.flush.scheduler.interval.ms": 9}, "log.flush.interval.ms", 9, "log.flush.scheduler.interval.ms"),
    ({"broker.id": 5}, "node.id", 5, "broker.id"),
    ({"node.id": 6}, "broker.id", 6, "node.id"),
]


@pytest.mark.parametrize(("written", "key", "outcome", "decided"), SYNONYMS)
def test_the_first_synonym_that_is_set_decides(
    written: dict[str, object], key: str, outcome: int, decided: str | None
) -> None:
    settings = Settings(
        {name: Entry(str(value), Source(ConfigSource.STATIC_BROKER_CONFIG, name)) for name, value in written.items()}
    )
    assert settings.int(key) == outcome
    assert settings.source(key).where == (decided or "default")


def test_directories_follow_from_each_other() -> None:
    assert Settings.of().list("log.dirs") == ["/tmp/kafka-logs"]
    assert Settings.of({"log.dir": "/one"}).list("log.dirs") == ["/one"]
    both = Settings.of({"log.dir": "/one", "log.dirs": "/two,/three"})
    assert both.list("log.dirs") == ["/two", "/three"]
    assert both.str("metadata.log.dir") == "/two"
    assert Settings.of({"metadata.log.dir": "/meta", "log.dirs": "/two"}).str("metadata.log.dir") == "/meta"


def test_raw_shows_a_key_as_kafka_describes_it_before_synonyms() -> None:
    settings = Settings.of({"log.retention.hours": 1})
    assert settings.raw("log.retention.ms") is None
    assert settings.raw("log.retention.hours") == "1"
    assert settings.raw("num.partitions") == "1"
    assert settings.raw("log.cleaner.io.max.bytes.per.second") == "1.7976931348623157E308"


def test_overrides_make_new_settings_and_leave_the_old() -> None:
    old = Settings.of({"num.partitions": 3, "broker.rack": "a"})
    dynamic = Source(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "cluster")
    new = old.with_overrides({"num.partitions": 6, "broker.rack": None}, source=dynamic)
    assert (old.int("num.partitions"), old.optional_str("broker.rack")) == (3, "a")
    assert (new.int("num.partitions"), new.optional_str("broker.rack")) == (6, None)
    assert new.source("num.partitions") == dynamic
    assert new.source("broker.rack").layer is ConfigSource.DEFAULT_CONFIG


def test_a_listener_has_its_own_values() -> None:
    settings = Settings.of({"max.connections": 10, "listener.name.internal.max.connections": 3})
    assert settings.for_listener("INTERNAL").int("max.connections") == 3
    assert settings.for_listener("EXTERNAL").int("max.connections") == 10
    assert settings.int("max.connections") == 10
    assert settings.int("listener.name.internal.max.connections") == 3


def test_settings_are_compared_by_their_entries() -> None:
    assert Settings.of({"node.id": 1}) == Settings.of({"node.id": "1"})
    assert hash(Settings.of({"node.id": 1})) == hash(Settings.of({"node.id": "1"}))
    assert Settings.of({"node.id": 1}) != Settings.of({"node.id": 2})


def test_a_list_that_was_handed_out_can_be_changed_without_harm() -> None:
    settings = Settings.of({"log.dirs": "/a"})
    settings.list("log.dirs").append("/b")
    assert settings.list("log.dirs") == ["/a"]


@pytest.mark.parametrize(
    ("accessor", "key"),
    [
        ("int", "no.such.key"),
        ("int", "retention.ms"),
        ("str", "num.partitions"),
        ("int", "compression.type"),
        ("list", "compression.type"),
        ("bool", "num.partitions"),
        ("float", "num.partitions"),
        ("str", "broker.rack"),
        ("source", "no.such.key"),
        ("raw", "no.such.key"),
    ],
)
def test_a_request_for_a_missing_page_is_a_programming_error(accessor: str, key: str) -> None:
    with pytest.raises(AssertionError, match=key):
        getattr(Settings.of(), accessor)(key)


def test_an_invalid_value_is_reported_with_its_position_and_a_suggestion() -> None:
    where = Source(ConfigSource.STATIC_BROKER_CONFIG, "node.properties:12")
    with pytest.raises(ConfigError) as error:
        Settings({"num.partitions": Entry("many", where)})
    assert str(error.value) == "node.properties:12: num.partitions=many: Not a number of type INT (must be at least 1)"
    assert (error.value.key, error.value.text, error.value.where) == ("num.partitions", "many", "node.properties:12")


def test_an_unknown_key_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        Settings.of({"num.partition": 1})


def test_secrets_are_in_no_message_and_no_repr() -> None:
    settings = Settings.of({"ssl.keystore.password": "hunter2", "rsm.config.token": "hunter2", "node.id": 1})
    assert "hunter2" not in repr(settings)
    assert "node.id=1" in repr(settings)
    assert settings.str("ssl.keystore.password") == "hunter2"
