"""`kvorum users create`: the password is typed or read from a file, so that it is not in the list of processes."""

import sys
from typing import TYPE_CHECKING

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@click.command("create")
@click.argument("user")
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS),
    multiple=True,
    default=("SCRAM-SHA-512",),
    show_default=True,
    help="SASL mechanism. Repeatable.",
)
@click.option("--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True)
@click.option("--password-file", metavar="FILE", help="File whose first line is the password; - for standard input.")
@bootstrap_option
def create(user: str, mechanisms: tuple[str, ...], iterations: int, password_file: str | None, bootstrap: str) -> None:
    """Create a user, or change its password. Without --password-file the password is prompted for.

    \b
    kvorum users create alice
    kvorum users create alice --password-file alice.password --mechanism SCRAM-SHA-256
    """
    password = read_password(password_file)

    async def work(cluster: "ClusterClient") -> None:
        from kvorum.client.namespaces.users import Users
        from kvorum.security.credentials import ScramMechanism

        for each in ScramMechanism:
            if each.mechanism_name in mechanisms:
                await Users(cluster).upsert(user, password, mechanism=each, iterations=iterations)

    with_cluster(bootstrap, work)
    say(f"{user} created")


def read_password(path: str | None) -> str:
    """Return the password of a file, or prompt for it; an error ends the command."""
    if path is None:
        if not sys.stdin.isatty():
            raise click.UsageError("standard input is not a terminal: give --password-file (- for standard input)")
        password = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        try:
            with click.open_file(path, encoding="utf-8") as file:
                password = file.readline().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            fail(f"--password-file: {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}")
    if not password:
        raise click.UsageError("the password is empty")
    return password
