"""Scenarios over HTTP: the list of scenarios, runs with their output and verdicts, and their reports.

GET    /v1/chaos/shipped                    all scenarios: name, title, cells
GET    /v1/chaos/scenarios                  runs
POST   /v1/chaos/scenarios                  {"scenario": "n-minus-one", "seed": 1, "duration": 60}
GET    /v1/chaos/scenarios/{id}             one run with its output and verdicts
GET    /v1/chaos/scenarios/{id}/report      its HTML report (?cell=, if it has several)
DELETE /v1/chaos/scenarios/{id}             end a run: repair, final reads, verdict
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import B, Call, NoBody, Operation, Stream
from kvorum.admin.http.parameters import INT64_MAX, BadInput, number, text
from kvorum.chaos.faults.events import FaultError
from kvorum.chaos.scenario import files
from kvorum.chaos.serve.events import Events
from kvorum.chaos.serve.models import Cell, ScenarioDetail, ScenarioRequest, ScenarioState, Shipped
from kvorum.chaos.serve.routes import PREFIX, Workers, translate_errors
from kvorum.chaos.serve.scenarios import Busy, NoReport, ScenarioRun, Scenarios
from kvorum.runtime.clock import SystemClock

HTML: Final = "text/html"
CHUNK_BYTES: Final = 256 * 1024
RUN_ID = number("id", "id of the run", 0, INT64_MAX)
CELL = text("cell", "cell, if the run has several")


class ScenarioRoutes:
    """The paths of one server about scenarios."""

    def __init__(self, folder: Path, events: Events, workers: Workers, command: tuple[str, ...]) -> None:
        """Keep runs below a folder; `command` is `kvorum chaos`."""
        self._events = events
        self._workers = workers
        self.scenarios = Scenarios(folder, self._publish_run, command, self._publish_line)

    def _publish_run(self, run: ScenarioRun) -> None:
        self._events.publish("scenario", {**run.fields(whole=False), "timestamp_ms": SystemClock().wall_ms()})

    def _publish_line(self, run: ScenarioRun, line: str) -> None:
        # Not kept: later listeners read the run, and printed lines must not displace faults.
        self._events.publish("output", {"id": run.id, "number": run.lines_count, "line": line}, kept=False)

    async def list_shipped(self, call: Call[NoBody]) -> list[BaseModel]:
        """List the shipped scenarios with their cells (variants that can be run separately)."""
        return list(await self._workers.do(list_scenarios))

    async def list_scenario_runs(self, call: Call[NoBody]) -> list[BaseModel]:
        """List the runs, the oldest first."""
        return [ScenarioState.model_validate(each.fields(whole=False)) for each in self.scenarios.runs]

    async def run_scenario(self, call: Call[ScenarioRequest]) -> ScenarioState:
        """Run a scenario in its own cluster, one at a time; the served cluster is not changed."""
        wanted = call.body
        with translate_errors():
            try:
                run = await self.scenarios.start(wanted.scenario, wanted.seed, wanted.duration)
            except (ValueError, OSError) as error:
                raise FaultError(str(error)) from error
        return ScenarioState.model_validate(run.fields(whole=False))

    async def get_scenario_run(self, call: Call[NoBody]) -> ScenarioDetail:
        """Return a run, with its output and the checker's verdict."""
        return ScenarioDetail.model_validate(self._run_of(call).fields(whole=True))

    async def stop_scenario_run(self, call: Call[NoBody]) -> ScenarioDetail:
        """End a run; the response is sent after its repair, final reads and verdict."""
        run = self._run_of(call)
        await self.scenarios.stop(run)
        return ScenarioDetail.model_validate(run.fields(whole=True))

    async def get_scenario_report(self, call: Call[NoBody]) -> Stream:
        """Return a run's report: one self-contained HTML page; 409 while it runs."""
        run = self._run_of(call)
        cells = await self._workers.do(self.scenarios.cells, run)
        cell = CELL.of(call) or (cells[0] if len(cells) == 1 else "")
        with translate_errors():
            if not cells and run.state == "running":
                raise Busy("the run is not finished: there is no report yet")
            if not cells:
                raise NoReport("the run has no history, so there is no report")
            if cell not in cells:
                raise BadInput("cell", f"select a cell of this run: {', '.join(cells)}")
            path = await self.scenarios.report(run, cell)
            file = await self._workers.do(lambda: path.open("rb"))

        async def pieces() -> AsyncIterator[bytes]:
            with file:
                while piece := await asyncio.to_thread(file.read, CHUNK_BYTES):
                    yield piece

        return Stream(media=HTML, chunks=pieces())

    def _run_of(self, call: Call[B]) -> ScenarioRun:
        """Return the run in the path. Raises BadInput, Refused."""
        run_id = RUN_ID.of(call)
        run = self.scenarios.run(run_id)
        if run is None:
            raise HttpError(404, "NOT_FOUND", f"run {run_id} does not exist")
        return run

    def operations(self) -> Sequence[Operation]:
        """Return the paths."""
        runs, run = f"{PREFIX}/scenarios", f"{PREFIX}/scenarios/{{id}}"
        return [
            Operation.get(f"{PREFIX}/shipped", "List the scenarios", self.list_shipped, Shipped, many=True),
            Operation.get(runs, "List the runs", self.list_scenario_runs, ScenarioState, many=True),
            Operation(
                method="POST",
                path=runs,
                summary="Run a scenario",
                handle=self.run_scenario,
                body=ScenarioRequest,
                answer=ScenarioState,
                status=202,
            ),
            Operation.get(
                run, "Get a run with its verdicts", self.get_scenario_run, ScenarioDetail, parameters=(RUN_ID,)
            ),
            Operation(
                method="DELETE",
                path=run,
                summary="End a run",
                handle=self.stop_scenario_run,
                answer=ScenarioDetail,
                parameters=(RUN_ID,),
            ),
            Operation(
                method="GET",
                path=f"{run}/report",
                summary="Get the report of a run",
                handle=self.get_scenario_report,
                media=(HTML,),
                parameters=(RUN_ID, CELL),
            ),
        ]


def list_scenarios() -> list[Shipped]:
    """Return the scenarios that can be run."""
    found: list[Shipped] = []
    for name in files.shipped_scenarios():
        cells = files.find(name)
        title = cells[0].title if len(cells) == 1 else name
        named = [Cell(name=each.name, title=each.title, seconds=each.duration) for each in cells]
        found.append(Shipped(name=name, title=title, cells=named))
    return found
