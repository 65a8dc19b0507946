"""Users with SCRAM credentials: list, create, change passwords, delete (KIP-554).

Source: Kafka's Admin.describeUserScramCredentials, alterUserScramCredentials.
"""

import asyncio
from collections.abc import Iterable, Sequence

from kvorum.client.values.user import User, user_value
from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kvorum.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kvorum.runtime import blocking
from kvorum.runtime.chance import random_bytes
from kvorum.security.credentials import ITERATIONS_MIN, ScramMechanism
from kvorum.security.scram_keys import SALT_BYTES, salted_password


class Users:
    """Users with SCRAM credentials. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def list(self, names: Iterable[str] | None = None) -> Sequence[User]:
        """Return users by name; without `names` all. Raises KafkaError RESOURCE_NOT_FOUND: no such user."""
        wanted = None if names is None else [UserName(name=name) for name in names]
        if wanted == []:
            return []  # an empty list in the request means all
        request = DescribeUserScramCredentialsRequest(users=wanted)
        answer = await self._client.ask(request, DescribeUserScramCredentialsResponse)
        refuse(answer.error_code, answer.error_message)
        for row in answer.results:
            refuse(row.error_code, row.error_message)
        return sorted(map(user_value, answer.results), key=lambda user: user.name)

    async def upsert(
        self,
        name: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512,
        iterations: int = ITERATIONS_MIN,
    ) -> None:
        """Create a user, or replace its password for a mechanism; that of another mechanism is unchanged.

        The password is salted here, and never sent. Raises ValueError if it is empty, KafkaError
        UNACCEPTABLE_CREDENTIAL for iterations outside 4096 to 16384.
        """
        if not password:
            raise ValueError("the password must not be empty")
        salt, salted = random_bytes(SALT_BYTES), b""
        if iterations > 0:  # else the cluster rejects them
            loop = asyncio.get_running_loop()
            salted = await blocking.run(loop, salted_password, mechanism, password.encode(), salt, iterations)
        upsertion = ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
        )
        await self._alter(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    async def delete(self, name: str, mechanism: ScramMechanism | None = None) -> None:
        """Delete the credential of a mechanism, or the user with all its credentials.

        Raises KafkaError RESOURCE_NOT_FOUND: there is none.
        """
        mechanisms = [mechanism]
        if mechanism is None:
            (user,) = await self.list([name])
            mechanisms = [each.mechanism for each in user.credentials]
        for each in mechanisms:  # the cluster takes one mechanism of a user per request
            assert each is not None
            deletion = ScramCredentialDeletion(name=name, mechanism=each)
            await self._alter(AlterUserScramCredentialsRequest(deletions=[deletion]))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        answer = await self._client.ask(request, AlterUserScramCredentialsResponse)
        for row in answer.results:
            refuse(row.error_code, row.error_message)
