"""DescribeUserScramCredentials (50): v0 (KIP-554). Answered from this broker's own metadata.

The answer has mechanisms and iterations. Salts and keys are returned to nodes of the cluster only, which request them
with Kvorum's own tagged field `include_keys`; to all others they do not exist. Without users: all. Order: authorise
(DESCRIBE on the cluster; otherwise the error is the whole answer's), per user: named twice, not found.
"""

from collections import Counter
from collections.abc import Mapping

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kvorum.security.credentials import ScramCredential
from kvorum.security.principal import ANONYMOUS


def handle(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest, broker: Broker
) -> DescribeUserScramCredentialsResponse:
    """Describe the credentials of users."""
    if not broker.authorizer.authorize(ctx, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeUserScramCredentialsResponse(
            throttle_time=broker.throttle(ctx),
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            error_message="Cluster authorization failed.",
        )
    scram = broker.metadata.image.scram
    with_keys = request.include_keys and is_node(ctx, broker)
    named = Counter(user.name for user in request.users or ()) or dict.fromkeys(sorted(scram.users), 1)
    return DescribeUserScramCredentialsResponse(
        throttle_time=broker.throttle(ctx),
        error_message=None,
        results=[described(user, count, scram.of(user), with_keys=with_keys) for user, count in named.items()],
    )


def is_node(ctx: RequestContext, broker: Broker) -> bool:
    """Return whether the client has authenticated as a node of the cluster."""
    may = broker.authorizer.authorize(ctx, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    return may and ctx.principal != ANONYMOUS


def described(
    user: str, count: int, credentials: Mapping[int, ScramCredential], *, with_keys: bool
) -> DescribeUserScramCredentialsResult:
    """Return the row of a user that was named `count` times."""
    try:
        if count > 1:
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
        if not credentials:
            message = f"Attempt to describe a user credential that does not exist: {user}"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
    except KafkaError as error:
        return DescribeUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
    return DescribeUserScramCredentialsResult(
        user=user,
        error_message=None,
        credential_infos=[
            credential_info(mechanism, credentials[mechanism], with_keys=with_keys) for mechanism in sorted(credentials)
        ],
    )


def credential_info(mechanism: int, credential: ScramCredential, *, with_keys: bool) -> CredentialInfo:
    """Return a credential as the response has it."""
    found = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
    if with_keys:
        found.salt, found.stored_key, found.server_key = credential.salt, credential.stored_key, credential.server_key
    return found


HANDLER = BrokerApi(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, handle)
