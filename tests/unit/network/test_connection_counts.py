"""How many connections, and how fast: the limits of a listener, of all, and what a running broker makes of new ones."""

import asyncio

import pytest

from kvorum.network.connection_counts import (
    DELAY_S_MAX,
    FAILURE_ADDRESSES_MAX,
    FAILURE_DELAY_S_MAX,
    UNLIMITED,
    ConnectionCounts,
    CreationRate,
    FailedAuthentications,
    Refusal,
    concerns_connections,
)
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.runtime.config import Settings
from tests.unit.network.network_kit import listener_of, metadata_handler, read_frame, request_frame, run


def admitted(counts: ConnectionCounts, now_s: float, listener: str = "A", *, protected: bool = False) -> str | float:
    """Return the seconds it has to wait, or why it is refused."""
    found = counts.admit("10.0.0.1", now_s, protected=protected, listener=listener)
    return found.reason if isinstance(found, Refusal) else found


def test_a_burst_is_accepted_at_once_and_then_one_at_a_time() -> None:
    counts = ConnectionCounts(creation_rate_max=4)
    delays = [admitted(counts, 100.0) for _ in range(7)]
    assert delays == pytest.approx([0, 0, 0, 0, 0.25, 0.5, 0.75])
    assert admitted(counts, 100.5) == pytest.approx(0.5)
    assert admitted(counts, 200.0) == 0


def test_a_connection_whose_turn_is_too_far_away_is_refused_and_delays_no_other() -> None:
    counts = ConnectionCounts(creation_rate_max=1)
    waits = [admitted(counts, 0.0) for _ in range(100)]
    taken = [wait for wait in waits if isinstance(wait, float)]
    assert max(taken) <= DELAY_S_MAX
    assert len(taken) == DELAY_S_MAX + 1 == counts.total
    assert str(waits[-1]).startswith("max.connection.creation.rate: ")
    assert admitted(counts, 1.0) == DELAY_S_MAX


def test_without_a_rate_no_connection_waits_and_a_rate_of_0_accepts_none() -> None:
    rate = CreationRate()
    for _ in range(1000):
        rate.count(5.0)
    assert rate.delay_s(5.0) == 0
    assert isinstance(admitted(ConnectionCounts(creation_rate_max=0), 5.0), str)


def test_a_listener_is_held_to_its_own_limits_and_the_protected_one_to_no_others() -> None:
    counts = ConnectionCounts.of(
        Settings.of(
            {
                "max.connections": 3,
                "max.connection.creation.rate": 1,
                "listener.name.internal.max.connections": 2,
                "listener.name.internal.max.connection.creation.rate": 2,
                "listener.name.a.max.connections": 1,
            }
        ),
        ["A", "B", "INTERNAL"],
    )
    assert admitted(counts, 9.0) == 0
    assert admitted(counts, 90.0) == "max.connections: A has 1"
    assert [admitted(counts, 90.0, "B") for _ in range(2)] == [0, 1]
    assert admitted(counts, 90.0, "B") == "max.connections: there are 3"
    inner = [admitted(counts, 90.0, "INTERNAL", protected=True) for _ in range(3)]
    assert inner == [0, 0, "max.connections: INTERNAL has 2"]
    counts.close("10.0.0.1", "INTERNAL")
    assert admitted(counts, 90.0, "INTERNAL", protected=True) == 0.5
    assert counts.total == 5


def test_limits_change_for_existing_connections() -> None:
    counts = ConnectionCounts.of(Settings.of({}), ["A"])
    assert all(admitted(counts, 9.0) == 0 for _ in range(5))
    counts.configure(Settings.of({"listener.name.a.max.connections": 4, "max.connections.per.ip": 9}), ["A"])
    assert admitted(counts, 9.0) == "max.connections: A has 5"
    counts.configure(Settings.of({"max.connections.per.ip": 5}), ["A"])
    assert admitted(counts, 9.0) == "max.connections.per.ip: 10.0.0.1 has 5 connections"
    counts.configure(Settings.of({}), ["A"])
    assert admitted(counts, 9.0) == 0
    assert counts.by_listener == {"A": UNLIMITED}


def test_which_configs_are_about_connections() -> None:
    for key in ("max.connections", "listener.name.a.max.connections", "listener.name.a.b.max.connection.creation.rate"):
        assert concerns_connections(key)
    for key in ("max.connections.foo", "listener.name.a.max.connections.per.ip", "listeners", "a.max.connections"):
        assert not concerns_connections(key)


def test_a_connection_over_the_rate_is_served_later() -> None:
    async def main() -> None:
        counts = ConnectionCounts(creation_rate_max=5)
        listener = listener_of(metadata_handler(), counts=counts)
        port = await listener.start()
        loop = asyncio.get_running_loop()

        async def answered() -> float:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_frame(MetadataRequest(), 9))
            await read_frame(reader)
            writer.close()
            return loop.time()

        began = loop.time()
        times = sorted([time - began for time in await asyncio.gather(*(answered() for _ in range(7)))])
        assert times[5] > 0.19
        assert times[6] > 0.39
        await listener.close()

    run(main)


def test_an_address_over_its_quota_is_delayed_and_closed_without_affecting_others() -> None:
    counts = ConnectionCounts()
    counts.ip_rates.update(None, [("10.0.0.1", 0.1)])
    assert counts.admit("10.0.0.1", 5.0, protected=True) == 0
    refused = counts.admit("10.0.0.1", 5.0, protected=True)
    assert isinstance(refused, Refusal)
    assert refused.reason.startswith("connection_creation_rate: ") and refused.after_s == 1.0
    assert counts.admit("10.0.0.2", 5.0, protected=False) == 0
    assert counts.total == 2

    async def main() -> None:
        counts = ConnectionCounts()
        counts.ip_rates.update(8.0, [])
        listener = listener_of(metadata_handler(), counts=counts)
        port = await listener.start()
        loop = asyncio.get_running_loop()
        counts.ip_rates.update(0.1, [])
        began = loop.time()
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        opened[0][1].write(request_frame(MetadataRequest(), 9))
        await read_frame(opened[0][0])
        opened[1][1].write(request_frame(MetadataRequest(), 9))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await read_frame(opened[1][0])
        assert loop.time() - began > 0.9
        assert listener.connection_count == 1 == counts.total
        for _, writer in opened:
            writer.close()
        await listener.close()

    run(main)


def test_failed_authentications_of_an_address_are_answered_at_a_rate() -> None:
    failures = FailedAuthentications(per_second=10)
    delays = [failures.delay_s("192.0.2.1", 5.0) for _ in range(1_000)]
    assert delays[:10] == [0.0] * 10, "a burst of a second"
    assert delays[10:13] == pytest.approx([0.1, 0.2, 0.3])
    assert max(delays) == FAILURE_DELAY_S_MAX
    assert failures.delay_s("192.0.2.2", 5.0) == 0.0, "other addresses do not wait"
    assert failures.delay_s("192.0.2.1", 30.0) == 0.0, "what was answered late does not count again"


def test_the_table_of_failed_authentications_is_bounded() -> None:
    failures = FailedAuthentications(per_second=1)
    for number in range(FAILURE_ADDRESSES_MAX + 100):
        failures.delay_s(f"10.0.{number // 256}.{number % 256}", 0.0)
    assert len(failures) == FAILURE_ADDRESSES_MAX
    assert failures.delay_s("10.0.0.200", 0.0) == 1.0, "the newest are kept"
    assert failures.delay_s("10.0.0.0", 0.0) == 0.0
