"""`kvorum chaos serve`: an HTTP interface to everything that can be done to a cluster on this machine."""

import asyncio
import os
import secrets
import signal
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvorum.cli.output import Exit, fail, pairs
from kvorum.runtime.listeners import address

if TYPE_CHECKING:
    from kvorum.chaos.faults.lab import Lab
    from kvorum.chaos.faults.target_cluster import TargetCluster
    from kvorum.chaos.serve.events import Events
    from kvorum.chaos.serve.server import ChaosServer
    from kvorum.security.tls.server import TlsServer

TOKEN_BYTES = 24
TOKEN_LENGTH_MIN = 16
PORT = 9095
RELOAD_INTERVAL_MS = 10_000
SMALL_MIB_MIN, SMALL_MIB_MAX = 4, 4096

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("-d", "--dir", "folder", required=True, type=FOLDER, help="Data directory of the cluster.")
@click.option("-p", "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address; loopback unless --allow-remote.")
@click.option("--allow-remote", is_flag=True, help="Allow other addresses for --host; only the token protects it.")
@click.option(
    "--token-file", type=FILE, help="File whose first line is the token; created if missing. [DIR/chaos-serve.token]"
)
@click.option(
    "--ssl-keystore",
    type=FILE,
    help="PEM file with private key and certificate chain: HTTPS. A changed file is loaded for new connections.",
)
@click.option("--create", is_flag=True, help="Create a cluster in an empty folder, with proxies on links.")
@click.option("--brokers", type=click.IntRange(1, 20), default=3, show_default=True, help="With --create.")
@click.option("--controllers", type=click.IntRange(1, 20), help="With --create: number of controllers. [up to 3]")
@click.option("--secure", is_flag=True, help="With --create: TLS and SCRAM; the first user's password is in DIR.")
@click.option("--plain", is_flag=True, help="With --create: no proxies, so no faults on links.")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="With --create: for all nodes.")
@click.option(
    "--small-disk",
    "small_disks",
    multiple=True,
    metavar="NODE=MIB",
    help="With --create: a separate small disk, which can become full or read-only (needs root).",
)
def serve(
    folder: Path,
    port: int,
    host: str,
    allow_remote: bool,
    token_file: Path | None,
    ssl_keystore: Path | None,
    create: bool,
    brokers: int,
    controllers: int | None,
    secure: bool,
    plain: bool,
    configs: tuple[str, ...],
    small_disks: tuple[str, ...],
) -> None:
    """Serve the control of a cluster (state, faults, events, scenarios) with the web console, until Ctrl-C.

    A cluster created with --create stops with it; an existing cluster continues.

    \b
    kvorum up configs/three-nodes.yaml -d data; kvorum chaos serve -d data     an existing cluster
    kvorum chaos serve -d lab --create                                         a new one with proxies on links
    curl -H "Authorization: Bearer $(cat lab/chaos-serve.token)" localhost:9095/v1/chaos/state
    curl ... -H 'Content-Type: application/json' -d '{"fault":"kill","targets":["node-1"]}' .../v1/chaos/faults
    """
    from kvorum.admin.http.access import is_local
    from kvorum.chaos.serve.events import Events
    from kvorum.chaos.serve.server import ChaosServer

    if not is_local(host) and not allow_remote:
        fail(
            f"{host} is reachable from other machines: give --allow-remote to permit them to inject faults", Exit.USAGE
        )
    if not create and (secure or plain or controllers or configs or small_disks):
        text = "--secure, --plain, --controllers, --config and --small-disk require --create"
        fail(text, Exit.USAGE)
    events, tls = Events(), None if ssl_keystore is None else tls_of(ssl_keystore)
    with ExitStack() as stack:
        if create:
            disks = disks_of(small_disks)
            cluster: TargetCluster = create_lab(
                folder, brokers, controllers, plain, configs, disks, events, secure=secure
            )
        else:
            cluster = open_cluster(folder, events)
        stack.callback(cluster.close)
        path = token_file or folder / "chaos-serve.token"
        token = token_in(path)
        server = ChaosServer(cluster, events, token, folder / "chaos-runs", host)
        asyncio.run(run(server, host, port, path, tls))


def disks_of(texts: tuple[str, ...]) -> dict[str, int]:
    """Return {node: bytes of its disk}."""
    found = {}
    for name, text in pairs(texts, "--small-disk").items():
        if not text.isdecimal() or not SMALL_MIB_MIN <= int(text) <= SMALL_MIB_MAX:
            fail(f"--small-disk {name}={text}: {SMALL_MIB_MIN} to {SMALL_MIB_MAX} MiB", Exit.USAGE)
        found[name] = int(text) << 20
    return found


def create_lab(
    folder: Path,
    brokers: int,
    controllers: int | None,
    plain: bool,
    configs: tuple[str, ...],
    small_disks: dict[str, int],
    events: "Events",
    *,
    secure: bool,
) -> "Lab":
    """Make a lab in a folder and start it."""
    from kvorum.chaos.faults.inside_faults import inside_configs
    from kvorum.chaos.faults.lab import Lab
    from kvorum.chaos.faults.namespace_holder import NotPermitted
    from kvorum.chaos.faults.processes import StartError
    from kvorum.chaos.faults.shape import LabShape
    from kvorum.chaos.faults.target_cluster import LabError
    from kvorum.chaos.faults.toxiproxy_binary import NoToxiproxy
    from kvorum.chaos.serve.server import fault_reporter
    from kvorum.cluster.local.local import ClusterError
    from kvorum.runtime.config import ConfigError

    if (folder / "cluster").exists():
        fail(f"{folder} already has a cluster: omit --create, or use an empty folder", Exit.USAGE)
    given = pairs(configs, "--config")
    try:
        shape = LabShape(
            brokers=brokers,
            controllers=min(3, brokers) if controllers is None else controllers,
            configs={**inside_configs(str(folder)), **given},
            secure=secure,
        )
        network = "plain" if plain else "proxies"
        strangers = ", ".join(small_disks.keys() - shape.nodes().keys())
        if strangers:
            fail(f"--small-disk {strangers}: unknown node", Exit.USAGE)
        return Lab.create(
            str(folder / "cluster"),
            shape,
            network=network,  # type: ignore[arg-type]
            on_fault=fault_reporter(events),
            small_disks=small_disks,
        )
    except (NoToxiproxy, NotPermitted, LabError, StartError, ConfigError, ClusterError, ValueError, OSError) as error:
        fail(str(error), Exit.FAILED)


def open_cluster(folder: Path, events: "Events") -> "TargetCluster":
    """Open the cluster in a folder, run by any process."""
    from kvorum.chaos.faults.inside_faults import InsideError
    from kvorum.chaos.faults.target_cluster import attach
    from kvorum.chaos.serve.server import fault_reporter
    from kvorum.cluster.local.local import ClusterError

    began = time.monotonic()
    try:
        return attach(str(folder), fault_reporter(events), lambda: time.monotonic() - began)
    except (ClusterError, InsideError) as error:
        fail(f"{error}; create one with --create", Exit.NOT_FOUND)


def token_in(path: Path) -> str:
    """Return the token in a file, which is created with access only for its owner if missing."""
    try:
        with suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
        token = path.read_text(encoding="utf-8").partition("\n")[0].strip()
    except OSError as error:
        fail(f"{path}: {error.strerror}", Exit.USAGE)
    if len(token) < TOKEN_LENGTH_MIN:
        fail(f"{path}: a token must have at least {TOKEN_LENGTH_MIN} characters", Exit.USAGE)
    return token


def url_of(host: str, port: int, scheme: str = "http") -> str:
    """Return where the server is, an IPv6 address in brackets (RFC 3986, 3.2.2)."""
    return f"{scheme}://{address(host, port)}"


def tls_of(path: Path) -> "TlsServer":
    """Return TLS with the key and certificate in a file."""
    from kvorum.security.errors import SecurityConfigError
    from kvorum.security.tls.server import TlsServer
    from kvorum.security.tls.settings import PEM, KeyStoreSettings, TlsSettings

    try:
        return TlsServer(TlsSettings(key_store=KeyStoreSettings(type=PEM, location=str(path))))
    except SecurityConfigError as error:
        fail(f"--ssl-keystore: {error.reason}", Exit.USAGE)


async def run(server: "ChaosServer", host: str, port: int, token_path: Path, tls: "TlsServer | None" = None) -> None:
    """Serve until a stop signal."""
    from kvorum.admin.http.http_server import TlsSite, runner_of
    from kvorum.network.store_watch import StoreWatch
    from kvorum.network.tls_acceptor import HttpTls

    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    stores = StoreWatch((), [] if tls is None else [("HTTP", tls)], RELOAD_INTERVAL_MS)
    stores.start()
    runner = runner_of(server.build(), shutdown_seconds=5)
    await runner.setup()
    try:
        limits = None if tls is None else HttpTls(server=tls)
        await TlsSite(runner, host, port, limits).start()
        console = url_of(host, runner.addresses[0][1], "http" if tls is None else "https")
        click.echo(f"chaos control: {console}/v1/chaos/state   token: {token_path}")
        # A terminal is its owner's; a file or a pipe may be kept: there the token is not written, only where it is.
        known = f"?token={server.token}" if sys.stdout.isatty() else ""
        click.echo(f"console: {console}/#/chaos{known}")
        click.echo(f"bootstrap.servers: {server.cluster.bootstrap}   Press Ctrl-C to stop.")
        await ending.wait()
    except OSError as error:
        fail(f"{address(host, port)}: {error.strerror}", Exit.FAILED)
    finally:
        await runner.cleanup()
        await stores.close()
