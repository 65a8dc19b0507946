"""A certificate authority of a test, and the files of certificates that it issues."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from kvorum.runtime.chance import random_bytes
from kvorum.security.certificates import Kind, certificates_pem, issue, key_and_chain, new_authority, serial_number

HOSTS = ("localhost", "127.0.0.1")
LIFETIME = timedelta(days=30)


class Authority:
    """A CA whose certificates are in files of one folder: `ca.pem`, and FILE.pem with key and chain."""

    def __init__(self, folder: Path, name: str = "test-ca", lifetime: timedelta = LIFETIME) -> None:
        """Make a CA."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "ca.pem"
        self._authority = new_authority(
            name, now=datetime.now(UTC), serial=serial_number(random_bytes), lifetime=lifetime
        )
        self.file.write_bytes(certificates_pem(self._authority.chain))

    def issue(
        self,
        name: str,
        file: str | None = None,
        lifetime: timedelta = LIFETIME,
        hosts: tuple[str, ...] = HOSTS,
        age: timedelta = timedelta(0),
    ) -> Path:
        """Issue a certificate with a common name for this machine; a present file is replaced at once."""
        now, serial = datetime.now(UTC) - age, serial_number(random_bytes)
        issued = issue(self._authority, Kind.NODE, name, hosts, now=now, serial=serial, lifetime=lifetime)
        path = self.folder / f"{file or name}.pem"
        part = path.with_suffix(".part")
        part.write_bytes(key_and_chain(issued))
        return part.replace(path)
