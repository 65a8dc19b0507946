"""Models of configs in Confluent's REST API."""

from typing import Literal

from pydantic import BaseModel

from kvorum.admin.v3.models import Collection, ResourceMetadata


class ConfigSynonymData(BaseModel):
    """A source of a config's value, in order of precedence."""

    name: str
    value: str | None
    source: str


class ConfigData(BaseModel):
    """Common fields of all configs."""

    metadata: ResourceMetadata
    cluster_id: str
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[ConfigSynonymData]


class TopicConfigData(ConfigData):
    """A topic's config."""

    kind: Literal["KafkaTopicConfig"] = "KafkaTopicConfig"
    topic_name: str


class TopicConfigDataList(Collection):
    """Configs of topics."""

    kind: Literal["KafkaTopicConfigList"] = "KafkaTopicConfigList"
    data: list[TopicConfigData]


class BrokerConfigData(ConfigData):
    """A broker's config."""

    kind: Literal["KafkaBrokerConfig"] = "KafkaBrokerConfig"
    broker_id: int


class BrokerConfigDataList(Collection):
    """Configs of brokers."""

    kind: Literal["KafkaBrokerConfigList"] = "KafkaBrokerConfigList"
    data: list[BrokerConfigData]


class ClusterConfigData(ConfigData):
    """A dynamic config of all brokers."""

    kind: Literal["KafkaClusterConfig"] = "KafkaClusterConfig"
    config_type: Literal["BROKER"] = "BROKER"


class ClusterConfigDataList(Collection):
    """Dynamic configs of all brokers."""

    kind: Literal["KafkaClusterConfigList"] = "KafkaClusterConfigList"
    data: list[ClusterConfigData]
