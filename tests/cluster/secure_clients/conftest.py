"""The node, the realm and the programs of the clients: one of each per process of pytest."""

from collections.abc import Iterator

import pytest

from tests.cluster.secure_clients.client_programs import ClientPrograms
from tests.cluster.secure_clients.secure_node import USER, SecureNode, secure_node
from tests.unit.security.kerberos_realm import REALM, Realm, missing_tool


@pytest.fixture(scope="session")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm | None]:
    """Return a Kerberos realm with a ticket of the user in its cache, None if it is not possible here."""
    if missing_tool() is not None:
        yield None
        return
    with Realm(tmp_path_factory.mktemp("realm")).started() as realm:
        for name in ("kafka/localhost", USER):
            realm.keytab(name)
        realm.run("kinit", "-k", "-t", str(realm.folder / f"{USER}.keytab"), f"{USER}@{REALM}")
        yield realm


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory, realm: Realm | None) -> Iterator[SecureNode]:
    with secure_node(tmp_path_factory.mktemp("clients"), realm) as found:
        yield found


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> ClientPrograms:
    return ClientPrograms(tmp_path_factory.mktemp("programs"))
