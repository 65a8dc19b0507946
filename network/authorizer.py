"""Permission checks of principals.

Every handler calls an Authorizer, and a Quotas for the throttle time.

Codes are those on the wire and in ACL records (org.apache.kafka.common.acl.AclOperation, resource.ResourceType,
resource.PatternType).
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, Protocol

from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.security.principal import Principal

CLUSTER_NAME = "kafka-cluster"
"""The one resource of type CLUSTER (Kafka's Resource.CLUSTER_NAME)."""
UNKNOWN_OPERATIONS = -(1 << 31)
"""Value of `*_authorized_operations` fields if they are not requested."""


class Operation(IntEnum):
    """Operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """Type of a resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Pattern types of resources in ACLs."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


_DESCRIBE_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE),
            *(Operation.ALTER, *_DESCRIBE_CONFIGS),
        ),
        ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE, *_DESCRIBE_CONFIGS),
        ResourceType.CLUSTER: (
            *(Operation.CREATE, Operation.CLUSTER_ACTION, *_DESCRIBE_CONFIGS),
            *(Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE),
        ),
        ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
        ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
        ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
    }
)
"""Supported operations of each (Kafka's AclEntry.supportedOperations), for the authorized-operations fields."""


class Authorizer(Protocol):
    """Decides from memory, because it is called several times per request."""

    @property
    def version(self) -> int:
        """Changes with every change of the permissions, so that cached decisions are renewed (fetch sessions)."""
        ...

    def authorize(
        self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Return whether the request's principal is permitted this operation."""
        ...


class AllowAll:
    """No authorizer is configured: all operations are permitted, as in Kafka."""

    __slots__ = ()
    version = 0

    def authorize(
        self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """See Authorizer."""
        return True


class ClusterPrincipals:
    """Permits what nodes do among themselves to the cluster's own principals, and all else to everyone.

    For a cluster without an authorizer. A listener without authentication cannot tell nodes from clients: everything is
    permitted there.
    """

    __slots__ = ("_principals",)
    version = 0

    def __init__(self, principals: Mapping[str, frozenset[Principal]]) -> None:
        """`principals` are the cluster's, by listener; listeners without authentication are left out."""
        self._principals = principals

    def authorize(
        self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """See Authorizer."""
        # A marker ends a transaction of any producer, so the right to alter the cluster is not enough for it.
        if operation is not Operation.CLUSTER_ACTION and ctx.api_key != ApiKey.WRITE_TXN_MARKERS:
            return True
        principals = self._principals.get(ctx.listener)
        return principals is None or ctx.principal in principals


def authorized_operations(
    authorizer: Authorizer, ctx: RequestContext, resource_type: ResourceType, resource_name: str
) -> int:
    """Return the bit set of an authorized-operations field (KIP-430)."""
    bits = 0
    for operation in OPERATIONS[resource_type]:
        if authorizer.authorize(ctx, operation, resource_type, resource_name):
            bits |= 1 << operation
    return bits


class Quotas(Protocol):
    """Throttle time of a client; responses contain it, the connection enforces it (KIP-219)."""

    enabled: bool
    """Whether any client has a quota. Otherwise no other method is called."""

    timed: bool
    """Whether the time of requests is counted: batch handlers then handle each one alone."""

    def throttle_ms(self, ctx: RequestContext, *, produced: int = 0, exempt: bool = False) -> int:
        """Record a request and the bytes it produced; return the throttle time in ms.

        `exempt`: its own time does not count (acks=0).
        """
        ...

    def fetch_throttle_ms(self, ctx: RequestContext, fetched: int) -> int:
        """Record a consumer's fetch and its bytes; return the throttle time: if it is above 0, send no records."""
        ...

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        """Return the maximum size of a fetch: a larger one would exceed the quota at any time, and never pass."""
        ...

    def times(self, ctx: RequestContext) -> bool:
        """Return whether the time of this client's requests is counted: then it is served one request at a time."""
        ...


class NoQuotas:
    """No throttling."""

    __slots__ = ()
    enabled = False
    timed = False

    def throttle_ms(self, ctx: RequestContext, *, produced: int = 0, exempt: bool = False) -> int:
        """See Quotas."""
        return 0

    def fetch_throttle_ms(self, ctx: RequestContext, fetched: int) -> int:
        """See Quotas."""
        return 0

    def fetch_bytes_max(self, ctx: RequestContext) -> int:
        """See Quotas."""
        return (1 << 31) - 1

    def times(self, ctx: RequestContext) -> bool:
        """See Quotas."""
        return False


class MutationQuota(Protocol):
    """Quota of partitions created or removed by a request (KIP-599)."""

    def record(self, count: int) -> None:
        """Record a change before it is made. Raises KafkaError THROTTLING_QUOTA_EXCEEDED: it is rejected now."""
        ...

    def throttle_ms(self) -> int:
        """Return for how long the client is to change nothing, from now on."""
        ...
