"""An exception that no handler of production expected ends a simulated run; an expected one does not."""

from ipaddress import ip_address
from random import Random

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from sim import cluster as sim_cluster
from sim.cluster import CLIENTS_END, SimCluster, client_address, is_bug
from sim.draw import draw_plan
from sim.ledger import Violation
from sim.loop import Host, SimLoop
from sim.machine import address_of
from sim.run import run_plan
from sim.streams import PORT_FIRST, PORT_LAST, StreamNetwork


def test_an_exception_in_a_request_handler_is_a_violation_with_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwarded requests have the client's address in their envelope; this one cannot be encoded."""
    monkeypatch.setattr(sim_cluster, "client_address", lambda number: "10.0.1.256")
    outcome = run_plan(draw_plan(1, 5.0))
    assert outcome.kind == "UnexpectedException"
    assert outcome.message is not None and "10.0.1.256" in outcome.message and "(request)" in outcome.message
    assert "forwarding.py" in outcome.cause


@pytest.mark.parametrize(("error", "is_violation"), [(KeyError("x"), True), (KafkaError(ErrorCode.NONE), False)])
def test_an_exception_that_is_never_read_is_a_violation_unless_it_is_an_expected_one(
    error: Exception, is_violation: bool
) -> None:
    cluster = SimCluster(draw_plan(1, 5.0))
    host = Host("10.0.0.1/broker")
    cluster.loop.call_at_host(host, cluster.loop.time(), lambda: cluster.loop.create_future().set_exception(error))
    if is_violation:
        with pytest.raises(Violation, match=r"10\.0\.0\.1/broker.*KeyError"):
            cluster.run_for(1.0)
    else:
        cluster.run_for(1.0)
    cluster.loop.close()


def test_every_simulated_machine_has_an_address_of_its_own() -> None:
    addresses = [client_address(number) for number in range(1, CLIENTS_END)] + [
        address_of(node) for node in range(1, 256)
    ]
    assert len(set(addresses)) == len(addresses)
    assert all(str(ip_address(address)) == address for address in addresses)
    for make, number in ((client_address, CLIENTS_END), (address_of, 256)):
        with pytest.raises(AssertionError, match="has addresses for"):
            make(number)


def test_ports_begin_again_after_the_last_one() -> None:
    network = StreamNetwork(SimLoop(Random(1)), Random(1))
    ports = [network._next_port() for _ in range(PORT_LAST - PORT_FIRST + 2)]
    assert (min(ports), max(ports), ports[-2:]) == (PORT_FIRST, PORT_LAST, [PORT_FIRST, PORT_FIRST + 1])


@pytest.mark.parametrize(
    ("error", "expected"),
    [(KeyError("x"), True), (AssertionError(), True), (OSError(), False), (Violation("a", "b"), False)],
)
def test_no_injected_fault_explains_that_python_raised_something(error: BaseException, expected: bool) -> None:
    assert is_bug(error) is expected
