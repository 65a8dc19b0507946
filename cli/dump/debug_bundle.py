"""`kvorum debug-bundle`: what GET /v1/debug-bundle answers, without an admin process."""

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import fail, warn

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient


@click.command("debug-bundle")
@click.option(
    "--file", "-f", "file", type=click.Path(dir_okay=False), help="Output file (default: kvorum-debug-TIME.zip)."
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    help="File with a token, if the nodes have kvorum.admin.tokens.file.",
)
@bootstrap_option
def debug_bundle(file: str | None, token_file: str | None, bootstrap: str) -> None:
    """Write diagnostics to a ZIP: the cluster's state, and its processes' metrics and logs.

    Without records; secrets are hidden. Missing parts are printed and listed in manifest.json with the reason.

    \b
    kvorum debug-bundle
    kvorum debug-bundle -f fault.zip -b 127.0.0.1:19091
    """
    token = None if token_file is None else Path(token_file).read_text().strip()
    from kvorum.admin.v1.cluster.debug_bundle import file_name

    made = Path(file or file_name(datetime.now(UTC)))
    with made.open("wb") as out:
        with_cluster(bootstrap, lambda cluster: write(cluster, out, token))
    with zipfile.ZipFile(made) as archive:
        manifest: dict[str, Any] = json.loads(archive.read("manifest.json"))
    for each in manifest["missing"]:
        warn(f"missing: {each['name']} ({each['error']}: {each['message']})")
    if not manifest["parts"]:
        fail(f"nothing was collected; see {made}")
    click.echo(f"{made}: {len(manifest['parts'])} parts")


async def write(cluster: "ClusterClient", out: BinaryIO, token: str | None) -> None:
    """Write a bundle."""
    from kvorum.admin.http.operations import Call, NoBody
    from kvorum.admin.v1.cluster.debug_bundle import Bundles
    from kvorum.client.metadata_log.metadata_reader import MetadataReader

    authorization = None if token is None else f"Bearer {token}"
    call = Call(cluster=cluster, path={}, query={}, body=NoBody(), authorization=authorization)
    async for piece in Bundles(MetadataReader()).pieces(call):
        out.write(piece)
