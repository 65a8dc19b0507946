"""Topics in Kubernetes format: Strimzi's KafkaTopic, in JSON or YAML, with its status. Sans-IO.

    apiVersion: kafka.strimzi.io/v1
    kind: KafkaTopic
    metadata: {name: orders}
    spec: {partitions: 6, replicas: 3, config: {retention.ms: 604800000}}

Fields that do not concern the topic (namespace, labels, an old status) are ignored. Source: Strimzi's KafkaTopicSpec,
KafkaTopicStatus, and its topic operator's reading of config values.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvorum.admin.http import yaml_texts
from kvorum.admin.http.parameters import BadInput
from kvorum.admin.v1.models import PARTITIONS_MAX, REPLICAS_MAX, Strict, TopicApplied, TopicName, TopicSpec

YAML_BYTES_MAX: Final = 64 * 1024
"""A topic has some forty configs; to read YAML takes long."""
MANAGED: Final = "strimzi.io/managed"
PAUSED: Final = "strimzi.io/pause-reconciliation"
Scalar = str | int | float | bool
ConfigValue = Scalar | list[Scalar] | None


class Metadata(BaseModel):
    """Metadata of the resource; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")
    name: str = Field(min_length=1, max_length=253)
    generation: int | None = None
    annotations: dict[str, str] | None = Field(None, examples=[{MANAGED: "true"}])


class KafkaTopicSpec(Strict):
    """Desired state of a topic. Omitted fields have the cluster's defaults."""

    topicName: TopicName | None = Field(None, description="Default: the name of the resource")
    partitions: int | None = Field(None, ge=1, le=PARTITIONS_MAX)
    replicas: int | None = Field(None, ge=1, le=REPLICAS_MAX)
    config: dict[str, ConfigValue] | None = Field(None, examples=[{"retention.ms": 604_800_000}])


class KafkaTopic(BaseModel):
    """Strimzi's KafkaTopic, limited to the fields that describe a topic."""

    PLACES: ClassVar[Mapping[str, str]] = {
        "partitions": "spec.partitions",
        "replication_factor": "spec.replicas",
        "configs": "spec.config",
    }
    """{field of a plain body: path in the document}, for errors that name a field."""

    model_config = ConfigDict(extra="ignore")
    apiVersion: str = Field(examples=["kafka.strimzi.io/v1"])
    kind: Literal["KafkaTopic"]
    metadata: Metadata
    spec: KafkaTopicSpec = KafkaTopicSpec(topicName=None, partitions=None, replicas=None, config=None)

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.spec.topicName or self.metadata.name

    @property
    def configs(self) -> dict[str, str]:
        """The configs as Kafka's requests have them."""
        given = self.spec.config or {}
        return {name: text_of(value) for name, value in given.items() if value is not None}

    @property
    def pause_condition(self) -> Literal["Unmanaged", "ReconciliationPaused"] | None:
        """The condition under which the document is ignored, None if it is applied."""
        annotations = self.metadata.annotations or {}
        if annotations.get(MANAGED) == "false":
            return "Unmanaged"
        return "ReconciliationPaused" if annotations.get(PAUSED) == "true" else None

    def plain(self) -> TopicSpec:
        """Return it as a plain body without the replication factor, which takes time to change."""
        return TopicSpec(partitions=self.spec.partitions, replication_factor=None, configs=self.configs)


class Condition(BaseModel):
    """A condition of the topic. A rejected request returns a problem instead of a status."""

    type: Literal["Ready", "Unmanaged", "ReconciliationPaused"]
    status: Literal["True"]
    lastTransitionTime: str = Field(description="Time of this request; earlier transitions are not stored")


class ReplicasChange(BaseModel):
    """A change of the replication factor in progress."""

    targetReplicas: int
    state: Literal["ongoing"]


class KafkaTopicStatus(BaseModel):
    """Status of the resource, with the field names of Kubernetes."""

    conditions: list[Condition]
    observedGeneration: int | None
    topicName: str
    topicId: str | None = Field(description="null: the metadata of the queried broker does not include the topic yet")
    replicasChange: ReplicasChange | None = None


class TopicBrought(TopicApplied):
    """Changes made by the request, empty if none; with a status if the body was a KafkaTopic."""

    status: KafkaTopicStatus | None = None


def text_of(value: Scalar | list[Scalar]) -> str:
    """Return a config's value as Kafka's requests have it: lists with commas between, as Strimzi writes them."""
    if isinstance(value, list):
        return ",".join(text_of(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_json(data: bytes) -> BaseModel:
    """Return a plain body, or a document if it is declared as one. Raises ValidationError."""
    try:
        return TopicSpec.model_validate_json(data)
    except ValidationError as error:
        unknown = {each["loc"][0] for each in error.errors() if each["type"] == "extra_forbidden"}
        if not unknown & {"kind", "apiVersion"}:
            raise
    return KafkaTopic.model_validate_json(data)


def read_yaml(data: bytes) -> BaseModel:
    """Return a document. Raises BadInput, ValidationError."""
    if len(data) > YAML_BYTES_MAX:
        raise BadInput("body", f"the YAML is larger than {YAML_BYTES_MAX} bytes")
    try:
        found = yaml_texts.read(data)
    except yaml_texts.BadYaml as error:
        raise BadInput("body", str(error)) from error
    if not isinstance(found, dict):
        raise BadInput("kind", "expected a KafkaTopic: apiVersion, kind, metadata, spec")
    return KafkaTopic.model_validate(found)
