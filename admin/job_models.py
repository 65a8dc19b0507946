"""Jobs as Kafka Connect tells of them, and what it is asked. Fields that other versions have besides are handed on."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel

from kvorum.admin.models import Strict

Scalar = str | int | float | bool | None
ConnectorName = Annotated[str, Field(min_length=1, max_length=1_000, examples=["numbers"])]
CONFIG_TEXT = (
    "By the plugin's keys, beside `connector.class`, `tasks.max` and the rest that all have; all values are text"
)


class Told(BaseModel):
    """What Connect says: it may say more."""

    model_config = ConfigDict(extra="allow")


class ConnectServer(Told):
    """Who answers."""

    version: str = Field(description="Of the interface, by Apache Kafka's releases")
    commit: str
    kafka_cluster_id: str = Field(description="The cluster that its connectors and their state are in")


class ConnectorTask(Told):
    """A task's name."""

    connector: str
    task: int


class ConnectorInfo(Told):
    """A connector, and what it was asked to do."""

    name: str
    config: dict[str, str | None] = Field(description="Without values that may be secret, but for an admin")
    tasks: list[ConnectorTask]
    type: str | None = Field(None, examples=["source", "sink"])


class ConnectorState(Told):
    """How a connector, or one of its tasks, is."""

    state: str = Field(examples=["RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING"])
    worker_id: str
    trace: str | None = Field(None, description="Why it failed")
    version: str | None = None


class TaskState(ConnectorState):
    """How a task is."""

    id: int


class ConnectorStatus(Told):
    """How a connector and its tasks are."""

    name: str
    connector: ConnectorState
    tasks: list[TaskState]
    type: str | None = None


class ExpandedConnector(Told):
    """What was asked for of a connector."""

    info: ConnectorInfo | None = None
    status: ConnectorStatus | None = None


class Connectors(RootModel[list[str] | dict[str, ExpandedConnector]]):
    """Names; or {name: what was asked for of it}, with `expand`."""


class ConnectorCreate(Strict):
    """A connector that is to be."""

    name: ConnectorName
    config: dict[str, Scalar] = Field(description=CONFIG_TEXT)
    initial_state: str | None = Field(None, examples=["running", "paused", "stopped"])


class ConnectorConfig(RootModel[dict[str, Scalar]]):
    """A connector's whole config; in a PATCH what is to be other, null: to be gone."""


class ConnectorTaskInfo(Told):
    """A task with its config."""

    id: ConnectorTask
    config: dict[str, str | None]


class ConnectorOffset(Told):
    """A place that a connector has come to."""

    partition: dict[str, JsonValue] = Field(examples=[{"kafka_topic": "orders", "kafka_partition": 0}])
    offset: dict[str, JsonValue] | None = Field(examples=[{"kafka_offset": 17}])


class ConnectorOffsets(Told):
    """The places a connector has come to; of a sink they are offsets in topics."""

    offsets: list[ConnectorOffset]


class ConnectorOffsetsAlter(Strict):
    """Where a connector is to go on, once it runs again."""

    offsets: list[ConnectorOffset] = Field(min_length=1)


class ConnectMessage(Told):
    """What was done, in words."""

    message: str


class TopicsOfConnector(Told):
    """Topics a connector was seen to use."""

    topics: list[str]


class ConnectorTopics(RootModel[dict[str, TopicsOfConnector]]):
    """The same by the connector's name."""


class ConnectPlugin(Told):
    """What may be configured: a connector, a transform, a converter."""

    cls: str = Field(alias="class")
    type: str
    version: str | None = None


class ConnectKey(Told):
    """A key of a config, and what it is for."""

    name: str
    type: str
    required: bool
    default_value: str | None = None
    importance: str | None = None
    documentation: str | None = None
    group: str | None = None
    display_name: str | None = None
    order: int | None = None


class ConnectValue(Told):
    """A value that was given, or is the default, and what is wrong with it."""

    name: str
    value: str | None = None
    recommended_values: list[JsonValue] | None = None
    errors: list[str]
    visible: bool | None = None


class ConnectKeyChecked(Told):
    """A key with its value."""

    definition: ConnectKey | None = None
    value: ConnectValue


class ConnectChecked(Told):
    """What is wrong with a config, key by key."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConnectKeyChecked]


class ConnectPlugins(RootModel[list[ConnectPlugin]]):
    """All plugins."""


class ConnectKeys(RootModel[list[ConnectKey]]):
    """All keys of a plugin."""


class ConnectorTasks(RootModel[list[ConnectorTaskInfo]]):
    """All tasks of a connector."""


class ConnectorConfigTold(RootModel[dict[str, str | None]]):
    """A connector's config: without values that may be secret, but for an admin."""


class ConnectLoggerLevel(Told):
    """From which level on a logger writes."""

    level: str | None
    last_modified: int | None = None


class ConnectLoggers(RootModel[dict[str, ConnectLoggerLevel]]):
    """Loggers whose level is set."""


class ConnectLoggerNames(RootModel[list[str]]):
    """Loggers whose level was set by this."""


class ConnectLoggerAlter(Strict):
    """Another level."""

    level: str = Field(examples=["DEBUG"])
