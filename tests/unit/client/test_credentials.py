"""Credentials of users for a node that checks passwords: requested of a broker, kept for a moment."""

import asyncio
from typing import Any

import pytest

from kvorum.client import credentials as module
from kvorum.client.credentials import ClusterCredentials
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kvorum.security.credentials import ScramCredential, ScramMechanism
from kvorum.security.passwords import CredentialsUnavailable


class Cluster:
    """Brokers that give keys to this client, unless told otherwise."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.is_reachable = self.gives_keys = True
        self.code = ErrorCode.NONE

    async def ask(self, request: DescribeUserScramCredentialsRequest, response: type) -> Any:
        if not self.is_reachable:
            raise Unreachable("127.0.0.1:1 refused")
        assert request.users is not None and request.include_keys
        (user,) = request.users
        self.requested.append(user.name)
        row = DescribeUserScramCredentialsResult(user=user.name, error_code=ErrorCode.RESOURCE_NOT_FOUND)
        if user.name == "alice":
            keys = {"salt": b"s", "stored_key": b"k", "server_key": b"v"} if self.gives_keys else {}
            row = DescribeUserScramCredentialsResult(
                user=user.name, credential_infos=[CredentialInfo(mechanism=2, iterations=4096, **keys)]
            )
        return DescribeUserScramCredentialsResponse(error_code=self.code, results=[row])


def finding(cluster: Cluster) -> ClusterCredentials:
    return ClusterCredentials(cluster)  # type: ignore[arg-type]  # only `ask` is used


ALICE = {ScramMechanism.SCRAM_SHA_512: ScramCredential(b"s", b"k", b"v", 4096)}


def test_credentials_are_requested_once_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()

    async def main() -> None:
        known = finding(cluster)
        assert [await known.find("alice") for _ in range(2)] == [ALICE, ALICE]
        assert [await known.find("mallory") for _ in range(2)] == [{}, {}]
        assert await known.find("") == await known.find("x" * 2_000) == {}
        assert cluster.requested == ["alice", "mallory"]
        monkeypatch.setattr(module, "FRESH_SECONDS", -1.0)
        await known.find("bob")
        await known.find("bob")
        assert cluster.requested == ["alice", "mallory", "bob", "bob"]

    asyncio.run(main())


def test_known_credentials_stay_valid_while_no_broker_responds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH_SECONDS", -1.0)
    cluster = Cluster()

    async def main() -> None:
        known = finding(cluster)
        await known.find("alice")
        await known.find("mallory")
        cluster.is_reachable = False
        assert await known.find("alice") == ALICE
        for user in ("mallory", "bob"):
            with pytest.raises(CredentialsUnavailable, match="refused"):
                await known.find(user)

    asyncio.run(main())


def test_a_client_that_is_no_node_gets_a_reason() -> None:
    cluster = Cluster()
    cluster.gives_keys = False
    with pytest.raises(CredentialsUnavailable, match="to nodes only"):
        asyncio.run(finding(cluster).find("alice"))
    cluster.code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(CredentialsUnavailable, match="CLUSTER_AUTHORIZATION_FAILED"):
        asyncio.run(finding(cluster).find("alice"))


def test_the_number_of_kept_users_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 2)

    async def main() -> None:
        known = finding(Cluster())
        for number in range(5):
            await known.find(f"user-{number}")
        assert len(known._known) == 2

    asyncio.run(main())
