"""What a process tells of itself, and how it is asked over HTTP."""

import asyncio
import random

import aiohttp
import pytest

from kvorum.chaos.sim.clock import SimClock
from kvorum.chaos.sim.loop import SimLoop
from kvorum.cluster.observability import SLICE_SAMPLES, ObservabilityServer, observed
from kvorum.cluster.process_metrics import LOOK_MS, WINDOW_SECONDS, LoopWatch, build_info
from kvorum.cluster.recent import Recent
from kvorum.runtime import metric_names as names
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import HttpEndpoint
from kvorum.runtime.metrics import Metrics


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


def test_recent_keeps_one_slot_a_second_whatever_comes() -> None:
    recent = Recent(10)
    for now_ms in range(0, 100_000, 7):
        recent.add(1, now_ms)
    assert len(recent._slots) == 10


def test_a_loop_that_stood_still_tells_for_how_long_and_forgets_it_later() -> None:
    loop = SimLoop(random.Random(1))
    watch = LoopWatch(Metrics(), SimClock(loop), cpu_seconds=lambda: 0.0)

    async def go() -> None:
        watch.start()
        await asyncio.sleep(1)
        assert watch.lag_seconds() < 0.002
        loop._now += 0.7  # no callback ran meanwhile
        await asyncio.sleep(0.5)
        assert watch.lag_seconds() == pytest.approx(0.7, abs=LOOK_MS / 1000)
        await asyncio.sleep(WINDOW_SECONDS + 1)
        assert watch.lag_seconds() < 0.002

    loop.run_until_complete(go())
    watch.close()
    loop.close()


def test_the_idle_share_is_what_the_thread_did_not_compute() -> None:
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


def test_build_info_says_what_runs_here() -> None:
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
    from kvorum.cluster.ports import free_ports

    return free_ports(["127.0.0.1"])[0]


def test_a_process_that_is_not_ready_says_why_and_is_alive() -> None:
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
        async with observed("broker", settings, metrics, lambda: None):
            status, content_type, text = await get(f"http://127.0.0.1:{port}/metrics")
            assert status == 200
            assert content_type.startswith("text/plain; version=0.0.4")
            lines = text.splitlines()
            assert f"{names.LEADER_COUNT} 4.0" in lines
            for name in (names.EVENT_LOOP_LAG, names.NETWORK_PROCESSOR_AVG_IDLE, "process_resident_memory_bytes"):
                assert any(line.startswith(f"{name} ") for line in lines), name
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(f"http://127.0.0.1:{port}/metrics")

    asyncio.run(go())


def test_a_scrape_of_many_partitions_lets_the_loop_go_on() -> None:
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
