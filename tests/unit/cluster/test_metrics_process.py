"""What a process tells of itself, and how it is asked over HTTP."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvorum.cluster.http.observability import SLICE_SAMPLES, ObservabilityServer, serve_observability
from kvorum.cluster.metrics.process_metrics import (
    COUNTED_MAX,
    LAG_SECONDS,
    LOOK_MS,
    WARN_EVERY_MS,
    LoopWatch,
    build_info,
    follow_disk,
    watch_loop,
)
from kvorum.runtime import metric_names as names
from kvorum.runtime.clock import SystemClock
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import HttpEndpoint
from kvorum.runtime.metrics import Metrics
from kvorum.runtime.recent import Recent
from sim.clock import SimClock
from sim.loop import SimLoop


def test_recent_forgets_what_is_older_than_its_window() -> None:
    recent = Recent(10)
    assert (recent.mean(0), recent.largest(0), recent.total(0), recent.rate(0)) == (0, 0, 0, 0)
    recent.add(1, 500)
    recent.add(5, 700)
    recent.add(3, 9_000)
    assert recent.mean(9_000) == 3
    assert recent.largest(9_999) == 5
    assert recent.total(9_999) == 9
    assert recent.rate(9_999) == pytest.approx(0.9)
    assert recent.largest(10_000) == 3
    assert recent.total(19_000) == 0


def test_recent_keeps_one_slot_per_second() -> None:
    recent = Recent(10)
    for now_ms in range(0, 100_000, 7):
        recent.add(1, now_ms)
    assert len(recent._slots) == 10


def test_a_loop_that_stood_still_reports_for_how_long_and_forgets_it_later() -> None:
    loop = SimLoop(random.Random(1))
    watch = LoopWatch(Metrics(), SimClock(loop), cpu_seconds=lambda: 0.0)

    async def go() -> None:
        watch.start()
        await asyncio.sleep(1)
        assert watch.lag_seconds() < 0.002
        loop._now += 0.7  # no callback ran meanwhile
        await asyncio.sleep(0.5)
        assert watch.lag_seconds() == pytest.approx(0.7, abs=LOOK_MS / 1000)
        await asyncio.sleep(LAG_SECONDS + 1)
        assert watch.lag_seconds() < 0.002

    loop.run_until_complete(go())
    watch.close()
    loop.close()


def test_all_callbacks_due_during_a_halt_count() -> None:
    """100 s with a halt of 5 s at their begin: of what came due in this time one in twenty was late, by 0 to 5 s."""
    loop = SimLoop(random.Random(1))
    metrics = Metrics()
    watch = LoopWatch(metrics, SimClock(loop), cpu_seconds=lambda: 0.0)
    lag = metrics.histogram(names.EVENT_LOOP_LAG).labels()

    async def go() -> None:
        watch.start()
        loop._now += 5
        await asyncio.sleep(95)
        assert sum(lag.counts) == pytest.approx(1_000, abs=2)
        assert sum(lag.counts[1:]) == pytest.approx(50, abs=2)
        assert lag.sum == pytest.approx(50 * 2.5, rel=0.05)
        watch.close()
        await asyncio.sleep(10)
        assert sum(lag.counts) == pytest.approx(1_000, abs=2), "it looks no more"

    loop.run_until_complete(go())
    loop.close()


def test_the_count_of_a_halt_is_limited_and_the_timer_keeps_its_interval() -> None:
    loop = SimLoop(random.Random(1))
    metrics = Metrics()
    watch = LoopWatch(metrics, SimClock(loop), cpu_seconds=lambda: 0.0)
    lag = metrics.histogram(names.EVENT_LOOP_LAG).labels()

    async def go() -> None:
        watch.start()
        loop._now += 86_400
        await asyncio.sleep(0.05)
        assert sum(lag.counts) == lag.counts[-1] == COUNTED_MAX
        await asyncio.sleep(10)
        assert sum(lag.counts) == pytest.approx(COUNTED_MAX + 10_000 // LOOK_MS, abs=2)

    loop.run_until_complete(go())
    watch.close()
    loop.close()


def test_a_long_halt_is_reported_and_those_that_follow_soon_are_counted(capfd: pytest.CaptureFixture[str]) -> None:
    loop = SimLoop(random.Random(1))
    computed = [0.0]
    watch = LoopWatch(Metrics(), SimClock(loop), cpu_seconds=lambda: computed[0])

    async def halt(seconds: float, computing: float) -> list[str]:
        loop._now += seconds
        computed[0] += computing
        await asyncio.sleep(1)
        return [line.partition("event loop blocked ")[2] for line in capfd.readouterr().err.splitlines()]

    async def go() -> None:
        watch.start()
        await asyncio.sleep(LOOK_MS / 2_000)
        assert await halt(0.4, 0.4) == []
        (reported,) = await halt(0.8, 0.2)
        late, *rest = reported.split()
        assert 700 <= int(late.removeprefix("ms=")) <= 800 and rest == ["computed_ms=200", "unsaid=0"]
        assert await halt(0.8, 0.0) == await halt(0.9, 0.0) == []
        await asyncio.sleep(WARN_EVERY_MS / 1000)
        (reported,) = await halt(3, 3)
        assert reported.endswith("computed_ms=3000 unsaid=2")

    loop.run_until_complete(go())
    watch.close()
    loop.close()


def test_the_idle_share_is_the_time_without_cpu_use() -> None:
    loop = SimLoop(random.Random(1))
    metrics = Metrics()
    start = loop.time()
    watch = LoopWatch(metrics, SimClock(loop), cpu_seconds=lambda: (loop.time() - start) * 0.25)
    assert watch.idle_share() == 1

    async def go() -> None:
        watch.start()
        await asyncio.sleep(2)
        assert watch.idle_share() == pytest.approx(0.75, abs=0.05)
        await asyncio.sleep(60)
        assert watch.idle_share() == pytest.approx(0.75, abs=0.05)
        assert metrics.gauge(names.REQUEST_HANDLER_AVG_IDLE).labels().read() == watch.idle_share()

    loop.run_until_complete(go())
    watch.close()
    loop.close()


def test_the_idle_share_is_reported_under_the_names_of_all_that_one_loop_does() -> None:
    loop = SimLoop(random.Random(1))
    metrics, used = Metrics(), [0.0]
    idle_names = (names.CONTROLLER_AVG_IDLE, names.RAFT_POLL_IDLE)
    watch = LoopWatch(metrics, SimClock(loop), cpu_seconds=lambda: used[0], idle_names=idle_names)

    async def go() -> None:
        watch.start()
        used[0] = 1.0
        await asyncio.sleep(2)

    loop.run_until_complete(go())
    assert names.NETWORK_PROCESSOR_AVG_IDLE not in metrics.render().decode()
    for name in idle_names:
        assert metrics.gauge(name).labels().read() == pytest.approx(0.5, abs=0.05), name
    watch.close()
    loop.close()


def test_disk_writes_are_reported_if_the_kernel_has_them() -> None:
    metrics, found = Metrics(), [(4096, 8192), None]
    follow_disk(metrics, lambda: found[0])
    lines = metrics.render().decode().splitlines()
    assert f"{names.DISK_READ_BYTES} 4096.0" in lines and f"{names.DISK_WRITE_BYTES} 8192.0" in lines
    del found[0]
    assert not [line for line in metrics.render().decode().splitlines() if line.startswith(names.DISK_READ_BYTES)]


def test_build_info_has_the_versions() -> None:
    metrics = Metrics()
    build_info(metrics, "broker", 3)
    assert any(
        line.startswith(f'{names.BUILD_INFO}{{node_id="3",role="broker",version="')
        for line in metrics.render().decode().splitlines()
    )


async def get(url: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, answer.headers["Content-Type"], await answer.text()


def free_port() -> int:
    from kvorum.cluster.local.ports import free_ports

    return free_ports(["127.0.0.1"])[0]


def test_a_process_that_is_not_ready_reports_the_reason_and_is_alive() -> None:
    async def go() -> None:
        reasons: list[str | None] = ["not yet"]
        server = ObservabilityServer(HttpEndpoint("127.0.0.1", port := free_port()), Metrics(), lambda: reasons[0])
        await server.start()
        base = f"http://127.0.0.1:{port}"
        try:
            assert (await get(f"{base}/health/live"))[0] == 200
            status, _, text = await get(f"{base}/health/ready")
            assert status == 503 and "not yet" in text
            reasons[0] = None
            assert (await get(f"{base}/health/ready"))[0] == 200
        finally:
            await server.close()

    asyncio.run(go())


def test_metrics_are_served_while_a_process_is_observed_and_not_after() -> None:
    async def go() -> None:
        port = free_port()
        settings = Settings.of(
            {
                "node.id": 5,
                "process.roles": "broker",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "1@127.0.0.1:1",
                "metrics.listener": f"http://127.0.0.1:{port}",
            }
        )
        metrics = Metrics()
        metrics.gauge(names.LEADER_COUNT).labels().follow(lambda: 4)
        with watch_loop(metrics, SystemClock()):
            async with serve_observability("broker", settings, metrics, lambda: None):
                status, content_type, text = await get(f"http://127.0.0.1:{port}/metrics")
            assert status == 200
            assert content_type.startswith("text/plain; version=0.0.4")
            lines = text.splitlines()
            assert f"{names.LEADER_COUNT} 4.0" in lines
            assert f'{names.EVENT_LOOP_LAG}_bucket{{le="0.01"}}' in text
            for name in (names.EVENT_LOOP_LAG_MAX, names.NETWORK_PROCESSOR_AVG_IDLE, "process_resident_memory_bytes"):
                assert any(line.startswith(f"{name} ") for line in lines), name
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(f"http://127.0.0.1:{port}/metrics")

    asyncio.run(go())


FIRST_SCRAPE = """
import asyncio, sys, threading
from kvorum.cluster.http.http_pages import Request
from kvorum.cluster.http.observability import ObservabilityServer
from kvorum.runtime.listeners import HttpEndpoint
from kvorum.runtime.metrics import Metrics

seen = []

class Finder:
    def find_spec(self, name, path, target=None):
        if name.startswith("prometheus_client"):
            seen.append(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Finder())
server = ObservabilityServer(HttpEndpoint("127.0.0.1", 0), Metrics(), lambda: None)
answer = asyncio.run(server._serve_metrics(Request("GET", "/metrics")))
print(answer.status, bool(seen), any(seen))
"""


def test_modules_for_the_first_scrape_are_imported_off_the_loop() -> None:
    """In a process of its own: here it has been imported. It would take 70 ms of the loop."""
    found = subprocess.run([sys.executable, "-c", FIRST_SCRAPE], capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["200", "True", "False"], found.stderr


def test_a_metric_of_many_partitions_is_sliced_and_exported_completely() -> None:
    """Ten slices of one metric, between which the loop goes on; on the page it is told of once."""
    partitions = 10 * SLICE_SAMPLES

    async def go() -> str:
        metrics, turns = Metrics(), [0]
        seen: set[int] = set()

        def sampled() -> Iterator[tuple[tuple[object, ...], float]]:
            for index in range(partitions):
                seen.add(turns[0])
                yield (index,), 7

        metrics.gauge("of_a_partition", "test", ("partition",)).sample(sampled)
        metrics.gauge("the_next", "test").labels().set(3)

        async def other() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        server = ObservabilityServer(HttpEndpoint("127.0.0.1", port := free_port()), metrics, lambda: None)
        await server.start()
        task = asyncio.get_running_loop().create_task(other())
        try:
            status, _, text = await get(f"http://127.0.0.1:{port}/metrics")
        finally:
            task.cancel()
            await server.close()
        assert status == 200
        assert len(seen) >= partitions / SLICE_SAMPLES
        return text

    text = asyncio.run(go())
    (family,) = [each for each in text_string_to_metric_families(text) if each.name == "of_a_partition"]
    assert [sample.labels["partition"] for sample in family.samples] == [str(index) for index in range(partitions)]
    assert text.count("# TYPE of_a_partition gauge\n") == text.count("# HELP of_a_partition test\n") == 1
    assert "# TYPE the_next gauge\nthe_next 3.0\n" in text


def test_a_scrape_of_many_partitions_lets_the_loop_continue() -> None:
    """A task that counts its turns gets some between the metrics, and may register another meanwhile."""

    async def go() -> None:
        metrics = Metrics()
        turns: list[int] = []
        seen: list[int] = []

        def sampled(number: int) -> list[tuple[tuple[object, ...], float]]:
            seen.append(len(turns))
            return [((index,), number) for index in range(SLICE_SAMPLES)]

        for number in range(5):
            metrics.gauge(f"of_partition_{number}", "test", ("partition",)).sample(
                lambda number=number: sampled(number)
            )

        async def other() -> None:
            while True:
                turns.append(1)
                metrics.gauge(f"registered_{len(turns)}", "test")
                await asyncio.sleep(0)

        server = ObservabilityServer(HttpEndpoint("127.0.0.1", port := free_port()), metrics, lambda: None)
        await server.start()
        task = asyncio.get_running_loop().create_task(other())
        try:
            status, _, text = await get(f"http://127.0.0.1:{port}/metrics")
        finally:
            task.cancel()
            await server.close()
        assert status == 200
        assert f'of_partition_4{{partition="{SLICE_SAMPLES - 1}"}} 4.0' in text.splitlines()
        assert seen == sorted(set(seen)), "a turn between any two"

    asyncio.run(go())
