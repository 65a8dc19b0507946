"""Configs of topics, brokers and other resources."""

from dataclasses import dataclass

from kvorum.client.config_sources import Source, source_name
from kvorum.protocol.messages.create_topics import CreatableTopicConfigs
from kvorum.protocol.messages.describe_configs import DescribeConfigsResourceResult
from kvorum.runtime.config_types import ConfigType


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """A config from which a value is inherited."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A config in force, with its source."""

    name: str
    value: str | None
    """None: the value is a secret, or null."""
    source: str
    """Kafka's name (DescribeConfigsResponse.ConfigSource), such as DYNAMIC_TOPIC_CONFIG and DEFAULT_CONFIG."""
    is_read_only: bool
    is_sensitive: bool
    type: str | None
    """Kafka's name, such as LONG; None: the cluster does not return it."""
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]
    """The one in force first."""

    @property
    def is_default(self) -> bool:
        """Return whether it is set nowhere."""
        return self.source == Source.DEFAULT_CONFIG.name


def config_value(row: DescribeConfigsResourceResult) -> Config:
    """Return a config of a DescribeConfigs response."""
    return Config(
        name=row.name,
        value=None if row.is_sensitive else row.value,
        source=source_name(row.config_source),
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        type=ConfigType(row.config_type).name if row.config_type in ConfigType.__members__.values() else None,
        documentation=row.documentation or None,
        synonyms=tuple(
            ConfigSynonym(
                name=each.name,
                value=None if row.is_sensitive else each.value,
                source=source_name(each.source),
            )
            for each in row.synonyms
        ),
    )


def new_topic_config(row: CreatableTopicConfigs) -> Config:
    """Return a config of a new topic, of a CreateTopics response (KIP-525): its only source is the one in force."""
    value, source = None if row.is_sensitive else row.value, source_name(row.config_source)
    return Config(
        name=row.name,
        value=value,
        source=source,
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        type=None,
        documentation=None,
        synonyms=(ConfigSynonym(name=row.name, value=value, source=source),),
    )
