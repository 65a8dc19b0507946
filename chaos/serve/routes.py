"""Operations of `kvorum chaos serve` below /v1/chaos, with the conventions of the admin API.

GET    /v1/chaos/state               nodes, processes, links, active faults, also inside (?health=true)
GET    /v1/chaos/kinds               all kinds of faults, their options (JSON schema), whether supported here
GET    /v1/chaos/faults              active faults
POST   /v1/chaos/faults              {"fault": "kill", "targets": ["leader orders-0"], "seconds": 30} -> its id
DELETE /v1/chaos/faults/{id}         end one
POST   /v1/chaos/heal                {"start": true}: end all faults, start every node
GET    /v1/chaos/events              server-sent events; Last-Event-ID (or ?after=) repeats missed ones
(scenarios: serve_scenario_routes)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import EVENT_STREAM, Call, NoBody, Operation, Reply, Stream
from kvorum.admin.http.parameters import INT64_MAX, BadInput, flag, number, number_of, text
from kvorum.chaos.faults import fault_kinds
from kvorum.chaos.faults.events import ActiveFault, FaultError, Unsupported
from kvorum.chaos.faults.fault_kinds import FAULTS, Injection
from kvorum.chaos.faults.fault_options import FaultOptions
from kvorum.chaos.faults.processes import StartError
from kvorum.chaos.faults.target_cluster import LabError, StateError, TargetCluster
from kvorum.chaos.serve.events import Events, Listener, StreamEnd
from kvorum.chaos.serve.fault_requests import begin, ends_at_once, resolve_targets
from kvorum.chaos.serve.fault_timers import FaultTimers
from kvorum.chaos.serve.models import (
    Begun,
    Fault,
    FaultKind,
    FaultRequest,
    Happened,
    Healed,
    HealRequest,
    Lab,
    Link,
    Node,
    NotEnded,
    Printed,
    ScenarioChanged,
)
from kvorum.chaos.serve.scenarios import Busy, NoReport
from kvorum.runtime.chance import new_random
from kvorum.runtime.clock import SystemClock

EVENT_IDLE_SECONDS: Final = 5.0
"""Idle time after which a comment is sent: it keeps the connection open, and shows that it is alive."""
WORKERS_MAX: Final = 8
"""The maximum number of concurrent verbs; others wait. Each may block while a node starts."""
SEED_BITS: Final = 32
PREFIX: Final = "/v1/chaos"

T = TypeVar("T")
HEALTH = flag("health", "true: also query the health of all nodes (takes seconds)")
FAULT_ID = number("id", "id of the fault", 0, INT64_MAX)
AFTER = text("after", "id of the last event received, as Last-Event-ID", "0")


class Workers:
    """The threads in which verbs block."""

    def __init__(self) -> None:
        """Start without a request in progress."""
        self._room = asyncio.Semaphore(WORKERS_MAX)

    async def do(self, function: Callable[..., T], *arguments: object) -> T:
        """Call what blocks."""
        async with self._room:
            return await asyncio.to_thread(function, *arguments)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Refuse in the API's shape what cannot be done. Raises Refused."""
    try:
        yield
    except Unsupported as error:
        raise HttpError(409, "NOT_POSSIBLE_HERE", str(error)) from error
    except FaultError as error:
        raise HttpError(422, "CANNOT_DO", str(error)) from error
    except (StateError, Busy) as error:
        raise HttpError(409, "NOT_POSSIBLE_NOW", str(error)) from error
    except NoReport as error:
        raise HttpError(404, "NOT_FOUND", str(error)) from error
    except (StartError, LabError) as error:
        raise HttpError(503, "UNAVAILABLE", str(error)) from error


class FaultRoutes:
    """The paths for the state and the faults of a cluster."""

    def __init__(self, cluster: TargetCluster, events: Events, workers: Workers) -> None:
        """Serve the faults of this cluster."""
        self._cluster = cluster
        self._events = events
        self._workers = workers
        self.ends = FaultTimers(cluster.register, workers.do, SystemClock(), self._report_failure)

    def _report_failure(self, fault: ActiveFault, why: str) -> None:
        described = {"id": fault.id, "fault": fault.kind, "targets": list(fault.targets), "story": fault.story}
        self._events.publish("failure", {**described, "failure": why, "timestamp_ms": SystemClock().wall_ms()})

    async def get_chaos_state(self, call: Call[NoBody]) -> Lab:
        """Return the cluster's nodes, running processes and faults; `health`: also its problems."""
        cluster, health = self._cluster, HEALTH.of(call)
        nodes = await self._workers.do(cluster.node_states)
        inside = await self._workers.do(cluster.inside.state, silent_of(nodes))
        return Lab(
            cluster_id=cluster.cluster.plan.cluster_id,
            folder=cluster.cluster.paths.folder,
            bootstrap=cluster.bootstrap,
            nodes=[Node.model_validate(node) for node in nodes],
            links=[Link(name=name, upstream=upstream) for name, upstream in cluster.proxies.items()],
            faults=self._in_force(),
            inside=inside,
            ailments=await self._workers.do(cluster.observer.ailments) if health else None,
        )

    async def list_fault_kinds(self, call: Call[NoBody]) -> list[BaseModel]:
        """List all kinds of faults with their options, and whether this cluster supports them."""
        return [FaultKind.of_table(kind, kind.why_unsupported(self._cluster)) for kind in FAULTS.values()]

    async def list_faults(self, call: Call[NoBody]) -> list[BaseModel]:
        """List the faults in force, the oldest first."""
        return list(self._in_force())

    async def begin_fault(self, call: Call[FaultRequest]) -> Begun | Reply:
        """Start a fault; with `seconds` it ends automatically.

        Selectors among the targets are resolved when it starts. An instantaneous fault returns 200.
        """
        wanted = call.body
        kind, options = kind_of(wanted)
        seed = new_random().getrandbits(SEED_BITS) if wanted.seed is None else wanted.seed
        rng = Random(seed)
        with translate_errors():
            targets = await self._workers.do(resolve_targets, self._cluster, kind, wanted.targets, rng)
            if wanted.seconds is not None and ends_at_once(kind, targets, options):
                raise BadInput("seconds", f"{wanted.fault} of {', '.join(targets)} has no duration")
            fault = await self._workers.do(begin, kind, Injection(self._cluster, targets, rng), options)
        if fault is None:
            body = Begun(id=None, fault=wanted.fault, targets=targets, in_force=False, seed=seed)
            return Reply(status=200, text=body.model_dump_json())
        in_force = fault in self._cluster.register.in_force()
        if in_force and wanted.seconds is not None:
            self.ends.plan(fault, wanted.seconds)
        found = self._response_of(fault, seed)
        return found if in_force else Reply(status=200, text=found.model_dump_json())

    async def end_fault(self, call: Call[NoBody]) -> Begun:
        """End a fault: its effect is reverted, and a node that it stopped is started."""
        fault_id = FAULT_ID.of(call)
        for fault in self._cluster.register.in_force():
            if fault.id == fault_id:
                with translate_errors():
                    await self._workers.do(fault.end)
                return self._response_of(fault, None)
        raise HttpError(404, "NOT_FOUND", f"fault {fault_id} is not in force")

    async def heal_cluster(self, call: Call[HealRequest]) -> Healed:
        """End all faults, and (by default) start all stopped nodes."""
        start = call.body.start
        with translate_errors():
            started = await self._workers.do(lambda: self._cluster.heal(start=start))
        return Healed(started=started, in_force=self._in_force())

    async def follow_chaos(self, call: Call[NoBody]) -> Stream:
        """Stream faults and scenarios as server-sent events; `end` comes last.

        The stream starts with stored events, after Last-Event-ID or `after`. Output lines of scenarios are not stored.
        """
        text = call.last_event_id or AFTER.of(call)
        after = number_of("after", text, 0, INT64_MAX)
        if self._events.is_full:
            raise HttpError(503, "UNAVAILABLE", "too many event streams are open")

        async def chunks() -> AsyncIterator[bytes]:
            with self._events.listen(after) as listener:
                yield b": listening\n\n"
                try:
                    while True:
                        yield await next_of(listener)
                except StreamEnd:
                    why = "server" if self._events.is_closed else "behind"
                    yield b"event: end\ndata: " + msgspec.json.encode({"stopped_by": why}) + b"\n\n"

        return Stream(media=EVENT_STREAM, chunks=chunks())

    def _in_force(self) -> list[Fault]:
        return [self._state_of(fault) for fault in self._cluster.register.in_force()]

    def _state_of(self, fault: ActiveFault) -> Fault:
        planned = self.ends.of(fault.id)
        return Fault(
            id=fault.id,
            fault=fault.kind,
            targets=list(fault.targets),
            lossy=fault.lossy,
            story=fault.story,
            ends_ms=None if planned is None else planned.at_ms,
            failure=None if planned is None else planned.failure,
            stops_nodes=fault.stops_nodes,
        )

    def _response_of(self, fault: ActiveFault, seed: int | None) -> Begun:
        described = self._state_of(fault).model_dump(exclude={"failure"})
        in_force = fault in self._cluster.register.in_force()
        return Begun(
            **{**described, "ends_ms": described["ends_ms"] if in_force else None}, in_force=in_force, seed=seed
        )

    def operations(self) -> Sequence[Operation]:
        """Return the paths."""
        faults = f"{PREFIX}/faults"
        return [
            Operation.get(
                f"{PREFIX}/state", "Get the state of the cluster", self.get_chaos_state, Lab, parameters=(HEALTH,)
            ),
            Operation.get(f"{PREFIX}/kinds", "List the kinds of faults", self.list_fault_kinds, FaultKind, many=True),
            Operation.get(faults, "List the faults in force", self.list_faults, Fault, many=True),
            Operation(
                method="POST",
                path=faults,
                summary="Start a fault",
                handle=self.begin_fault,
                body=FaultRequest,
                answer=Begun,
                status=201,
                other_answers={200: Begun},
            ),
            Operation(
                method="DELETE",
                path=f"{faults}/{{id}}",
                summary="End a fault",
                handle=self.end_fault,
                answer=Begun,
                parameters=(FAULT_ID,),
            ),
            Operation(
                method="POST",
                path=f"{PREFIX}/heal",
                summary="End all faults",
                handle=self.heal_cluster,
                body=HealRequest,
                answer=Healed,
            ),
            Operation.get(
                f"{PREFIX}/events",
                "Stream faults and scenarios",
                self.follow_chaos,
                Happened,
                media=(EVENT_STREAM,),
                parameters=(AFTER,),
                events={"failure": NotEnded, "scenario": ScenarioChanged, "output": Printed},
            ),
        ]


def kind_of(wanted: FaultRequest) -> tuple[fault_kinds.FaultKind, FaultOptions]:
    """Return the kind of a requested fault, and its options. Raises BadInput."""
    kind = FAULTS.get(wanted.fault)
    if kind is None:
        raise BadInput("fault", f"unknown fault {wanted.fault!r}; use one of {', '.join(FAULTS)}")
    try:
        return kind, kind.options.model_validate(wanted.options)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadInput(".".join(map(str, ("options", *first["loc"]))), str(first["msg"])) from error


async def next_of(listener: Listener) -> bytes:
    """Return the next event for sending, or a comment after an idle time. Raises StreamEnd."""
    try:
        async with asyncio.timeout(EVENT_IDLE_SECONDS):
            return (await listener.next()).encode_event()
    except TimeoutError:
        return b": idle\n\n"


def silent_of(nodes: list[dict[str, Any]]) -> set[str]:
    """Return the processes that cannot answer: those that are down, or stopped."""
    return {
        f"{node['name']}/{role}"
        for node in nodes
        for role, process in node["processes"].items()
        if process is None or process["stopped"]
    }
