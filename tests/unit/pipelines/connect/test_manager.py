"""A manager over topics in memory: its start, its connectors, and its end when another one takes over."""

import asyncio
from collections.abc import Iterator

import pytest

from kvorum.pipelines.connect import herder as module
from kvorum.pipelines.connect import state as records
from kvorum.pipelines.connect.errors import Fenced, Superseded, Unavailable
from kvorum.pipelines.connect.keeper import RESTARTS_MAX
from kvorum.pipelines.connect.state import Record, Topic
from kvorum.pipelines.run.state import State
from tests.unit.pipelines.connect.fakes import Fake, FakeRunner, MemoryStore, manager

CONFIG = {"connector.class": "GeneratorSource", "rate": "5", "topic": "numbers", "tasks.max": "2"}


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    yield


def run(coroutine) -> None:
    asyncio.run(coroutine)


def test_a_new_manager_starts_the_connectors_of_the_earlier_one() -> None:
    """Those that were stopped, or had finished, stay so."""

    async def go() -> None:
        store, runner = MemoryStore(), FakeRunner()
        async with manager(store, runner) as first:
            for name in ("runs", "stopped", "finished"):
                await first.call("PUT", f"/connectors/{name}/config", CONFIG)
                await first.until_states(name, "RUNNING", "RUNNING")
            await first.call("PUT", "/connectors/stopped/stop")
            await first.until_states("stopped", "STOPPED")
            runner.ends("finished", State.FINISHED)
            await first.until_states("finished", "STOPPED")
        other = FakeRunner()  # another machine: workers and their folders are not there
        async with manager(MemoryStore(store.topics), other) as second:
            await second.until_states("runs", "RUNNING", "RUNNING")
            await second.until_states("stopped", "STOPPED")
            await second.until_states("finished", "STOPPED")
            assert (await second.call("GET", "/connectors/runs/config"))[1] == {**CONFIG, "name": "runs"}
            assert second.herder.generation == 2
            assert [call for call in other.calls if call[0] != "offsets"] == [("end", ""), ("start", "runs")]

    run(go())


def test_a_finished_connector_runs_again_after_a_change_a_resume_or_a_restart() -> None:
    async def go() -> None:
        runner = FakeRunner()
        async with manager(runner=runner) as fake:
            starts = 0
            for method, path, body in (
                ("PUT", "/connectors/a/config", CONFIG),
                ("PUT", "/connectors/a/config", {**CONFIG, "rate": "6"}),
                ("PUT", "/connectors/a/resume", None),
                ("POST", "/connectors/a/restart", None),
            ):
                assert (await fake.call(method, path, body))[0] < 300
                starts += 1
                await fake.until(lambda wanted=starts: runner.calls.count(("start", "a")) == wanted, "started")
                runner.ends("a", State.FINISHED)
                await fake.until_states("a", "STOPPED")
            assert (await fake.call("PUT", "/connectors/a/config", {**CONFIG, "rate": "6"}))[0] == 200
            for _ in range(3):
                await fake.herder.keepers["a"].look()
            assert runner.calls.count(("start", "a")) == starts, "the same configuration is no change"

    run(go())


def test_statuses_of_a_manager_that_was_killed_are_not_those_of_the_next_one() -> None:
    async def go() -> None:
        store = MemoryStore()
        async with manager(store) as first:
            await first.call("PUT", "/connectors/a/config", CONFIG)
            await first.until_states("a", "RUNNING", "RUNNING")
        stuck = FakeRunner(fails={"a": "nothing starts here"})
        async with manager(MemoryStore(store.topics), stuck) as second:
            states = [record.value["state"] for record in store.topics.records if record.key == "status-task-a-0"]
            assert states[-1] != "RUNNING"
            await second.until_states("a", "RUNNING", "FAILED")

    run(go())


def test_a_change_with_a_condition_is_refused() -> None:
    async def go() -> None:
        async with manager() as fake:
            for name in ("If-None-Match", "If-Match", "If-Unmodified-Since", "If-Something-New"):
                assert (await fake.call("PUT", "/connectors/a/config", CONFIG, headers={name: "*"}))[0] == 412
                assert await fake.call("GET", "/connectors", headers={name: "*"}) == (200, [])

    run(go())


def test_a_process_that_ends_again_and_again_is_given_up_with_its_trace_until_a_restart() -> None:
    async def go() -> None:
        runner = FakeRunner(fails={"a": "killed"}, died=True)
        async with manager(runner=runner) as fake:
            await fake.call("PUT", "/connectors/a/config", CONFIG)

            async def given_up() -> bool:
                fake.clock.seconds += 60
                status = (await fake.call("GET", "/connectors/a/status"))[1]
                return [task["state"] for task in status["tasks"]] == ["FAILED"]

            await fake.until(given_up, "given up")
            assert runner.calls.count(("start", "a")) == RESTARTS_MAX + 1
            status = (await fake.call("GET", "/connectors/a/status"))[1]
            assert status["tasks"][0]["trace"] == "killed"
            runner.fails.clear()
            code, told = await fake.call("POST", "/connectors/a/restart?includeTasks=true&onlyFailed=true")
            assert (code, told["tasks"][0]["state"]) == (202, "RESTARTING")
            await fake.until_states("a", "RUNNING", "RUNNING")

    run(go())


def test_a_reported_failure_is_one_start_until_a_restart_another_configuration_or_a_new_connector() -> None:
    async def go() -> None:
        runner = FakeRunner(fails={"a": "json: not of the schema"})
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
                    await fake.until(lambda: "a" not in fake.herder.keepers, "its keeper has ended")
                    continue
                starts += 1
                await fake.until(lambda wanted=starts: runner.calls.count(("start", "a")) == wanted, "started")
                status = await fake.until_states("a", "RUNNING", "FAILED")
                assert status["tasks"][0]["trace"] == "json: not of the schema"
                fake.clock.seconds += 3_600
                for _ in range(3):
                    await fake.herder.keepers["a"].look()
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

            await fake.until(lambda: "a" in runner.specs or fake.herder.existing("a").status, "a try")
            text = await fake.until(lambda: _with_trace(traced), "a trace")
            assert "hunter2222" not in text and "sesame" not in text
            assert (await fake.call("GET", "/connectors/a/config"))[1]["connection.password"] == "${env:DB_PASSWORD}"
        written = "".join(str(record.value) for record in store.topics.records)
        assert "hunter2222" not in written

    async def _with_trace(traced) -> str:
        text = await traced()
        return text if "hidden" in text or "Error" in text else ""

    run(go())


async def ended(fake: Fake) -> BaseException | None:
    async with asyncio.timeout(10):
        return (await asyncio.gather(fake.running, return_exceptions=True))[0]


def test_a_manager_that_starts_takes_over_and_the_earlier_one_ends_with_a_reason() -> None:
    async def go() -> None:
        store = MemoryStore()
        async with manager(store) as first:
            await first.call("PUT", "/connectors/a/config", CONFIG)
            async with manager(MemoryStore(store.topics)) as second:
                assert "another manager at 127.0.0.1:8083 took over the topics" in str(await ended(first))
                assert (await first.call("PUT", "/connectors/b/config", CONFIG))[0] == 409
                assert (await first.call("GET", "/connectors"))[0] == 409
                assert (await second.call("PUT", "/connectors/b/config", CONFIG))[0] == 201
                assert (await second.call("GET", "/connectors"))[1] == ["a", "b"]
                assert not second.running.done()

    run(go())


@pytest.mark.parametrize("problem", [Unavailable("timed out"), Fenced("fenced by nobody that wrote")])
def test_a_manager_whose_write_failed_reads_what_is_stored_and_continues(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 60.0)  # the request's write is the one that fails

    async def go() -> None:
        store, runner = MemoryStore(), FakeRunner()
        async with manager(store, runner) as fake:
            await fake.call("PUT", "/connectors/a/config", CONFIG)
            await fake.until_states("a", "RUNNING", "RUNNING")
            async with fake.herder._turn:
                store.topics.records.append(records.connector("b", CONFIG))  # written, but not acknowledged
                store.broken = problem
            assert (await fake.call("PUT", "/connectors/b/config", CONFIG))[0] == 409
            await fake.until(lambda: fake.herder.ready, "ready again")
            assert (await fake.call("GET", "/connectors"))[1] == ["a", "b"]
            await fake.until_states("b", "RUNNING", "RUNNING")
            assert runner.calls.count(("start", "a")) == 1 and runner.calls.count(("end", "")) == 1

    run(go())


def test_a_manager_that_was_away_does_not_take_the_topics_back() -> None:
    """Its write timed out while another manager took over: it ends without fencing that one."""

    async def go() -> None:
        store = MemoryStore()
        async with manager(store) as first:
            async with first.herder._turn:
                other = {"id": "x", "worker_id": "other:1", "checkpoints": "folder"}
                store.topics.records.append(Record(Topic.CONFIGS, records.MANAGER, other))
                store.broken, epoch = Unavailable("timed out"), store.topics.epoch
            assert "manager at other:1" in str(await ended(first))
            assert store.topics.epoch == epoch

    run(go())


def test_two_managers_that_start_at_once_leave_one() -> None:
    async def go() -> None:
        store = MemoryStore()
        async with manager(store) as first, manager(MemoryStore(store.topics)) as second:
            await first.until(lambda: first.running.done() != second.running.done(), "one of them ended")
            rest = second if first.running.done() else first
            assert isinstance(await ended(first if first.running.done() else second), Superseded)
            await rest.until(lambda: rest.herder.ready, "the other one is ready")
            assert (await rest.call("PUT", "/connectors/a/config", CONFIG))[0] == 201

    run(go())


def test_a_manager_without_the_checkpoints_of_the_earlier_one_is_refused_and_fences_nobody() -> None:
    async def go() -> None:
        store = MemoryStore()
        async with manager(store, checkpoints="one:/state (id 1)"):
            pass
        epoch = store.topics.epoch
        async with manager(MemoryStore(store.topics), checkpoints="two:/state (id 2)") as second:
            assert "are in one:/state (id 1)" in str(await ended(second)) and store.topics.epoch == epoch
        async with manager(MemoryStore(store.topics), checkpoints="s3a://c", may_move=True) as third:
            assert third.herder.ready

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
            topics = await fake.until(lambda: fake.herder.existing("a").topics, "topics")
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
