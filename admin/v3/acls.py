"""Permissions: none can be listed or changed, because the cluster has no authorizer; the error is Kafka's."""

from typing import Any

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.v3.links import CLUSTER, cluster_of
from kvorum.admin.v3.requests import CreateAclRequestData, CreateAclRequestDataList
from kvorum.protocol.errors import ErrorCode, KafkaError

PATH = f"{CLUSTER}/acls"
FILTER = {
    "resource_type": "TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or ANY",
    "resource_name": "its name",
    "pattern_type": "LITERAL, PREFIXED, MATCH or ANY",
    "principal": "User:NAME",
    "host": "an address, or *",
    "operation": "READ, WRITE, ... or ANY",
    "permission": "ALLOW, DENY or ANY",
}


async def refuse_acls(call: Call[Any]) -> None:
    """Refuse as Kafka does without an authorizer. Raises KafkaError SECURITY_DISABLED."""
    await cluster_of(call)
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


async def get_kafka_acls(call: Call[NoBody]) -> None:
    """List ACLs: rejected, because the cluster has no authorizer."""
    await refuse_acls(call)


async def create_kafka_acls(call: Call[CreateAclRequestData]) -> None:
    """Create an ACL: rejected, because the cluster has no authorizer."""
    await refuse_acls(call)


async def batch_create_kafka_acls(call: Call[CreateAclRequestDataList]) -> None:
    """Create ACLs: rejected, because the cluster has no authorizer."""
    await refuse_acls(call)


async def delete_kafka_acls(call: Call[NoBody]) -> None:
    """Delete ACLs: rejected, because the cluster has no authorizer."""
    await refuse_acls(call)


OPERATIONS = [
    Operation(method="GET", path=PATH, summary="List ACLs", handle=get_kafka_acls, query=FILTER),
    Operation(
        method="POST",
        path=PATH,
        summary="Create an ACL",
        handle=create_kafka_acls,
        body=CreateAclRequestData,
        status=201,
    ),
    Operation(method="DELETE", path=PATH, summary="Delete ACLs", handle=delete_kafka_acls, query=FILTER),
    Operation(
        method="POST",
        path=f"{PATH}:batch",
        summary="Create ACLs",
        handle=batch_create_kafka_acls,
        body=CreateAclRequestDataList,
        status=201,
    ),
]
