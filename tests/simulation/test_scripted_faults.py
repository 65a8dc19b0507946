"""Dramas: sequences of faults that are drawn like everything else, on a stage that allows them; frozen connections."""

import asyncio
import os
import random
import subprocess
import sys
from random import Random

import pytest

from sim.draw import draw_plan
from sim.loop import Host, SimLoop
from sim.plan import KINDS, Fault, Options, draw_faults, draw_options
from sim.run import run_plan
from sim.scripted_faults import FAULT_SCRIPTS, add_fault_script
from sim.streams import StreamNetwork

SEEDS = range(300)
TRACE = """
from random import Random
from sim.scripted_faults import FAULT_SCRIPTS, add_fault_script
from sim.plan import Plan, draw_options
from sim.run import run_plan
for name in sorted(FAULT_SCRIPTS):
    rng = Random(5)
    options, faults = add_fault_script(rng, draw_options(rng), [], 6.0, only=name)
    outcome = run_plan(Plan(seed=5, seconds=6.0, options=options, faults=faults))
    print(outcome.trace, sum(outcome.faults.values()), outcome.kind)
"""


def ordinary(seed: int) -> tuple[Options, list[Fault]]:
    """A seed's options and faults, had no script been drawn."""
    rng = Random(f"kvorum cluster {seed}")
    options = draw_options(rng)
    return options, draw_faults(rng, options, 60.0)


def dramatic(seed: int) -> tuple[Options, list[Fault]]:
    """The same with a script, where it draws one."""
    return add_fault_script(Random(f"kvorum drama {seed}"), *ordinary(seed), 60.0)


def test_some_seeds_have_a_drama_and_the_others_are_unchanged() -> None:
    changed = [seed for seed in SEEDS if dramatic(seed) != ordinary(seed)]
    assert 0.3 < len(changed) / len(SEEDS) < 0.5
    assert dramatic(changed[0]) == dramatic(changed[0])
    assert any("freeze" in draw_plan(seed).options.fault_kinds for seed in changed), "drawn plans have them"


def test_dramas_are_played_alone_or_among_ordinary_faults() -> None:
    alone = among = 0
    for seed in SEEDS:
        (_, before), (_, after) = ordinary(seed), dramatic(seed)
        if after != before:
            among += any(fault in after for fault in before)
            alone += not any(fault in after for fault in before)
    assert alone > 20 and among > 20


@pytest.mark.parametrize("name", sorted(FAULT_SCRIPTS))
def test_a_drama_gets_the_stage_it_needs(name: str) -> None:
    for seed in SEEDS:
        rng = Random(seed)
        options, faults = add_fault_script(rng, draw_options(rng), [], 20.0, only=name)
        assert 2 <= options.replication_factor <= options.brokers
        assert 1 <= options.min_isr < options.replication_factor
        assert faults == sorted(faults, key=lambda fault: fault.at) and faults
        assert {fault.kind for fault in faults} == set(options.fault_kinds) <= {*KINDS, "freeze"}
        assert all(0 < fault.at < 20.0 and fault.length >= 0 for fault in faults)


def test_a_drama_does_the_same_in_any_process_and_breaks_nothing() -> None:
    reported = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", TRACE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        reported.append([line.split() for line in done.stdout.splitlines()])
    assert reported[0] == reported[1]
    assert len(reported[0]) == len(FAULT_SCRIPTS)
    assert all(int(count) > 0 and kind == "None" for _, count, kind in reported[0])


def test_a_seed_that_plays_a_drama_replays_exactly() -> None:
    plan = next(plan for plan in (draw_plan(seed, 6.0) for seed in SEEDS) if "freeze" in plan.options.fault_kinds)
    assert run_plan(plan).trace == run_plan(plan).trace


# Frozen connections.


class Echo(asyncio.Protocol):
    """Notes what arrives, and how connections end."""

    def __init__(self, heard: list[bytes]) -> None:
        self.heard = heard

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append(type(exc).__name__.encode())


class Frozen:
    """A client with an old connection to a server, which is about to freeze, and a new one later."""

    def __init__(self) -> None:
        self.loop = SimLoop(random.Random(1))
        self.network = StreamNetwork(self.loop, random.Random(2))
        self.server, self.client = Host("server/broker"), Host("client")
        self.heard: list[bytes] = []
        self.reported: list[bytes] = []
        self.transports: list[asyncio.BaseTransport] = []
        self.run(self.server, self.listen())
        self.connect()

    async def listen(self) -> None:
        await self.loop.create_server(lambda: Echo(self.heard), None, 9092)

    async def dial(self) -> None:
        transport, _ = await self.loop.create_connection(lambda: Echo(self.reported), "server", 9092)
        self.transports.append(transport)

    def run(self, host: Host, work: object) -> None:
        self.loop.call_at_host(host, self.loop.time(), lambda: self.loop.create_task(work))  # type: ignore[arg-type]
        self.loop.run_for(1.0)

    def connect(self) -> None:
        self.run(self.client, self.dial())

    def send(self, number: int, data: bytes) -> None:
        transport = self.transports[number]
        assert isinstance(transport, asyncio.Transport)
        self.loop.call_at_host(self.client, self.loop.time(), transport.write, data)
        self.loop.run_for(1.0)


def test_bytes_on_a_frozen_connection_arrive_late_and_new_connections_work() -> None:
    world = Frozen()
    frozen = world.network.freeze("client", "server")
    world.send(0, b"old")
    world.connect()
    world.send(1, b"new")
    assert world.heard == [b"new"]
    world.network.thaw(frozen)
    world.loop.run_for(1.0)
    world.send(0, b"on")
    assert world.heard == [b"new", b"old", b"on"]


def test_bytes_on_an_abandoned_connection_arrive_before_its_reset() -> None:
    world = Frozen()
    frozen = world.network.freeze("client", "server")
    world.send(0, b"old")
    world.network.abandon(frozen)
    world.loop.run_for(1.0)
    assert world.reported == [b"ConnectionResetError"] and world.heard == []
    world.network.thaw(frozen)
    world.loop.run_for(1.0)
    assert world.heard == [b"old", b"ConnectionResetError"]


def test_bytes_on_a_frozen_connection_arrive_after_the_process_ended() -> None:
    world = Frozen()
    frozen = world.network.freeze("client", "server")
    world.send(0, b"old")
    world.network.kill(world.client)
    world.loop.run_for(1.0)
    assert world.heard == []
    world.network.thaw(frozen)
    world.loop.run_for(1.0)
    assert world.heard == [b"old", b"ConnectionResetError"]


def test_after_a_power_failure_connections_break_after_bytes_in_flight() -> None:
    world = Frozen()
    world.network.cut("client", "server")
    world.send(0, b"old")
    world.network.power_off("client")
    world.network.kill(world.client)
    world.network.power_on("client")
    world.loop.run_for(1.0)
    assert world.heard == []
    world.network.heal("client", "server")
    world.loop.run_for(1.0)
    assert world.heard == [b"old", b"ConnectionResetError"]
