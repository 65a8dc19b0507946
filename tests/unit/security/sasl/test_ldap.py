"""The example of docs/examples that checks passwords with a directory, against slapd."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.security.incoming import password_verifier
from kvorum.security.settings import ListenerSettings
from tests.unit.network.network_kit import run

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
SBIN = "/usr/sbin"
START_SECONDS = 30.0
CONFIG = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_ldif
pidfile FOLDER/pid
database ldif
suffix "dc=example"
directory FOLDER/data
access to attrs=userPassword by anonymous auth
access to * by * read
"""
ENTRIES = """\
dn: dc=example
objectClass: dcObject
objectClass: organization
dc: example
o: example

dn: ou=people,dc=example
objectClass: organizationalUnit
ou: people

dn: uid=alice\\2Cadmin,ou=people,dc=example
objectClass: inetOrgPerson
uid: alice,admin
cn: alice
sn: alice
userPassword: alice-secret
"""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Run slapd with one user; return its port."""
    slapd, slapadd = (shutil.which(name, path=SBIN) for name in ("slapd", "slapadd"))
    if slapd is None or slapadd is None:
        pytest.skip("missing tool: slapd (Debian: slapd); run outside CI: needs slapd")
    (tmp_path / "data").mkdir()
    config = tmp_path / "slapd.conf"
    config.write_text(CONFIG.replace("FOLDER", str(tmp_path)))
    subprocess.run([slapadd, "-f", config], input=ENTRIES, text=True, check=True, capture_output=True)
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        found = int(probe.getsockname()[1])
    process = subprocess.Popen(
        [slapd, "-d", "0", "-f", config, "-h", f"ldap://127.0.0.1:{found}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(found, process)
        yield found
    finally:
        process.terminate()
        process.wait(10)


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the port accepts connections."""
    end_s = time.monotonic() + START_SECONDS
    while time.monotonic() < end_s:
        assert process.poll() is None, f"slapd ended with code {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("slapd does not start")


def test_the_example_checks_passwords_with_a_directory(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ldap3", reason="not installed: ldap3")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "ldap_verifier", raising=False)
    monkeypatch.setenv("LDAP_URL", f"ldap://127.0.0.1:{port}")
    monkeypatch.setenv("LDAP_USER_DN", "uid={},ou=people,dc=example")
    settings = Settings.of({"listener.name.client.plain.kvorum.sasl.plain.verifier": "ldap_verifier:check"})
    verify = password_verifier(ListenerSettings(settings, "CLIENT", SecurityProtocol.SASL_SSL))

    async def main() -> None:
        assert await verify("alice,admin", "alice-secret"), "the comma is escaped"
        assert not await verify("alice,admin", "wrong")
        assert not await verify("nobody", "alice-secret")
        assert not await verify("alice,admin", "")
        assert not await verify("alice\\2Cadmin,ou=people", "alice-secret"), "a name is no part of a DN"

    run(main)
