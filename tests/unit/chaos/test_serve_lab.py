"""The HTTP interface to a cluster on paper: whom words stand for, what ends by itself, seeds, reports of scenarios."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from kvorum.chaos.faults.disks import DiskFaults
from kvorum.chaos.faults.observer import Observer, PartitionView
from kvorum.chaos.serve import scenarios as serve_scenarios
from kvorum.chaos.serve.scenarios import Scenarios
from kvorum.chaos.serve.server import ChaosServer
from tests.unit.chaos.paper import KNOWN, PRETENDER, Api, Paper, api_of, event, on_paper

Story = Callable[[Api, Paper, "TestClient[Any, Any]"], Awaitable[None]]
ORDERS = PartitionView(leader=2, leader_epoch=1, replicas=(1, 2, 3), isr=(1, 2, 3))


class Seen(Observer):
    """A cluster of three in which 1 is the active controller and 2 leads orders-0, of which two are to be in sync."""

    min_isr = 2

    def __init__(self) -> None:
        super().__init__({}, {}, lambda requested: self.min_isr)

    def partitions(self) -> dict[str, PartitionView]:
        return {"orders-0": ORDERS, "lost-0": PartitionView(-1, 4, (1, 2, 3), ())}

    def active_controller(self, timeout_ms: int = 0) -> int | None:
        return 1


def play(tmp_path: Path, story: Story, server: ChaosServer | None = None, paper: Paper | None = None) -> None:
    """Play it against a cluster of three nodes."""

    async def main() -> None:
        made = on_paper(tmp_path, 3, observer=Seen())
        used, written = server or made[0], paper or made[1]
        async with asyncio.timeout(30), TestClient(TestServer(used.build())) as client:
            await story(api_of(client), written, client)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fault", "target", "named", "done"),
    [
        ("kill", "active-controller", "node-1", ["kill node-1"]),
        ("kill", "leader orders-0", "node-2", ["kill node-2"]),
        ("kill", "followers orders-0", "node-1,node-3", ["kill node-1", "kill node-3"]),
        ("kill", "leader orders-0/broker", "node-2/broker", ["kill node-2 broker"]),
        (
            "kill",
            "node-1/broker,node-3/broker",
            "node-1/broker,node-3/broker",
            ["kill node-1 broker", "kill node-3 broker"],
        ),
        ("pause", "standby-controllers/controller", "", ["pause node-2 controller", "pause node-3 controller"]),
        ("pause", "not node-2", "", ["pause node-1", "pause node-3"]),
        ("terminate", "node-1, node-2", "", ["stop node-1 node-2"]),
        ("restart", "all", "node-1,node-2,node-3", ["stop node-1 node-2 node-3", "start node-1 node-2 node-3"]),
    ],
)
def test_selectors_resolve_to_nodes_and_one_target_to_several(
    tmp_path: Path, fault: str, target: str, named: str, done: list[str]
) -> None:
    async def story(api: Api, paper: Paper, client: Any) -> None:
        status, found = await api("POST", "/faults", {"fault": fault, "targets": [target]})
        assert status in (200, 201), found
        assert paper.done == done
        assert not named or ",".join(found["targets"]) == named
        _, in_force = await api("GET", "/faults")
        assert len(in_force) == (status == 201), "several at once are one fault, which ends as one"

    play(tmp_path, story)


def test_a_partition_without_a_leader_is_reported_as_such(tmp_path: Path) -> None:
    async def story(api: Api, paper: Paper, client: Any) -> None:
        status, problem = await api("POST", "/faults", {"fault": "kill", "targets": ["leader lost-0"]})
        assert (status, problem["error"]) == (409, "NOT_POSSIBLE_NOW") and "no leader now" in problem["message"]
        assert paper.done == []

    play(tmp_path, story)


def test_the_active_controller_is_killed_on_each_node(tmp_path: Path) -> None:
    async def story(api: Api, paper: Paper, client: Any) -> None:
        status, found = await api("POST", "/faults", {"fault": "controller_kill"})
        assert (status, found["targets"]) == (201, ["node-1"]) and "the active controller" in found["story"]
        process = {"fault": "controller_kill", "options": {"process": True}}
        assert (await api("POST", "/faults", {**process, "seconds": 3}))[1]["field"] == "seconds"
        status, found = await api("POST", "/faults", process)
        assert (status, found["in_force"]) == (200, False), "its supervisor starts it again"
        assert paper.done == ["kill node-1", "kill node-1 controller"]

    play(tmp_path, story)


def test_enough_followers_stop_to_shrink_the_isr_below_its_minimum(tmp_path: Path) -> None:
    async def story(api: Api, paper: Paper, client: Any) -> None:
        status, found = await api("POST", "/faults", {"fault": "isr_below_min", "targets": ["orders-0"]})
        assert status == 201 and sorted(paper.done) == ["pause node-1 broker", "pause node-3 broker"]
        assert "below min.insync.replicas 2" in found["story"] and "stop following node-2" in found["story"]
        await api("DELETE", f"/faults/{found['id']}")
        assert sorted(paper.done[2:]) == ["resume node-1 broker", "resume node-3 broker"]
        Seen.min_isr = 3
        killing = {"fault": "isr_below_min", "targets": ["orders-0"], "options": {"how": "kill"}, "seed": 4}
        _, first = await api("POST", "/faults", killing)
        assert len(first["targets"]) == 1, "one less than three is enough"
        again = [(await api("POST", "/faults", killing))[1]["targets"] for _ in range(3)]
        assert again == [first["targets"]] * 3, "the seed chooses"
        for minimum, why in ((1, "is 1"), (4, "3 in-sync replicas, already fewer than 4")):
            Seen.min_isr = minimum
            status, problem = await api("POST", "/faults", {"fault": "isr_below_min", "targets": ["orders-0"]})
            assert status == 422 and why in problem["message"]

    try:
        play(tmp_path, story)
    finally:
        Seen.min_isr = 2


def test_chance_has_a_seed_which_is_reported(tmp_path: Path) -> None:
    async def story(api: Api, paper: Paper, client: Any) -> None:
        body = {"fault": "kill", "targets": ["random"]}
        reported = [(await api("POST", "/faults", body))[1] for _ in range(8)]
        assert len({each["targets"][0] for each in reported}) > 1, "eight of eight the same: once in 2,187 times"
        for each in reported:
            _, again = await api("POST", "/faults", {**body, "seed": each["seed"]})
            assert (again["targets"], again["seed"]) == (each["targets"], each["seed"])

    play(tmp_path, story)


def test_flipped_bits_are_those_of_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []
    monkeypatch.setattr(DiskFaults, "flip_bits", lambda disks, *options: drawn.append(disks.rng.random()))

    async def story(api: Api, paper: Paper, client: Any) -> None:
        body = {"fault": "flip_bits", "targets": ["node-1"], "options": {"what": "orders-0"}}
        for seed in (7, 7, 8):
            assert (await api("POST", "/faults", {**body, "seed": seed}))[0] == 200
        assert drawn[0] == drawn[1] != drawn[2]

    play(tmp_path, story)


def test_a_fault_ends_by_itself_after_its_seconds(tmp_path: Path) -> None:
    async def story(api: Api, paper: Paper, client: Any) -> None:
        events = await client.get("/v1/chaos/events", headers=KNOWN)
        _, lasting = await api("POST", "/faults", {"fault": "pause", "targets": ["node-1"], "seconds": 3600})
        _, brief = await api("POST", "/faults", {"fault": "pause", "targets": ["node-2"], "seconds": 0.01})
        assert lasting["ends_ms"] > brief["ends_ms"]
        ended = [each async for each in until_end_of(events, brief["id"])]
        assert ended[-1]["phase"] == "end"
        _, (left,) = await api("GET", "/faults")
        assert (left["id"], left["ends_ms"]) == (lasting["id"], lasting["ends_ms"])
        await api("DELETE", f"/faults/{lasting['id']}")
        assert paper.done == ["pause node-1", "pause node-2", "resume node-2", "resume node-1"]
        events.close()

    play(tmp_path, story)


async def until_end_of(events: Any, fault_id: int) -> Any:
    while True:
        found = await event(events)
        yield found
        if (found["id"], found["phase"]) == (fault_id, "end"):
            return


def test_a_failed_end_is_reported_with_the_fault_still_active(tmp_path: Path) -> None:
    server, paper = on_paper(tmp_path)
    paper.is_broken = True

    async def story(api: Api, written: Paper, client: Any) -> None:
        await api("POST", "/faults", {"fault": "pause", "targets": ["node-1"], "seconds": 0.01})
        events = await client.get("/v1/chaos/events", headers=KNOWN)
        assert [(await event(events)).get("failure") for _ in range(2)] == [None, "nobody can be resumed"]
        events.close()
        _, (left,) = await api("GET", "/faults")
        assert left["failure"] == "nobody can be resumed"
        paper.is_broken = False
        await api("DELETE", f"/faults/{left['id']}")
        assert (await api("GET", "/faults"))[1] == [] and paper.done[-1] == "resume node-1"

    play(tmp_path, story, server, paper)


@pytest.mark.parametrize("outlives", [True, False])
def test_timed_faults_end_with_the_server_if_the_cluster_continues(tmp_path: Path, outlives: bool) -> None:
    server, paper = on_paper(tmp_path, outlives=outlives)

    async def story(api: Api, written: Paper, client: Any) -> None:
        await api("POST", "/faults", {"fault": "pause", "targets": ["node-1"], "seconds": 3600})
        await api("POST", "/faults", {"fault": "pause", "targets": ["node-2"]})

    play(tmp_path, story, server, paper)
    assert paper.done == ["pause node-1", "pause node-2", *(["resume node-1"] if outlives else [])]


# Scenarios.


def pretender(tmp_path: Path) -> tuple[str, ...]:
    """A stand-in for the command, which is what real runs need minutes for."""
    script = tmp_path / "pretender.py"
    script.write_text(PRETENDER)
    return sys.executable, str(script)


async def ended(scenarios: Scenarios) -> None:
    assert scenarios._running is not None
    await scenarios._running[1]


def test_of_two_scenarios_at_once_one_is_begun(tmp_path: Path) -> None:
    """Both came before either had begun: they had one number, one folder, and nobody ended the first."""

    async def main() -> None:
        scenarios = Scenarios(tmp_path / "runs", lambda run: None, pretender(tmp_path))
        found = await asyncio.gather(*(scenarios.start("good", 1, None) for _ in range(3)), return_exceptions=True)
        assert [type(each).__name__ for each in found] == ["ScenarioRun", "Busy", "Busy"]
        await ended(scenarios)
        assert [run.state for run in scenarios.runs] == ["held"]
        assert [path.name for path in (tmp_path / "runs").iterdir()] == ["0001-good"]

    asyncio.run(main())


def test_a_run_without_a_verdict_still_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed "running" for ever, and what stopped it would have stopped the next one."""

    async def main() -> None:
        scenarios = Scenarios(tmp_path / "runs", lambda run: None, pretender(tmp_path))
        run = await scenarios.start("good", 1, None)

        async def refused(*command: str, **more: Any) -> Any:
            raise OSError("too many processes")

        monkeypatch.setattr(asyncio, "create_subprocess_exec", refused)
        await ended(scenarios)
        assert run.state == "held" and "too many processes" in run.verdicts["good"]["error"]
        monkeypatch.undo()
        following = await scenarios.start("long", 1, None)
        await scenarios.stop(run)
        assert following.process is not None and following.process.returncode is None
        await scenarios.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("broken", "state", "exit_code"), [("histories", "held", 0), ("line_of", "could not run", None)]
)
def test_a_run_with_unreadable_output_ends_with_the_reason(
    broken: str, state: str, exit_code: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason: threads that cannot be had are no OSError. What it found itself before stays true."""

    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        reported: list[str] = []
        scenarios = Scenarios(tmp_path / "runs", lambda run: reported.append(run.state), pretender(tmp_path))
        monkeypatch.setattr(serve_scenarios, broken, refused)
        run = await scenarios.start("good", 1, None)
        assert scenarios._running is not None
        await asyncio.wait([scenarios._running[1]])
        assert (run.state, run.exit_code) == (state, exit_code)
        assert run.lines[-1] == "the output could not be read to its end: RuntimeError: can't start new thread"
        assert reported == ["running", state]
        assert run.process is not None and run.process.returncode is not None, "nobody reads it any more"
        monkeypatch.undo()
        await scenarios.start("good", 1, None)
        await ended(scenarios)

    asyncio.run(main())


def test_numbers_of_runs_continue_behind_those_of_a_server_before(tmp_path: Path) -> None:
    (tmp_path / "runs" / "0041-good").mkdir(parents=True)

    async def main() -> None:
        scenarios = Scenarios(tmp_path / "runs", lambda run: None, pretender(tmp_path))
        assert (await scenarios.start("good", 1, None)).id == 42
        await ended(scenarios)

    asyncio.run(main())


def test_the_report_of_a_run_is_served_and_created_if_missing(tmp_path: Path) -> None:
    server, paper = on_paper(tmp_path)
    server.command = pretender(tmp_path)

    async def story(api: Api, written: Paper, client: Any) -> None:
        events = await client.get("/v1/chaos/events", headers=KNOWN)

        async def run(name: str) -> tuple[int, dict[str, Any]]:
            _, begun = await api("POST", "/scenarios", {"scenario": name})
            while (reported := await event(events)).get("state", "running") == "running":
                assert reported["id"] == begun["id"]
            return begun["id"], (await api("GET", f"/scenarios/{begun['id']}"))[1]

        async def report(run_id: int, **query: str) -> tuple[int, str, str]:
            path = f"/v1/chaos/scenarios/{run_id}/report"
            async with client.get(path, params=query, headers=KNOWN) as answer:
                return answer.status, answer.content_type, await answer.text()

        good, found = await run("good")
        assert found["state"] == "held" and found["verdicts"]["good"]["valid"] is True
        status, media, text = await report(good)
        assert (status, media) == (200, "text/html") and "<title>of the run</title>" in text
        bad, _ = await run("bad")
        assert "<title>made now</title>" in (await report(bad))[2]
        assert (await report(bad, cell="../0001-good/good"))[0] == 400
        two, _ = await run("two")
        status, _, text = await report(two)
        assert status == 400 and "other, two" in text
        assert (await report(two, cell="other"))[0] == 200
        broken, _ = await run("broken")
        status, media, text = await report(broken)
        assert (status, media) == (404, "application/problem+json") and "no report for this run" in text
        assert (await report(99))[0] == 404
        _, begun = await api("POST", "/scenarios", {"scenario": "long"})
        status, _, text = await report(begun["id"])
        assert status == 409 and "not finished" in text
        assert (await api("POST", "/scenarios", {"scenario": "good"}))[1]["error"] == "NOT_POSSIBLE_NOW"
        events.close()

    play(tmp_path, story, server, paper)
