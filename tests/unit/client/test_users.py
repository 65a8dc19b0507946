"""Users and delegation tokens of the public API on a cluster in memory."""

import pytest

from kvorum.client import Cluster, ErrorCode, KafkaError, ScramMechanism, User
from kvorum.security.scram_keys import derive_credential
from tests.unit.admin.managed import ManagedCluster
from tests.unit.client.credentials_kit import NOW_MS
from tests.unit.client.kit import with_api

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def mechanisms(user: User) -> list[tuple[ScramMechanism, int]]:
    return [(each.mechanism, each.iterations) for each in user.credentials]


def test_users_are_created_listed_and_deleted() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        users = cluster.users
        assert await users.list() == []
        await users.upsert("bob", "secret")
        await users.upsert("ann", "secret", mechanism=SHA_256, iterations=8192)
        await users.upsert("bob", "secret", mechanism=SHA_256)
        first, second = await users.list()
        assert (first.name, mechanisms(first)) == ("ann", [(SHA_256, 8192)])
        assert (second.name, mechanisms(second)) == ("bob", [(SHA_256, 4096), (SHA_512, 4096)])
        assert await users.list(["ann"]) == [first] and await users.list([]) == []
        await users.delete("bob", SHA_256)
        assert fake.credentials.users() == {"ann": [1], "bob": [2]}
        await users.upsert("ann", "secret")
        await users.delete("ann")
        assert fake.credentials.users() == {"bob": [2]}
        for work in (users.delete("ann"), users.delete("bob", SHA_256), users.list(["bob", "eve"])):
            with pytest.raises(KafkaError) as caught:
                await work
            assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND

    with_api(run)


def test_a_password_is_salted_at_random_and_never_sent() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        salts = set()
        for _ in range(2):
            await cluster.users.upsert("ann", "pässword")
            (stored,) = fake.credentials.image.scram.of("ann").values()
            salts.add(stored.salt)
            assert stored == derive_credential(SHA_512, "pässword".encode(), stored.salt, 4096)
        assert len(salts) == 2 and all(len(salt) == 20 for salt in salts)

    with_api(run)


@pytest.mark.parametrize("iterations", [0, -1, 4095, 16385])
def test_the_cluster_rejects_iterations(iterations: int) -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        with pytest.raises(KafkaError, match="iterations") as caught:
            await cluster.users.upsert("ann", "secret", iterations=iterations)
        assert caught.value.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
        with pytest.raises(ValueError, match="empty"):
            await cluster.users.upsert("ann", "")

    with_api(run)


def test_tokens_are_created_renewed_and_expired() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        tokens = cluster.tokens
        made = await tokens.create(renewers=["User:bob", "User:x:y"], max_lifetime_ms=5000)
        assert (made.owner, made.requester, made.renewers) == ("User:admin", "User:admin", ("User:bob", "User:x:y"))
        assert (made.issued_at_ms, made.expires_at_ms, made.max_at_ms) == (NOW_MS, NOW_MS + 5000, NOW_MS + 5000)
        assert len(made.hmac) == 64 and len(made.password) == 88 and "hmac" not in repr(made)
        other = await tokens.create(owner="User:ann")
        assert other.owner == "User:ann"
        assert await tokens.describe() == sorted([made, other], key=lambda token: token.token_id)
        assert await tokens.describe(["User:bob"]) == [made] and await tokens.describe([]) == []
        assert await tokens.renew(made.hmac, 1000) == NOW_MS + 1000
        assert await tokens.renew(made.hmac) == NOW_MS + 5000
        assert await tokens.expire(made.hmac, 10) == NOW_MS + 10
        await tokens.expire(made.hmac)
        assert fake.credentials.tokens() == [other.token_id]
        with pytest.raises(KafkaError) as caught:
            await tokens.renew(made.hmac)
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    with_api(run)


@pytest.mark.parametrize("text", ["ann", "", ":ann"])
def test_a_principal_has_a_type(text: str) -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        with pytest.raises(ValueError, match="TYPE:NAME"):
            await cluster.tokens.create(renewers=[text])
        with pytest.raises(ValueError, match="TYPE:NAME"):
            await cluster.tokens.create(owner=text)
        with pytest.raises(ValueError, match="TYPE:NAME"):
            await cluster.tokens.describe([text])

    with_api(run)
