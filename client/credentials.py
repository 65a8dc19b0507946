"""SCRAM credentials of the cluster's users, for a node that checks passwords: salts and keys, of any broker.

Brokers give them to clients that authenticated as a node (broker/api/describe_user_scram_credentials).
"""

import asyncio
from collections import OrderedDict
from typing import Final, NamedTuple

from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kvorum.security.credentials import ScramCredential, ScramMechanism
from kvorum.security.passwords import CredentialsUnavailable, UserCredentials

FRESH_SECONDS: Final = 10.0
"""A password that was changed, or a user that was deleted, counts after this time at the latest."""
KEPT_MAX: Final = 1_000
"""Users whose credentials are kept, unknown ones included."""
NAME_CHARS_MAX: Final = 1_000


class _Known(NamedTuple):
    credentials: UserCredentials
    until_s: float


class ClusterCredentials:
    """The credentials of users, requested when needed and kept for a short time."""

    def __init__(self, cluster: ClusterClient) -> None:
        """Request them through this client."""
        self._cluster = cluster
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def find(self, user: str) -> UserCredentials:
        """Return a user's credentials, empty for an unknown user. Raises CredentialsUnavailable.

        While no broker responds, credentials that are known stay valid.
        """
        if not 0 < len(user) <= NAME_CHARS_MAX:
            return {}
        loop = asyncio.get_running_loop()
        known = self._known.get(user)
        if known is not None and loop.time() < known.until_s:
            return known.credentials
        try:
            found = await self._request(user)
        except (KafkaError, Unreachable) as error:
            if known is not None and known.credentials and isinstance(error, Unreachable):
                return known.credentials
            raise CredentialsUnavailable(f"users cannot be checked: {error}") from error
        self._known[user] = _Known(found, loop.time() + FRESH_SECONDS)
        self._known.move_to_end(user)
        while len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)
        return found

    async def _request(self, user: str) -> UserCredentials:
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=user)], include_keys=True)
        answer = await self._cluster.ask(request, DescribeUserScramCredentialsResponse)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), answer.error_message or "")
        found = {}
        for row in answer.results:
            if row.error_code not in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
                raise KafkaError(ErrorCode(row.error_code), row.error_message or "")
            for each in row.credential_infos:
                if not each.stored_key:
                    reason = "the brokers give keys to nodes only; let the listener between brokers authenticate them"
                    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)
                credential = ScramCredential(
                    bytes(each.salt), bytes(each.stored_key), bytes(each.server_key), each.iterations
                )
                found[ScramMechanism(each.mechanism)] = credential
        return found
