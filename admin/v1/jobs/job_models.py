"""Models of Kafka Connect's requests and responses. Unknown fields of other versions are passed on."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel

from kvorum.admin.v1.models import Strict

Scalar = str | int | float | bool | None
ConnectorName = Annotated[str, Field(min_length=1, max_length=1_000, examples=["numbers"])]
CONFIG_TEXT = "Keys of the plugin, and keys of all connectors such as `connector.class`; all values are strings"


class ConnectModel(BaseModel):
    """A response of Connect, possibly with more fields."""

    model_config = ConfigDict(extra="allow")


class ConnectServer(ConnectModel):
    """The Kafka Connect worker."""

    version: str = Field(description="Version of the interface, as a release of Apache Kafka")
    commit: str
    kafka_cluster_id: str = Field(description="Cluster of the connectors and their state")


class ConnectorTask(ConnectModel):
    """Id of a task."""

    connector: str
    task: int


class ConnectorInfo(ConnectModel):
    """A connector with its config and its tasks."""

    name: str
    config: dict[str, str | None] = Field(
        description="Values that may be secret are hidden, except from the role admin"
    )
    tasks: list[ConnectorTask]
    type: str | None = Field(None, examples=["source", "sink"])


class ConnectorState(ConnectModel):
    """State of a connector or a task."""

    state: str = Field(examples=["RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING"])
    worker_id: str
    trace: str | None = Field(None, description="Reason of the failure")
    version: str | None = None


class TaskState(ConnectorState):
    """State of a task."""

    id: int


class ConnectorStatus(ConnectModel):
    """State of a connector and its tasks."""

    name: str
    connector: ConnectorState
    tasks: list[TaskState]
    type: str | None = None


class ExpandedConnector(ConnectModel):
    """Config and status of a connector."""

    info: ConnectorInfo | None = None
    status: ConnectorStatus | None = None


class Connectors(RootModel[list[str] | dict[str, ExpandedConnector]]):
    """Connector names; with `expand` {name: config and status}."""


class ConnectorCreate(Strict):
    """A connector to create."""

    name: ConnectorName
    config: dict[str, Scalar] = Field(description=CONFIG_TEXT)
    initial_state: str | None = Field(None, examples=["running", "paused", "stopped"])


class ConnectorConfig(RootModel[dict[str, Scalar]]):
    """A connector's complete config. In a PATCH: the changed keys; null removes a key."""


class ConnectorTaskInfo(ConnectModel):
    """A task with its config."""

    id: ConnectorTask
    config: dict[str, str | None]


class ConnectorOffset(ConnectModel):
    """An offset of a connector."""

    partition: dict[str, JsonValue] = Field(examples=[{"kafka_topic": "orders", "kafka_partition": 0}])
    offset: dict[str, JsonValue] | None = Field(examples=[{"kafka_offset": 17}])


class ConnectorOffsets(ConnectModel):
    """The offsets of a connector; of a sink: offsets in topics."""

    offsets: list[ConnectorOffset]


class ConnectorOffsetsAlter(Strict):
    """Offsets from which a connector continues after its next start."""

    offsets: list[ConnectorOffset] = Field(min_length=1)


class ConnectMessage(ConnectModel):
    """Result as text."""

    message: str


class TopicsOfConnector(ConnectModel):
    """Topics that a connector has used."""

    topics: list[str]


class ConnectorTopics(RootModel[dict[str, TopicsOfConnector]]):
    """Topics of connectors, by connector name."""


class ConnectPlugin(ConnectModel):
    """A plugin: a connector, transform or converter."""

    cls: str = Field(alias="class")
    type: str
    version: str | None = None


class ConnectKey(ConnectModel):
    """Definition of a config key."""

    name: str
    type: str
    required: bool
    default_value: str | None = None
    importance: str | None = None
    documentation: str | None = None
    group: str | None = None
    display_name: str | None = None
    order: int | None = None


class ConnectValue(ConnectModel):
    """The value of a config key, or its default, with the errors."""

    name: str
    value: str | None = None
    recommended_values: list[JsonValue] | None = None
    errors: list[str]
    visible: bool | None = None


class ConnectKeyChecked(ConnectModel):
    """A config key with its value."""

    definition: ConnectKey | None = None
    value: ConnectValue


class ConnectChecked(ConnectModel):
    """Result of a config validation, per key."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConnectKeyChecked]


class ConnectPlugins(RootModel[list[ConnectPlugin]]):
    """All plugins."""


class ConnectKeys(RootModel[list[ConnectKey]]):
    """All config keys of a plugin."""


class ConnectorTasks(RootModel[list[ConnectorTaskInfo]]):
    """All tasks of a connector."""


class VisibleConnectorConfig(RootModel[dict[str, str | None]]):
    """A connector's config. Values that may be secret are hidden, except from the role admin."""


class ConnectLoggerLevel(ConnectModel):
    """Level of a logger."""

    level: str | None
    last_modified: int | None = None


class ConnectLoggers(RootModel[dict[str, ConnectLoggerLevel]]):
    """Loggers with a level."""


class ConnectLoggerNames(RootModel[list[str]]):
    """Loggers whose level was set by this request."""


class ConnectLoggerAlter(Strict):
    """The new level of a logger."""

    level: str = Field(examples=["DEBUG"])
