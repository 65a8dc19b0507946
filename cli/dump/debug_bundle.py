"""`kvorum debug-bundle`: what GET /v1/debug-bundle answers, without an admin process."""

import json
import ssl
import zipfile
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, warn

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient


EXISTING = click.Path(exists=True, dir_okay=False)


@click.command("debug-bundle")
@click.option(
    "--file", "-f", "file", type=click.Path(dir_okay=False), help="Output file (default: kvorum-debug-TIME.zip)."
)
@click.option(
    "--token-file",
    type=EXISTING,
    help="File with a token, if the nodes have kvorum.admin.tokens.file.",
)
@click.option("--user", help="User that reads the processes' pages, if the nodes have kvorum.admin.roles.")
@click.option("--password-file", type=EXISTING, help="File with the password of --user.")
@click.option("--ca-file", type=EXISTING, help="Certificates (PEM) of the CA, if metrics.listener has TLS.")
@bootstrap_option
def debug_bundle(
    file: str | None,
    token_file: str | None,
    user: str | None,
    password_file: str | None,
    ca_file: str | None,
    bootstrap: str,
) -> None:
    """Write diagnostics to a ZIP: the cluster's state, and its processes' metrics and logs.

    Without records; secrets are hidden. Missing parts are printed and listed in manifest.json with the reason.

    \b
    kvorum debug-bundle
    kvorum debug-bundle -f fault.zip -b 127.0.0.1:19091
    kvorum debug-bundle --user alice --password-file alice.password --ca-file certificates/ca.pem
    """
    authorization = authorization_of(token_file, user, password_file)
    from kvorum.admin.v1.cluster.debug_bundle import file_name

    made = Path(file or file_name(datetime.now(UTC)))
    with made.open("wb") as out:
        with_cluster(bootstrap, lambda cluster: write(cluster, out, authorization, ca_file))
    with zipfile.ZipFile(made) as archive:
        manifest: dict[str, Any] = json.loads(archive.read("manifest.json"))
    for each in manifest["missing"]:
        warn(f"missing: {each['name']} ({each['error']}: {each['message']})")
    if not manifest["parts"]:
        fail(f"nothing was collected; see {made}")
    click.echo(f"{made}: {len(manifest['parts'])} parts")


def authorization_of(token_file: str | None, user: str | None, password_file: str | None) -> str | None:
    """Return the value of the header Authorization, None without a token or user."""
    if (user is None) != (password_file is None):
        fail("--user and --password-file belong together", Exit.USAGE)
    if token_file is not None and user is not None:
        fail("give either --token-file or --user", Exit.USAGE)
    if token_file is not None:
        return f"Bearer {Path(token_file).read_text().strip()}"
    if user is None or password_file is None:
        return None
    password = Path(password_file).read_text().rstrip("\r\n")
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


async def write(cluster: "ClusterClient", out: BinaryIO, authorization: str | None, ca_file: str | None = None) -> None:
    """Write a bundle."""
    from kvorum.admin.http.node_login import NodeLogin
    from kvorum.admin.http.operations import Call, NoBody
    from kvorum.admin.v1.cluster.debug_bundle import Bundles
    from kvorum.client.metadata_log.metadata_reader import MetadataReader

    context = None if ca_file is None else ssl.create_default_context(cafile=ca_file)
    nodes = NodeLogin(authorization, context=lambda: context)
    call = Call(cluster=cluster, path={}, query={}, body=NoBody(), nodes=nodes)
    async for piece in Bundles(MetadataReader()).pieces(call):
        out.write(piece)
