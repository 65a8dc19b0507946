"""`kvorum certs`: a small CA for the TLS of a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from kvorum.cli.output import fail, output_option, show, warn

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from kvorum.security.certificate_folder import CertificateFolder

FOLDER: Final = "certificates"
DAYS_MAX: Final = 36_500
EXPIRING_DAYS: Final = 30
"""A certificate with fewer days left gets a warning."""

folder_option = click.option(
    "-d", "--dir", "folder", default=FOLDER, show_default=True, help="Folder of the CA and its certificates."
)


def days_option(default: int) -> "Callable[[click.decorators.FC], click.decorators.FC]":
    """Add --days."""
    days = click.IntRange(1, DAYS_MAX)
    return click.option("--days", type=days, default=default, show_default=True, help="Days until it expires.")


@contextmanager
def folder_of(path: str) -> "Iterator[CertificateFolder]":
    """Return a folder of certificates; an error ends the command in one line."""
    from kvorum.security.certificate_folder import CertificateFolder
    from kvorum.security.certificates import CertificateError

    try:
        yield CertificateFolder(path)
    except CertificateError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or path}: {error.strerror or error}")


def report(path: object, certificate: "Certificate", verb: str = "wrote") -> None:
    """Print what was written."""
    from kvorum.security.certificate_folder import wall_time
    from kvorum.security.certificates import summarize

    found = summarize(certificate, wall_time())
    hosts = f" for {', '.join(found.hosts)}" if found.hosts else ""
    click.echo(f"{verb} {path}: {found.subject}{hosts}, valid until {found.not_after:%Y-%m-%d}")


@click.group()
def certs() -> None:
    """Make certificates for nodes and clients with a small CA.

    \b
    kvorum certs init
    kvorum certs node node-1 --host kafka-1.example
    kvorum certs client orders-app
    kvorum certs rotate                     all of them, in place: nodes load the new files by themselves
    """


@certs.command()
@folder_option
@click.option("--name", default="Kvorum CA", show_default=True, help="Common name of the CA.")
@days_option(3650)
def init(folder: str, name: str, days: int) -> None:
    """Make a CA: ca.pem, the trust store of all nodes and clients, and ca.key, which stays on this machine.

    \b
    kvorum certs init
    kvorum certs init --dir /etc/kvorum/certificates --name 'Example CA'
    """
    from datetime import timedelta

    with folder_of(folder) as found:
        report(found.trust_store, found.init(name, timedelta(days=days)))
        click.echo(f"the CA's key is {found.authority_key}: keep it secret, and off the nodes")


@certs.command()
@click.argument("name")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("localhost", "127.0.0.1"),
    show_default="localhost, 127.0.0.1",
    help="Host name or address that clients and nodes connect to (advertised.listeners). Repeatable.",
)
@days_option(365)
@folder_option
def node(name: str, hosts: tuple[str, ...], days: int, folder: str) -> None:
    """Write NAME.pem, the key store of a node, whose principal is User:CN=NAME.

    \b
    kvorum certs node node-1 --host kafka-1.example --host 10.0.0.1
    """
    from datetime import timedelta

    from kvorum.security.certificates import Kind

    with folder_of(folder) as found:
        report(found.key_store(name), found.issue(Kind.NODE, name, hosts, timedelta(days=days)))


@certs.command()
@click.argument("name")
@days_option(365)
@folder_option
def client(name: str, days: int, folder: str) -> None:
    """Write NAME.pem, the key store of a client, whose principal is User:CN=NAME.

    \b
    kvorum certs client orders-app --days 90
    """
    from datetime import timedelta

    from kvorum.security.certificates import Kind

    with folder_of(folder) as found:
        report(found.key_store(name), found.issue(Kind.CLIENT, name, lifetime=timedelta(days=days)))


@certs.command()
@click.argument("names", nargs=-1)
@days_option(365)
@folder_option
def rotate(names: tuple[str, ...], days: int, folder: str) -> None:
    """Renew certificates in place, all or those of NAMES: a new key, the same names and hosts.

    Nodes load a replaced file by themselves, within kvorum.ssl.reload.interval.ms. The CA's own certificate is not
    renewed.

    \b
    kvorum certs rotate
    kvorum certs rotate node-1 orders-app --days 90
    """
    from datetime import timedelta

    with folder_of(folder) as found:
        wanted = names or found.names()
        if not wanted:
            fail(f"{folder} has no certificate of a node or client")
        for name in wanted:
            report(found.key_store(name), found.rotate(name, timedelta(days=days)), "renewed")


@certs.command("show")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@folder_option
@output_option
def show_(files: tuple[str, ...], folder: str, output: str) -> None:
    """List the certificates of a folder, or of PEM FILES: names, hosts, issuer, days until they expire.

    \b
    kvorum certs show
    kvorum certs show /etc/kvorum/node-1.pem -o json
    """
    from pathlib import Path

    from kvorum.security.certificate_folder import read_certificates, wall_time
    from kvorum.security.certificates import summarize

    with folder_of(folder) as found:
        paths = list(map(Path, files)) or found.files()
        if not paths:
            fail(f"{folder} has no certificate; make a CA with: kvorum certs init --dir {folder}")
        now = wall_time()
        rows = []
        for path, certificate in read_certificates(paths):
            facts = summarize(certificate, now)
            rows.append(
                {
                    "file": str(path),
                    "subject": facts.subject,
                    "issuer": facts.issuer,
                    "hosts": list(facts.hosts),
                    "expires": f"{facts.not_after:%Y-%m-%d}",
                    "days_left": facts.days_left,
                }
            )
    show(rows, output, titles={"days_left": "DAYS LEFT"})
    for row in rows:
        if int(str(row["days_left"])) < EXPIRING_DAYS:
            warn(f"{row['file']}: {row['subject']} expires on {row['expires']}; renew it with: kvorum certs rotate")
