"""The manager's process: the HTTP interface and the herder, from start to end.

It listens before the cluster responds, so that /health can say so. Its connectors end with it.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

from kvorum.pipelines.connect.catalogue import Cluster
from kvorum.pipelines.connect.herder import Herder
from kvorum.pipelines.connect.rest import is_local
from kvorum.pipelines.connect.routes import application
from kvorum.pipelines.connect.runner import Runner, hold
from kvorum.pipelines.connect.store import Store
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.spec.problems import Places
from kvorum.pipelines.spec.resolve import resolve

log = logging.getLogger("kvorum.pipelines.connect.manager")


async def serve(
    *,
    bootstrap: str,
    client: Mapping[str, str],
    prefix: str,
    listen: str,
    state_dir: Path,
    checkpoints: str | None,
    launch: Launch,
) -> None:
    """Run a manager until SIGTERM or Ctrl-C.

    `client` are settings of its Kafka clients, and of the pipelines' in the same cluster: security.protocol and others.
    Raises StateError if the folder is in use, OSError if the port is, Superseded, SpecError.
    """
    descriptor = hold(state_dir)
    assert descriptor >= 0  # held until this process ends
    host, _, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.create_server((host, int(port)), family=family)
    address = f"{host if family is socket.AF_INET else f'[{host}]'}:{server.getsockname()[1]}"
    settings: dict[str, str] = {"bootstrap.servers": bootstrap, **resolve(dict(client), Places())}
    herder = Herder(
        store=Store(settings, prefix),
        runner=Runner(state_dir, checkpoints, launch),
        worker_id=address,
        checkpoints=checkpoints or identity(state_dir),
        may_move=checkpoints is not None,
        cluster=Cluster(bootstrap=bootstrap, client=client),
        now=time.monotonic,
        wall_ms=lambda: time.time_ns() // 1_000_000,
    )
    http = web.AppRunner(application(herder, is_loopback=is_local(host)), access_log=None)
    await http.setup()
    await web.SockSite(http, server).start()
    print(f"listening on http://{address}", flush=True)
    work = asyncio.create_task(herder.run(), name="manager")
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await work
    finally:
        await herder.runner.end()
        await http.cleanup()


def identity(folder: Path) -> str:
    """Return the state folder's name, unique among all machines, created on first use."""
    path = folder / "manager.id"
    if not path.exists():
        new = path.with_name(".manager.id")
        new.write_text(f"{socket.gethostname()}:{folder} (id {uuid.uuid4()})", encoding="utf-8")
        new.replace(path)
    return path.read_text(encoding="utf-8")
