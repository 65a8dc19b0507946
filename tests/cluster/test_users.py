"""SCRAM users of a running cluster: managed by unmodified clients, there from the first start, and across restarts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kvorum.cli.main import main
from kvorum.client import ErrorCode, KafkaError, SyncCluster
from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.paths import ClusterPaths
from kvorum.cluster.local.plan import plan_of, write_node_configs, write_plan
from kvorum.runtime.cluster_file import load_cluster
from kvorum.runtime.disk import OsDisk
from tests.cluster.clients import eventually
from tests.cluster.nodes import addresses, kill_all, restart

FILE = """
cluster: {name: users}
nodes:
  - {name: controller-1, id: 101, roles: controller, listeners: "CONTROLLER://127.0.0.1:0"}
  - {name: broker-1, id: 1, roles: broker, listeners: "PLAINTEXT://127.0.0.1:0"}
  - {name: broker-2, id: 2, roles: broker, listeners: "PLAINTEXT://127.0.0.1:0"}
"""
SECONDS = 30
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
Described = dict[str, list[tuple[str, int]]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster that was formatted with a user."""
    (tmp_path / "users.yaml").write_text(FILE)
    (tmp_path / "users").write_text("SCRAM-SHA-512=[name=first,password=hunter2-first]\n")
    folder = str(tmp_path / "cluster")
    plan = plan_of(load_cluster(str(tmp_path / "users.yaml"), folder, ()), new_cluster_id())
    found, disk = LocalCluster(ClusterPaths(folder), plan), OsDisk()
    write_node_configs(disk, found.paths, plan)
    write_plan(disk, found.paths, plan)
    for node in plan.nodes:
        paths = found.node(node.name)
        words = ["format", paths.config, "--cluster-id", plan.cluster_id, "--dir", paths.folder]
        result = CliRunner().invoke(main, [*words, "--add-scram", f"@{tmp_path}/users"])
        assert result.exit_code == 0, result.output
        assert ("has no effect" in result.output) == ("broker" in node.roles)
    try:
        restart(found)
        yield found
    finally:
        for node in plan.nodes:
            found.kill(node.name)


def described(bootstrap: str) -> Described:
    """Return what confluent-kafka describes: {user: [(mechanism, iterations)]}."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    found = client.describe_user_scram_credentials().result(SECONDS)
    return {
        user: sorted((info.mechanism.name, info.iterations) for info in each.scram_credential_infos)
        for user, each in found.items()
    }


def alter(bootstrap: str, *alterations: Any) -> dict[str, str | None]:
    """Alter with confluent-kafka; return {user: name of the error}."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    futures = client.alter_user_scram_credentials(list(alterations))
    outcomes: dict[str, str | None] = {}
    for user, future in futures.items():
        try:
            future.result(SECONDS)
            outcomes[user] = None
        except KafkaException as error:
            outcomes[user] = error.args[0].name()
    return outcomes


def upsert(user: str, mechanism: Any, iterations: int = 8192) -> UserScramCredentialUpsertion:
    return UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, iterations), b"hunter2-" + user.encode())


def test_unmodified_clients_manage_users_that_outlive_restarts(cluster: LocalCluster) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import ScramMechanism as MechanismOfKafkaPython
    from kafka.admin import UserScramCredentialUpsertion as UpsertionOfKafkaPython

    first, second = addresses(cluster).values()
    assert described(first) == {"first": [("SCRAM_SHA_512", 4096)]}, "there from the first start"
    assert alter(first, upsert("ann", SHA_256), upsert("bob", SHA_512)) == {"ann": None, "bob": None}
    assert alter(first, upsert("ann", SHA_512, 100)) == {"ann": "UNACCEPTABLE_CREDENTIAL"}
    assert alter(first, UserScramCredentialDeletion("eve", SHA_256)) == {"eve": "RESOURCE_NOT_FOUND"}
    many = [upsert(f"user-{number}", SHA_256) for number in range(12)]
    assert set(alter(first, *many).values()) == {None}
    gone = [UserScramCredentialDeletion("first", SHA_512), UserScramCredentialDeletion("bob", SHA_512)]
    gone += [UserScramCredentialDeletion(f"user-{number}", SHA_256) for number in range(12)]
    assert set(alter(second, *gone).values()) == {None}
    left: Described = {"ann": [("SCRAM_SHA_256", 8192)]}
    assert described(second) == left
    eventually(lambda: described(first) == left, "both brokers know it")

    client = KafkaAdminClient(bootstrap_servers=first)
    try:
        kim = UpsertionOfKafkaPython("kim", MechanismOfKafkaPython.SCRAM_SHA_512, "hunter2-kim", iterations=4096)
        assert client.alter_user_scram_credentials([kim]) == {"kim": None}
        found = client.describe_user_scram_credentials(["kim", "eve"])
        assert [info["iterations"] for info in found["kim"]["credential_infos"]] == [4096]
        assert found["eve"]["error"] == "Attempt to describe a user credential that does not exist: eve"
    finally:
        client.close()
    left["kim"] = [("SCRAM_SHA_512", 4096)]

    assert cluster.stop() == []
    restart(cluster)
    assert described(first) == left, "deleted users do not come back, others do not go"
    kill_all(cluster)
    restart(cluster)
    eventually(lambda: described(first) == described(second) == left, "the same after kill -9")
    assert "hunter2" not in "".join(
        path.read_text(errors="replace") for path in Path(cluster.paths.folder).rglob("*.log")
    )


def test_tokens_are_refused_over_plaintext(cluster: LocalCluster) -> None:
    with SyncCluster.connect(cluster.plan.bootstrap) as client:
        for work in (client.tokens.create, client.tokens.describe, lambda: client.tokens.renew(b"x")):
            with pytest.raises(KafkaError) as caught:
                work()
            assert caught.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
