"""Models of Confluent's REST API: errors, links, the cluster and brokers; names and kinds are defined by that API."""

from typing import Literal

from pydantic import BaseModel, Field


class ErrorResponse(BaseModel):
    """An error (format of /v3)."""

    error_code: int = Field(examples=[40403])
    message: str


class Relationship(BaseModel):
    """Link to a related resource."""

    related: str


class ResourceMetadata(BaseModel):
    """Link and name of a resource."""

    self: str
    resource_name: str | None = Field(examples=["crn:///kafka=CLUSTER/topic=orders"])


class CollectionMetadata(BaseModel):
    """Links of a list. There is never a next page."""

    self: str
    next: None = None


class Resource(BaseModel):
    """A resource with its links."""

    kind: str
    metadata: ResourceMetadata
    cluster_id: str


class Collection(BaseModel):
    """A list of resources."""

    kind: str
    metadata: CollectionMetadata


class ClusterData(Resource):
    """A cluster."""

    kind: Literal["KafkaCluster"] = "KafkaCluster"
    controller: Relationship | None
    acls: Relationship
    brokers: Relationship
    broker_configs: Relationship
    consumer_groups: Relationship
    topics: Relationship
    partition_reassignments: Relationship


class ClusterDataList(Collection):
    """The cluster of this server."""

    kind: Literal["KafkaClusterList"] = "KafkaClusterList"
    data: list[ClusterData]


class BrokerData(Resource):
    """A broker."""

    kind: Literal["KafkaBroker"] = "KafkaBroker"
    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    configs: Relationship
    partition_replicas: Relationship


class BrokerDataList(Collection):
    """Brokers."""

    kind: Literal["KafkaBrokerList"] = "KafkaBrokerList"
    data: list[BrokerData]
