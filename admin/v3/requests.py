"""Request bodies of Confluent's REST API, except records (record_models.py)."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from kvorum.admin.v1.models import INT32_MAX, REPLICAS_MAX, BrokerId, PartitionId, Strict

CHANGES_MAX = 1_000
"""Configs in one body; Kafka has a few hundred."""
TOPICS_MAX = 1_000
"""Limit of resources in one body: each costs a request to the cluster."""
Name = Annotated[str, Field(min_length=1)]


class ConfigEntryData(Strict):
    """A config of a topic to create."""

    name: Name
    value: str | None = None


class CreateTopicRequestData(Strict):
    """A topic to create. Assignments replace the two counts; omitted counts are the cluster's defaults."""

    topic_name: str
    partitions_count: int | None = Field(None, ge=-INT32_MAX - 1, le=INT32_MAX)
    replication_factor: int | None = Field(None, ge=-REPLICAS_MAX - 1, le=REPLICAS_MAX)
    replicas_assignments: dict[PartitionId, list[BrokerId]] | None = None
    configs: list[ConfigEntryData] | None = Field(None, max_length=CHANGES_MAX)
    validate_only: bool | None = None


class UpdatePartitionCountRequestData(Strict):
    """New total number of partitions."""

    partitions_count: int = Field(ge=-INT32_MAX - 1, le=INT32_MAX)


class UpdateConfigRequestData(Strict):
    """A config's new value."""

    value: str | None = None


class AlterEntry(Strict):
    """One config change."""

    name: Name
    value: str | None = None
    operation: Literal["SET", "DELETE"] | None = Field(None, description="Default: SET")


class AlterConfigBatchRequestData(Strict):
    """Config changes that are applied atomically; `validate_only` validates them only."""

    data: list[AlterEntry] = Field(max_length=CHANGES_MAX)
    validate_only: bool | None = None


class TopicAlterEntry(Strict):
    """Config changes of one topic."""

    topic_name: Name
    configs: list[AlterEntry] = Field(max_length=CHANGES_MAX)


class AlterMultipleTopicsConfigsBatchRequestData(Strict):
    """Config changes of several topics. Changes of one topic are atomic; topics are independent."""

    data: list[TopicAlterEntry] = Field(max_length=TOPICS_MAX)
    validate_only: bool | None = None


class FailureEntry(BaseModel):
    """A topic whose configs were not changed."""

    topic_name: str
    error_code: int
    message: str


class AlterMultipleTopicsConfigsBatchResponse(BaseModel):
    """The topics whose configs were not changed."""

    failures: list[FailureEntry]


class CreateAclRequestData(Strict):
    """An ACL to create."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class CreateAclRequestDataList(Strict):
    """ACLs to create."""

    data: list[CreateAclRequestData] = Field(max_length=CHANGES_MAX)
