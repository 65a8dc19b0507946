"""Where a config's value comes from."""

from enum import IntEnum

from kvorum.protocol.messages.describe_configs import DescribeConfigsResourceResult


class Source(IntEnum):
    """Source of a value (DescribeConfigsResponse.ConfigSource)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


def source_name(number: int) -> str:
    """Return a source's name; a newer one's number."""
    return Source(number).name if number in Source.__members__.values() else str(number)


def topic_overrides(configs: list[DescribeConfigsResourceResult]) -> dict[str, str]:
    """Return the configs that are set on the topic itself."""
    return {
        config.name: config.value or "" for config in configs if config.config_source == Source.DYNAMIC_TOPIC_CONFIG
    }
