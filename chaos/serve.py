"""The HTTP interface to everything that can be done to a cluster on this machine: `kvorum chaos serve`.

    /                                    the web console; its chaos page works here (docs/decisions/0022)
    /v1/...                              the admin API, of this process: it lives on when nodes die

    GET    /v1/chaos/state               nodes, processes, links, faults in force, also inside (?health=true)
    GET    /v1/chaos/kinds               the faults there are, their options (JSON schema), whether possible here
    GET    /v1/chaos/faults              those in force
    POST   /v1/chaos/faults              {"fault": "kill", "targets": ["node-1"], "options": {}} -> its id
    DELETE /v1/chaos/faults/{id}         end one
    POST   /v1/chaos/heal                {"start": true}: end all, start every node
    GET    /v1/chaos/events              server-sent events; Last-Event-ID (or ?after=) for what was missed
    POST   /v1/chaos/scenarios           {"scenario": "n-minus-one", "seed": 1, "duration": 60}
    GET    /v1/chaos/scenarios[/{id}]    runs; one with its output and verdicts
    GET    /v1/chaos/shipped             the scenarios there are: name, title, cells
    DELETE /v1/chaos/scenarios/{id}      end a run: it heals, reads, judges

Whoever asks must know the token (Authorization: Bearer TOKEN), but for the console's files, and call this machine by a
name of its own: a page from elsewhere can do neither. Errors are models.Problem, as in the admin API. Loopback unless
told otherwise.
"""

import asyncio
import hashlib
import hmac
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import ValidationError

from kvorum.admin.access import Access, is_local, name_of
from kvorum.admin.app import AdminApp
from kvorum.admin.changes import Changes
from kvorum.admin.client import ClusterClient
from kvorum.admin.operations import Role
from kvorum.admin.problems import problem
from kvorum.chaos import history
from kvorum.chaos.faults.events import Injected
from kvorum.chaos.faults.lab import LabError
from kvorum.chaos.faults.processes import NotStarted
from kvorum.chaos.scenario import files
from kvorum.chaos.serve_events import Events, Listener, SentAway, TooManyListeners
from kvorum.chaos.serve_faults import KINDS, CannotDo, NotHere, begin
from kvorum.chaos.serve_requests import (
    BadRequest,
    FaultRequest,
    HealRequest,
    ScenarioRequest,
    bad_request,
    body_of,
    id_of,
)
from kvorum.chaos.serve_scenarios import Busy, ScenarioRun, Scenarios
from kvorum.chaos.served import ANY_HOST, Served
from kvorum.network.addresses import parse_bootstrap
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.logs import get_logger
from kvorum.runtime.metrics import Metrics

EVENT_IDLE_SECONDS: Final = 15.0
"""Silence after which a comment is sent, so that what lies between does not close the connection."""
WORKERS_MAX: Final = 8
"""Verbs under way at a time; others wait. Each may block as long as a node takes to start."""
PREFIX: Final = "/v1/chaos"
ADMIN_TIMEOUT_MS: Final = 10_000
"""What the admin API here waits for a broker, which may be paused: then another one is asked."""

log = get_logger("chaos")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")


@dataclass(slots=True)
class ChaosServer:
    """See the module. `build` gives the application; the cluster is whoever's who made it."""

    served: Served
    events: Events
    token: str
    runs: Path
    """Where scenarios keep their histories and logs."""
    host: str = "127.0.0.1"
    _scenarios: Scenarios = field(init=False)
    _workers: asyncio.Semaphore = field(init=False)
    _changes: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        """Make what belongs to it."""
        self._scenarios = Scenarios(self.runs, self._scenario_told, heard=self._output_told)
        self._workers = asyncio.Semaphore(WORKERS_MAX)

    def build(self) -> web.Application:
        """Return the application: the admin API with the console, and the chaos API in it. Called in its loop."""
        cluster = ClusterClient(parse_bootstrap(self.served.observed), timeout_ms=ADMIN_TIMEOUT_MS)
        access = Access({hashlib.sha256(self.token.encode()).hexdigest(): Role.ADMIN})
        app = AdminApp(cluster, Metrics(), access).build()
        app.middlewares.insert(0, self._pages)  # a list until the application runs
        app.add_subapp(PREFIX, self._chaos())

        async def closing(app: web.Application) -> AsyncIterator[None]:
            yield
            await cluster.close()

        app.cleanup_ctx.append(closing)
        app.on_shutdown.append(self._shut_down)
        app.on_cleanup.append(self._changes.settle)
        return app

    def _chaos(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/state", self._state)
        app.router.add_get("/kinds", self._kinds)
        app.router.add_get("/faults", self._faults)
        app.router.add_post("/faults", self._begin)
        app.router.add_delete("/faults/{id}", self._end)
        app.router.add_post("/heal", self._heal)
        app.router.add_get("/events", self._listen)
        app.router.add_get("/shipped", self._shipped)
        app.router.add_get("/scenarios", self._runs)
        app.router.add_post("/scenarios", self._run)
        app.router.add_get("/scenarios/{id}", self._one_run)
        app.router.add_delete("/scenarios/{id}", self._stop_run)
        return app

    async def _shut_down(self, app: web.Application) -> None:
        self.events.close()
        await self._scenarios.close()

    # Who may ask.

    @web.middleware
    async def _pages(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn away pages from elsewhere, whatever they ask for."""
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        # Listening on all addresses, it has more names than are known here; a page from elsewhere has no token for any.
        if not (is_local(host) or self.host in ANY_HOST or name_of(host) == name_of(self.host)):
            return problem(403, "FORBIDDEN_HOST", f"Host {host!r} is no name of this machine")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            return problem(403, "FORBIDDEN_ORIGIN", f"a page of {origin!r} may not use this API")
        return await handler(request)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn away who does not know the token."""
        scheme, _, said = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            said.strip().encode(errors="surrogateescape"), self.token.encode()
        ):
            answer = problem(401, "UNAUTHORIZED", "say the token: Authorization: Bearer TOKEN")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        return await self._told(request, handler)

    async def _told(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Give whatever goes wrong one shape. What is begun or ended is so for good, though its reader may be gone."""
        try:
            if request.method == "GET":
                return await handler(request)
            return await self._changes.make(handler(request))
        except BadRequest as error:
            return problem(400, "INVALID_REQUEST", str(error), error.where)
        except (CannotDo, ValueError) as error:
            return problem(422, "CANNOT_DO", str(error))
        except (NotHere, Busy) as error:
            return problem(409, "NOT_POSSIBLE_NOW" if isinstance(error, Busy) else "NOT_POSSIBLE_HERE", str(error))
        except (NotStarted, LabError, TooManyListeners) as error:
            return problem(503, "UNAVAILABLE", str(error))
        except web.HTTPException as error:
            return problem(error.status, error.reason.upper().replace(" ", "_"), f"{request.method} {request.path}")
        except Exception as error:  # whatever it is, the caller is told in our shape, and the log has the rest
            stack = "".join(traceback.format_exception(error))
            log.error("a request failed", method=request.method, path=request.path, error=error, stack=stack)
            return problem(500, "UNKNOWN_SERVER_ERROR", "see the log of kvorum chaos serve")

    async def _work(self, function: Callable[..., T], *arguments: object) -> T:
        """Call what blocks, in a thread."""
        async with self._workers:
            return await asyncio.to_thread(function, *arguments)

    # The cluster.

    async def _state(self, request: web.Request) -> web.Response:
        served = self.served
        health = request.query.get("health") == "true"
        nodes = await self._work(served.described)
        inside = await self._work(served.inside.state, silent_of(nodes))
        body: dict[str, object] = {
            "cluster_id": served.cluster.plan.cluster_id,
            "folder": served.cluster.paths.folder,
            "bootstrap": served.bootstrap,
            "nodes": nodes,
            "links": [{"name": name, "upstream": upstream} for name, upstream in served.links.items()],
            "faults": [described(each) for each in served.register.in_force()],
            "inside": inside,
        }
        if health:
            body["ailments"] = await self._work(served.observer.ailments)
        return web.json_response(body)

    async def _kinds(self, request: web.Request) -> web.Response:
        served = self.served
        here = {
            "processes": True,
            "disks": True,
            "clocks": bool(served.clocks),
            "links": served.cuts is not None,
            "inside": bool(served.inside.doors),
        }
        kinds = [
            {
                "fault": name,
                "about": kind.about,
                "needs": kind.needs,
                "possible": here[kind.needs],
                "targets": {"from": kind.targets[0], "to": kind.targets[1]},
                "options": kind.options.model_json_schema(),
            }
            for name, kind in KINDS.items()
        ]
        return web.json_response(kinds)

    async def _faults(self, request: web.Request) -> web.Response:
        return web.json_response([described(each) for each in self.served.register.in_force()])

    async def _begin(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, FaultRequest)
        kind = KINDS.get(wanted.fault)
        if kind is None:
            raise BadRequest(f"there is no fault {wanted.fault!r}; there are {', '.join(KINDS)}", "fault")
        try:
            options = kind.options.model_validate(wanted.options)
        except ValidationError as error:
            raise bad_request(error, "options") from error
        fault = await self._work(begin, self.served, wanted.fault, wanted.targets, options)
        if fault is None:
            body: dict[str, object] = {"id": None, "fault": wanted.fault, "targets": wanted.targets, "in_force": False}
            return web.json_response(body, status=200)
        in_force = fault in self.served.register.in_force()
        return web.json_response({**described(fault), "in_force": in_force}, status=201 if in_force else 200)

    async def _end(self, request: web.Request) -> web.Response:
        fault_id = id_of(request)
        for fault in self.served.register.in_force():
            if fault.id == fault_id:
                await self._work(fault.end)
                still = fault in self.served.register.in_force()
                return web.json_response({**described(fault), "in_force": still})
        return problem(404, "NOT_FOUND", f"no fault {fault_id} is in force")

    async def _heal(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, HealRequest)
        started = await self._work(lambda: self.served.heal(start=wanted.start))
        in_force = [described(each) for each in self.served.register.in_force()]
        return web.json_response({"started": started, "in_force": in_force})

    # Events.

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        text = request.headers.get("Last-Event-ID") or request.query.get("after") or "0"
        if not text.isdecimal():
            raise BadRequest(f"{text!r} is no event's id", "after")
        with self.events.listening(int(text)) as listener:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
            await response.prepare(request)
            try:
                await response.write(b": listening\n\n")
                while True:
                    await response.write(await next_of(listener))
            except (SentAway, ConnectionError):
                return response

    def _scenario_told(self, run: ScenarioRun) -> None:
        self.events.tell("scenario", {**run.described(whole=False), "timestamp_ms": SystemClock().wall_ms()})

    def _output_told(self, run: ScenarioRun, line: str) -> None:
        # Not kept: who comes later reads the run, and may have no faults of it thrown out by what it printed.
        self.events.tell("output", {"id": run.id, "number": run.lines_count, "line": line}, kept=False)

    # Scenarios.

    async def _shipped(self, request: web.Request) -> web.Response:
        return web.json_response(await self._work(shipped))

    async def _runs(self, request: web.Request) -> web.Response:
        return web.json_response([each.described(whole=False) for each in self._scenarios.runs])

    async def _run(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, ScenarioRequest)
        run = await self._scenarios.start(wanted.scenario, wanted.seed, wanted.duration)
        return web.json_response(run.described(whole=False), status=202)

    def _run_of(self, request: web.Request) -> ScenarioRun:
        run = self._scenarios.run(id_of(request))
        if run is None:
            raise web.HTTPNotFound
        return run

    async def _one_run(self, request: web.Request) -> web.Response:
        return web.json_response(self._run_of(request).described(whole=True))

    async def _stop_run(self, request: web.Request) -> web.Response:
        run = self._run_of(request)
        await self._scenarios.stop(run)
        return web.json_response(run.described(whole=True))


async def next_of(listener: Listener) -> bytes:
    """Return the next event as it is sent, or a comment where none came for a while. Raises SentAway."""
    try:
        async with asyncio.timeout(EVENT_IDLE_SECONDS):
            return (await listener.next()).encoded()
    except TimeoutError:
        return b": idle\n\n"


def fault_told(events: Events) -> Callable[[history.Fault], None]:
    """Return what a register tells its faults to."""
    clock = SystemClock()

    def tell(fault: history.Fault) -> None:
        data: dict[str, object] = {
            "id": fault.id,
            "fault": fault.fault,
            "phase": fault.phase,
            "targets": list(fault.targets),
            "lossy": fault.lossy,
            "story": fault.story,
            "t": fault.t,
            "timestamp_ms": clock.wall_ms(),
        }
        events.tell("fault", data)

    return tell


def silent_of(nodes: list[dict[str, Any]]) -> set[str]:
    """Return the processes that cannot answer: those that are down, or stopped."""
    return {
        f"{node['name']}/{role}"
        for node in nodes
        for role, process in node["processes"].items()
        if process is None or process["stopped"]
    }


def described(fault: Injected) -> dict[str, object]:
    """Return a fault for people and programs."""
    return {
        "id": fault.id,
        "fault": fault.kind,
        "targets": list(fault.targets),
        "lossy": fault.lossy,
        "story": fault.story,
    }


def shipped() -> list[dict[str, object]]:
    """Return the scenarios that can be run, each with its cells: the ways it can be run one by one."""
    found: list[dict[str, object]] = []
    for name in files.shipped():
        cells = files.find(name)
        title = cells[0].title if len(cells) == 1 else name
        named = [{"name": each.name, "title": each.title, "seconds": each.duration} for each in cells]
        found.append({"name": name, "title": title, "cells": named})
    return found
