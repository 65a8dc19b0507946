"""A manager over topics in memory: what outlives it, what it adopts, when it stops."""

import asyncio

import pytest

from kvorum.pipelines.connect import records
from kvorum.pipelines.connect.errors import Fenced, Unavailable
from kvorum.pipelines.connect.keeper import FAILURES_MAX
from kvorum.pipelines.connect.runner import Worker
from kvorum.pipelines.run.state import State
from tests.unit.pipelines.connect.fakes import FakeRunner, MemoryStore, manager

CONFIG = {"connector.class": "GeneratorSource", "rate": "5", "topic": "numbers", "tasks.max": "2"}


def run(coroutine) -> None:
    asyncio.run(coroutine)


def test_a_new_manager_goes_on_with_the_workers_of_the_one_before() -> None:
    async def go() -> None:
        store, runner = MemoryStore(), FakeRunner()
        async with manager(store, runner) as first:
            await first.call("PUT", "/connectors/a/config", CONFIG)
            await first.call("PUT", "/connectors/b/config", CONFIG)
            await first.until_states("a", "RUNNING", "RUNNING")
            await first.until_states("b", "RUNNING", "RUNNING")
            await first.call("PUT", "/connectors/b/stop")
            await first.until_states("b", "STOPPED")
        runner.calls.clear()
        async with manager(MemoryStore(store.topics), runner) as second:
            await second.until_states("a", "RUNNING", "RUNNING")
            await second.until_states("b", "STOPPED")
            assert (await second.call("GET", "/connectors/a/config"))[1] == {**CONFIG, "name": "a"}
            assert second.herder.generation == 2
        assert [call for call in runner.calls if call[0] != "offsets"] == []

    run(go())


def test_a_change_with_a_condition_is_refused() -> None:
    async def go() -> None:
        async with manager() as fake:
            for name in ("If-None-Match", "If-Match", "If-Unmodified-Since", "If-Something-New"):
                assert (await fake.call("PUT", "/connectors/a/config", CONFIG, headers={name: "*"}))[0] == 412
                assert await fake.call("GET", "/connectors", headers={name: "*"}) == (200, [])

    run(go())


def test_what_changed_while_no_manager_ran_is_put_right() -> None:
    """One worker has died, one has another configuration, one belongs to no connector any more."""

    async def go() -> None:
        store, runner = MemoryStore(), FakeRunner()
        async with manager(store, runner) as first:
            for name in ("dead", "other", "gone"):
                await first.call("PUT", f"/connectors/{name}/config", CONFIG)
                await first.until_states(name, "RUNNING", "RUNNING")
        runner.ends("dead", State.FAILED, "killed")
        runner.workers["other"] = Worker(alive=True, state=State.RUNNING, revision="another")
        store.topics.records.append(records.connector("gone", None))
        runner.calls.clear()
        async with manager(MemoryStore(store.topics), runner) as second:
            await second.until(lambda: ("stop", "gone") in runner.calls, "gone stopped")
            await second.until_states("other", "RUNNING", "RUNNING")
            second.clock.ms += 60_000
            await second.until(lambda: ("start", "dead") in runner.calls, "dead started")
            assert ("stop", "other") in runner.calls and ("start", "other") in runner.calls

    run(go())


def test_a_worker_that_fails_again_and_again_is_given_up_with_its_trace_until_somebody_restarts_it() -> None:
    async def go() -> None:
        runner = FakeRunner(fails={"a": "ValueError: no such table"})
        async with manager(runner=runner) as fake:
            await fake.call("PUT", "/connectors/a/config", CONFIG)

            async def given_up() -> bool:
                fake.clock.ms += 60_000
                status = (await fake.call("GET", "/connectors/a/status"))[1]
                return [task["state"] for task in status["tasks"]] == ["FAILED"]

            await fake.until(given_up, "given up")
            assert runner.calls.count(("start", "a")) == FAILURES_MAX
            status = (await fake.call("GET", "/connectors/a/status"))[1]
            assert status["tasks"][0]["trace"] == "ValueError: no such table"
            runner.fails.clear()
            code, told = await fake.call("POST", "/connectors/a/restart?includeTasks=true&onlyFailed=true")
            assert (code, told["tasks"][0]["state"]) == (202, "RESTARTING")
            await fake.until_states("a", "RUNNING", "RUNNING")

    run(go())


def test_a_lasting_failure_is_one_start_until_a_restart_another_configuration_or_a_new_connector() -> None:
    async def go() -> None:
        runner = FakeRunner(fails={"a": "json: not of the schema"}, lasting=True)
        starts = 0
        async with manager(runner=runner) as fake:
            for method, path, body in (
                ("PUT", "/connectors/a/config", CONFIG),
                ("POST", "/connectors/a/restart?includeTasks=true&onlyFailed=true", None),
                ("PUT", "/connectors/a/config", {**CONFIG, "rate": "6"}),
                ("DELETE", "/connectors/a", None),
                ("POST", "/connectors", {"name": "a", "config": {**CONFIG, "rate": "6"}}),
            ):
                assert (await fake.call(method, path, body))[0] < 300
                if method == "DELETE":
                    await fake.until(lambda: "a" not in fake.herder._keepers, "its keeper has ended")
                    continue
                starts += 1
                await fake.until(lambda wanted=starts: runner.calls.count(("start", "a")) == wanted, "started")
                status = await fake.until_states("a", "RUNNING", "FAILED")
                assert status["tasks"][0]["trace"] == "json: not of the schema"
                fake.clock.ms += 3_600_000
                for _ in range(3):
                    await fake.herder._keepers["a"].look()
                assert runner.calls.count(("start", "a")) == starts

    run(go())


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"tasks.max": "two"}, "Invalid value two for configuration tasks.max: input should be a valid integer"),
        ({"rate": "many"}, "Invalid value many for configuration rate: input should be a valid integer"),
        ({"rete": "1"}, "Invalid value 1 for configuration rete: unknown key; did you mean 'rate'?"),
        ({"errors.tolerance": "some"}, "Invalid value some for configuration errors.tolerance: "),
        ({"transforms": "t"}, "transforms.t.type"),
        ({"rate": "x" * 200}, f"Invalid value {'x' * 100}... for configuration rate: "),
        (
            {"connector.class": "JdbcSource", "connection.url": "mysql://me:sesame@db/x", "mode": "bulk", "table": "t"},
            "Invalid value mysql://me:[hidden]@db/x for configuration connection.url: ",
        ),
    ],
)
def test_an_error_of_a_configuration_names_key_and_value(change: dict[str, str], line: str) -> None:
    async def go() -> None:
        async with manager() as fake:
            config = {**CONFIG, **change}
            for method, path, body in (
                ("POST", "/connectors", {"name": "a", "config": config}),
                ("PUT", "/connectors/a/config", config),
            ):
                status, found = await fake.call(method, path, body)
                assert status == 400 and any(line in each for each in found["message"].splitlines()), found
                assert "sesame" not in str(found)

    run(go())


def test_a_trace_has_no_secret_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2222")
    config = {
        "connector.class": "JdbcSource",
        "connection.url": "postgresql://kv:sesame@h/db",
        "connection.password": "${env:DB_PASSWORD}",
        "topic.prefix": "p-",
        "mode": "bulk",
    }

    async def go() -> None:
        runner = FakeRunner(fails={"a": "cannot log in as kv with hunter2222 at postgresql://kv:sesame@h/db"})
        store = MemoryStore()
        async with manager(store, runner) as fake:
            # Put behind the checks: what matters is what becomes of the trace.
            await fake.herder.submit(lambda: fake.herder.put("a", config, new=True))

            async def traced() -> str:
                status = (await fake.call("GET", "/connectors/a/status"))[1]
                return str([each.get("trace") for each in (status["connector"], *status["tasks"])])

            await fake.until(lambda: "a" in runner.specs or fake.herder.state.connector_statuses, "a try")
            text = await fake.until(lambda: _with_trace(traced), "a trace")
            assert "hunter2222" not in text and "sesame" not in text
            assert (await fake.call("GET", "/connectors/a/config"))[1]["connection.password"] == "${env:DB_PASSWORD}"
        written = "".join(str(record.value) for record in store.topics.records)
        assert "hunter2222" not in written

    async def _with_trace(traced) -> str:
        text = await traced()
        return text if "hidden" in text or "Error" in text else ""

    run(go())


def test_who_was_fenced_writes_nothing_and_leads_no_more() -> None:
    async def go() -> None:
        store = MemoryStore()
        async with manager(store) as first, manager(MemoryStore(store.topics)) as second:
            code, told = await first.call("PUT", "/connectors/a/config", CONFIG)
            assert (code, told["error_code"]) == (409, 409)
            assert isinstance((await asyncio.gather(first.leading, return_exceptions=True))[0], Fenced)
            assert (await first.call("GET", "/connectors"))[0] == 409
            assert (await second.call("PUT", "/connectors/a/config", CONFIG))[0] == 201

    run(go())


def test_a_write_whose_fate_is_unknown_ends_the_leadership() -> None:
    async def go() -> None:
        store = MemoryStore()
        async with manager(store) as fake:
            store.broken = Unavailable("timed out")
            assert (await fake.call("PUT", "/connectors/a/config", CONFIG))[0] == 409
            assert isinstance((await asyncio.gather(fake.leading, return_exceptions=True))[0], Unavailable)
            assert not fake.herder.leading and not fake.herder._keepers

    run(go())


def test_one_that_follows_passes_requests_on_once() -> None:
    class Led:
        """An election that another one has won."""

        url: str | None = None

        def begin(self, changed) -> None:
            pass

        async def leader(self) -> str | None:
            return self.url

        async def end(self) -> None:
            pass

    async def go() -> None:
        election = Led()
        async with manager() as leader, manager(election=election, lead=False) as follower:
            assert (await follower.call("GET", "/connectors"))[0] == 409  # nobody leads
            election.url = str(leader.client.make_url("/"))
            code, made = await follower.call("POST", "/connectors", {"name": "a", "config": CONFIG})
            assert (code, made["name"]) == (201, "a")
            assert (await follower.call("GET", "/connectors?expand=info&expand=status"))[1]["a"].keys() == {
                "info",
                "status",
            }
            assert (await follower.call("GET", "/connectors?forward=false"))[0] == 409
            assert (await follower.call("GET", "/connectors/none"))[0] == 404
            assert (await follower.call("GET", "/connector-plugins"))[0] == 200

    run(go())


def test_handing_over_ends_the_workers_and_says_so() -> None:
    async def go() -> None:
        store, runner = MemoryStore(), FakeRunner()
        async with manager(store, runner) as fake:
            await fake.call("PUT", "/connectors/a/config", CONFIG)
            await fake.until_states("a", "RUNNING", "RUNNING")
            await fake.herder.submit(fake.herder.hand_over)
            assert not await runner.alive()
            assert fake.herder.state.task_statuses["a"].worker_id == ""
            assert fake.herder.state.leader is None

    run(go())


def test_positions_are_kept_and_a_reset_is_a_new_run() -> None:
    async def go() -> None:
        runner = FakeRunner(offsets={"a": [{"orders": {"0": 7, "1": 9}}]})
        config = {"connector.class": "FilesSink", "topics": "orders", "path": "/tmp/x", "format": "json"}
        async with manager(runner=runner) as fake:
            assert (await fake.call("PUT", "/connectors/a/config", config))[0] == 201
            await fake.until_states("a", "RUNNING", "RUNNING")
            partition = {"kafka_topic": "orders", "kafka_partition": 1}
            found = (await fake.call("GET", "/connectors/a/offsets"))[1]["offsets"]
            assert {"partition": partition, "offset": {"kafka_offset": 9}} in found and len(found) == 2
            assert (await fake.call("DELETE", "/connectors/a/offsets"))[0] == 400
            topics = await fake.until(lambda: fake.herder.state.topics.get("a"), "topics")
            assert list(topics) == ["orders"]
            await fake.call("PUT", "/connectors/a/stop")
            await fake.until_states("a", "STOPPED")
            body = {"offsets": [{"partition": partition, "offset": {"kafka_offset": "3"}}]}
            assert (await fake.call("PATCH", "/connectors/a/offsets", body))[0] == 200
            assert len((await fake.call("GET", "/connectors/a/offsets"))[1]["offsets"]) == 2
            await fake.call("PUT", "/connectors/a/resume")
            await fake.until_states("a", "RUNNING", "RUNNING")
            source = runner.specs["a"].source.settings
            assert source["startingOffsets"] == {"orders": {"0": 7, "1": 3}}
            assert runner.specs["a"].checkpoint == "/nowhere/a/1"

    run(go())
