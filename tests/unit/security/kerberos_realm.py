"""A Kerberos realm for tests: one KDC process with keytabs, in a folder."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

REALM = "KVORUM.TEST"
TOOLS = ("kdb5_util", "krb5kdc", "kadmin.local", "kinit")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


def missing_tool() -> str | None:
    """Return the reason why a realm is not possible here, None if it is."""
    try:
        import gssapi  # noqa: F401
    except ImportError:
        return "missing tool: gssapi (pip install 'kvorum[kerberos]' builds it with libkrb5-dev)"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]
    return f"missing tool: {missing[0]} (krb5-kdc, krb5-admin-server, krb5-user)" if missing else None


class Realm:
    """A running KDC."""

    def __init__(self, folder: Path) -> None:
        """Make database and configuration."""
        self.folder = folder
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        found = shutil.which("krb5kdc", path=PATH)
        assert found is not None, "missing_tool says so"
        # Beside the program, so that an unpacked one works as well as an installed one.
        modules = next(Path(found).parent.parent.glob("lib/*/krb5/plugins/kdb"))
        config, kdc = folder / "krb5.conf", folder / "kdc.conf"
        config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
        )
        kdc.write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n[realms]\n {REALM} = {{\n'
            f"  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n  acl_file = {folder}/acl\n }}\n"
            f"[dbmodules]\n db_module_dir = {modules}\n"
        )
        self.environment = os.environ | {
            "KRB5_CONFIG": str(config),
            "KRB5_KDC_PROFILE": str(kdc),
            "KRB5CCNAME": f"FILE:{folder}/cache",
            "KRB5RCACHENAME": "none:",
            "PATH": PATH,
        }
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    def run(self, *command: str) -> None:
        """Run a tool of the realm."""
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=30)

    def keytab(self, principal: str) -> str:
        """Make a principal; return its keytab."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        self.run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), principal)
        return str(path)

    @contextmanager
    def started(self) -> Iterator["Realm"]:
        """Run the KDC."""
        process = subprocess.Popen(
            ["krb5kdc", "-n", "-r", REALM],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield self
        finally:
            process.terminate()
            process.wait(10)
