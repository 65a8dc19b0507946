"""The manager process: python -m kvorum.pipelines.connect.manager --bootstrap HOST:PORT --state DIR

    no cluster -> follower <-> leader            follower: requests are passed on to the leader
    leader -> follower                           its place in the group was lost: its workers are ended
    leader -> leader                             a write failed: it fences itself, and reads what is there

It listens before the cluster is there, so that /health can say so. Killed, it leaves its workers running: the next one
on the same folder adopts them, or their lease ends (see lease).
"""

import asyncio
import contextlib
import logging
import random
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from kvorum.pipelines.connect import lease, plugin_routes, routes
from kvorum.pipelines.connect.catalogue import Cluster
from kvorum.pipelines.connect.election import Alone, Election, GroupElection
from kvorum.pipelines.connect.errors import ConnectError, Fenced, Unavailable
from kvorum.pipelines.connect.herder import Herder
from kvorum.pipelines.connect.runner import LocalRunner, Runner
from kvorum.pipelines.connect.service import BODY_BYTES_MAX, Service, guard, is_local
from kvorum.pipelines.connect.state import State
from kvorum.pipelines.connect.store import KafkaStore, Names, Store
from kvorum.pipelines.run.launch import Launch
from kvorum.pipelines.spec.problems import Places
from kvorum.pipelines.spec.resolve import resolve

RETRY_SECONDS: Final = 2.0
HAND_OVER_SECONDS: Final = 120.0
DEFAULT_LISTEN: Final = "127.0.0.1:8083"
DEFAULT_GROUP: Final = "connect-cluster"

log = logging.getLogger("kvorum.pipelines.connect.manager")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Command line options."""

    bootstrap: str
    state_dir: Path
    listen: str = DEFAULT_LISTEN
    advertise: str | None = None
    """The URL at which other managers reach this one; None: where it listens."""
    group: str = DEFAULT_GROUP
    names: Names = field(default_factory=Names)
    checkpoints: str | None = None
    launch: Launch = field(default_factory=Launch)
    client: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the Kafka clients, the pipelines' as well: security.protocol and the like."""
    alone: bool = False
    """Single manager: no election, and workers survive its end without a limit."""
    leave_workers: bool = False
    """When told to end, leave the workers running."""
    lease_seconds: float = lease.LEASE_SECONDS


def application(service: Service) -> web.Application:
    """Return the HTTP side of a manager."""
    app = web.Application(middlewares=[guard(service)], client_max_size=BODY_BYTES_MAX)
    app.add_routes([*plugin_routes.routes(service), *routes.routes(service)])
    return app


class Manager:
    """A manager of connectors."""

    def __init__(self, settings: Settings, *, store: Store, election: Election, runner: Runner, url: str) -> None:
        """Put the parts together; nothing runs yet."""
        self._settings = settings
        self._store = store
        self._election = election
        self._herder = Herder(
            store=store,
            runner=runner,
            worker_id=urlsplit(url).netloc,
            folder=lease.identity(settings.state_dir),
            cluster=Cluster(bootstrap=settings.bootstrap, client=settings.client),
            now_ms=lambda: time.monotonic_ns() // 1_000_000,
            wall_ms=lambda: time.time_ns() // 1_000_000,
        )
        self.service = Service(herder=self._herder, election=election, url=url, bootstrap=settings.bootstrap)
        self._leads = asyncio.Event()
        self._follows = asyncio.Event()
        self._follows.set()

    def _changed(self, leads: bool) -> None:
        log.info("leadership changed leads=%s url=%s", leads, self.service.url)
        on, off = (self._leads, self._follows) if leads else (self._follows, self._leads)
        on.set()
        off.clear()

    async def run(self, ended: asyncio.Event) -> None:
        """Work until a stop signal."""
        async with aiohttp.ClientSession() as session:
            self.service.session = session
            work = asyncio.create_task(self._work(), name="manager")
            told = asyncio.create_task(ended.wait(), name="told")
            await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            if not work.done() and not self._settings.leave_workers:
                with contextlib.suppress(ConnectError, TimeoutError):
                    async with asyncio.timeout(HAND_OVER_SECONDS):
                        await self._herder.submit(self._herder.hand_over)
            work.cancel()
            outcome = await asyncio.gather(work, return_exceptions=True)
            await self._election.end()
            await self._store.close()
            if not self._settings.leave_workers:
                lease.give_up(self._settings.state_dir)
            if outcome and not isinstance(outcome[0], asyncio.CancelledError) and outcome[0] is not None:
                raise outcome[0]

    async def _work(self) -> None:
        while not self.service.ready:
            try:
                self.service.cluster_id = await self._store.prepare()
                self.service.ready = True
                log.info("cluster available id=%s", self.service.cluster_id)
            except Unavailable as error:
                log.warning("cluster not available yet error=%s", error)
                await asyncio.sleep(RETRY_SECONDS)
        self._election.begin(self._changed)
        while True:
            await self._leads.wait()
            await self._lead()

    async def _lead(self) -> None:
        """Lead until the group says otherwise, then end the workers."""
        leading = asyncio.create_task(self._lead_again(), name="lead")
        dismissed = asyncio.create_task(self._follows.wait(), name="dismissed")
        try:
            await asyncio.wait({leading, dismissed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leading.cancel()
            dismissed.cancel()
            outcome = await asyncio.gather(leading, return_exceptions=True)
        if self._follows.is_set():
            await self._herder.release()
        if isinstance(outcome[0], Exception):
            raise outcome[0]

    async def _lead_again(self) -> None:
        guarding = None if self._settings.alone else asyncio.create_task(self._touch(), name="lease")
        try:
            while True:
                try:
                    await self._herder.lead(self._wait_for_the_former)
                except (Unavailable, Fenced) as error:
                    log.warning("leadership failed, restarted error=%s", error)
                    await asyncio.sleep(RETRY_SECONDS * random.uniform(0.5, 1.5))
        finally:
            if guarding is not None:
                guarding.cancel()

    async def _touch(self) -> None:
        """Renew the lease, and keep its guard running."""
        folder, watcher = self._settings.state_dir, None
        while True:
            lease.touch(folder)
            if (watcher is None or watcher.poll() is not None) and not lease.guarded(folder):
                watcher = lease.start_guard(folder, self._settings.lease_seconds)
            await asyncio.sleep(min(lease.TOUCH_SECONDS, self._settings.lease_seconds / 4))

    async def _wait_for_the_former(self, state: State) -> None:
        """Wait until the workers of another manager have ended for sure."""
        if state.leader not in (None, self._herder.folder) and not self._settings.alone:
            seconds = self._settings.lease_seconds + lease.MARGIN_SECONDS
            log.info("leader waits for the end of the former leader's workers seconds=%g", seconds)
            await asyncio.sleep(seconds)


async def serve(settings: Settings) -> None:
    """Run a manager until SIGTERM or Ctrl-C. Raises lease.FolderTaken, OSError when the port is taken."""
    descriptor = lease.hold(settings.state_dir)
    assert descriptor >= 0  # held for as long as this process lives
    host, _, port = settings.listen.rpartition(":")
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    sockets = _bound(host.strip("[]") or "127.0.0.1", int(port))
    url = settings.advertise or f"http://{host or '127.0.0.1'}:{sockets.getsockname()[1]}"
    client = {"bootstrap.servers": settings.bootstrap, **resolve(settings.client, Places())}
    election: Election = Alone()
    if not settings.alone:
        election = GroupElection(client, group=settings.group, topic=settings.names.configs, url=url)
    manager = Manager(
        settings,
        store=KafkaStore(client, settings.group, settings.names),
        election=election,
        runner=LocalRunner(settings.state_dir, settings.checkpoints, settings.launch),
        url=url,
    )
    manager.service.loopback = is_local(f"{host}:{port}" if ":" not in host else host)
    http = web.AppRunner(application(manager.service), access_log=None)
    await http.setup()
    await web.SockSite(http, sockets).start()
    print(f"listening on {url}", flush=True)
    try:
        await manager.run(ended)
    finally:
        await http.cleanup()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((host, port))
    return found


if __name__ == "__main__":
    from kvorum.pipelines.connect.command import connect

    connect(prog_name="kvorum pipelines connect")
