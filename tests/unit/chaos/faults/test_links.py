"""Each fault on a link, seen by a ping through the real proxy: it shows, and it ends."""

import pytest

from kvorum.chaos.faults.links import BOTH, PROXY_KINDS, STREAMS_OF, LinkFaultError, ProxyToxics, toxics_of
from kvorum.chaos.faults.toxiproxy import Stream, ToxiproxyError
from tests.unit.chaos.faults.conftest import Client, Echo, Link

SILENCE_SECONDS = 0.3
"""How long nothing must come to be called silence."""


def place(
    link: Link, kind: str, fault_id: int = 1, streams: tuple[Stream, ...] | None = None, **attributes: int
) -> ProxyToxics:
    placed = ProxyToxics(link.name, toxics_of(kind, fault_id, streams or STREAMS_OF.get(kind, BOTH), attributes, 1.0))
    link.links.inject([placed])
    return placed


def is_silent(client: Client, data: bytes = b"lost") -> bool:
    try:
        client.ping(data, SILENCE_SECONDS)
    except TimeoutError:
        return True
    return False


def test_without_a_fault_a_ping_succeeds(link: Link) -> None:
    assert link.connect().best_ping(0.2) < 0.2


def test_refuse_refuses_and_closes_until_it_ends(link: Link) -> None:
    client = link.connect()
    client.ping()
    placed = place(link, "refuse")
    with pytest.raises(ConnectionError):
        link.connect()
    with pytest.raises(ConnectionError):
        client.ping()
    link.links.remove([placed])
    link.connect().ping()


def test_two_refusals_end_with_the_second(link: Link) -> None:
    first, second = place(link, "refuse", 1), place(link, "refuse", 2)
    link.links.remove([first])
    with pytest.raises(ConnectionError):
        link.connect()
    link.links.remove([second])
    link.connect().ping()


def test_a_black_hole_takes_all_and_gives_nothing_back(link: Link, echo: Echo) -> None:
    client = link.connect()
    client.ping(b"before")
    placed = place(link, "black_hole")
    assert is_silent(client)
    assert is_silent(link.connect()), "a new connection is taken, and nothing comes over it"
    link.links.remove([placed])
    link.connect().ping()
    assert b"lost" not in echo.all()
    with pytest.raises(ConnectionError):
        client.ping()


def test_a_freeze_delivers_all_of_it_late(link: Link, echo: Echo) -> None:
    client = link.connect()
    client.ping(b"before")
    placed = place(link, "freeze")
    assert is_silent(client, b"frozen-1")
    late = link.connect()
    assert is_silent(late, b"frozen-2")
    assert b"frozen" not in echo.all()
    link.links.remove([placed])
    assert client.read(8) == b"frozen-1"
    assert late.read(8) == b"frozen-2"
    assert client.best_ping(0.5) < 0.5


def test_latency_takes_its_time_in_each_direction(link: Link) -> None:
    client = link.connect()
    placed = place(link, "latency", latency=100)
    assert 0.2 <= client.best_ping(0.39) < 0.39
    link.links.remove([placed])
    client.ping()
    assert client.best_ping(0.1) < 0.1


def test_latency_on_one_stream_is_one_way(link: Link) -> None:
    client = link.connect()
    place(link, "latency", streams=("downstream",), latency=200)
    assert 0.2 <= client.best_ping(0.39) < 0.39


def test_bandwidth_limits_the_rate(link: Link) -> None:
    client = link.connect()
    placed = place(link, "bandwidth", streams=("upstream",), rate=100)
    assert client.ping(b"x" * 50_000) >= 0.4, "50 KB at 100 KB/s"
    link.links.remove([placed])
    assert client.best_ping(0.3, data=b"x" * 50_000) < 0.3


def test_a_slicer_cuts_what_was_sent_whole(link: Link, echo: Echo) -> None:
    client = link.connect()
    client.ping()
    placed = place(link, "slicer", streams=("upstream",), average_size=10, size_variation=4, delay=2000)
    echo.heard.clear()
    client.ping(b"0123456789" * 20)
    assert len(echo.heard) > 5 and max(map(len, echo.heard)) < 100
    assert echo.all() == b"0123456789" * 20
    link.links.remove([placed])
    client.ping()
    echo.heard.clear()
    client.ping(b"0123456789" * 20)
    assert len(echo.heard) == 1


def test_a_reset_resets_new_connections(link: Link) -> None:
    placed = place(link, "reset")
    client = link.connect()
    with pytest.raises(ConnectionResetError):
        client.ping()
        client.ping()
    link.links.remove([placed])
    link.connect().ping()


def test_lost_responses_come_from_requests_that_arrived(link: Link, echo: Echo) -> None:
    client = link.connect()
    client.ping(b"before")
    placed = place(link, "lose_responses")
    assert is_silent(client, b"arrives")
    assert b"arrives" in echo.all()
    link.links.remove([placed])
    link.connect().ping()


def test_lost_requests_never_arrive_while_the_peer_is_heard(link: Link, echo: Echo) -> None:
    client = link.connect()
    client.ping(b"before")
    placed = place(link, "lose_requests")
    assert is_silent(client, b"never")
    link.links.remove([placed])
    link.connect().ping()
    assert b"never" not in echo.all()


def test_faults_stack_and_end_one_by_one(link: Link) -> None:
    client = link.connect()
    slow = place(link, "latency", 1, latency=100)
    frozen = place(link, "freeze", 2)
    assert is_silent(client, b"wait")
    link.links.remove([slow])
    assert is_silent(client, b"more")
    link.links.remove([frozen])
    assert client.read(8) == b"waitmore"


def test_a_link_that_is_cut_while_frozen_heals(link: Link) -> None:
    client = link.connect()
    client.ping()
    frozen = place(link, "freeze", 1)
    is_silent(client)
    hole = place(link, "black_hole", 2)
    link.links.remove([hole, frozen])  # each request to the proxy server has a timeout
    link.connect().ping()


def test_a_fault_that_is_not_taken_leaves_nothing_behind(link: Link) -> None:
    placed = place(link, "latency", 1, latency=1)
    with pytest.raises(ToxiproxyError, match=r"409|exists"):
        link.links.inject([ProxyToxics(link.name, toxics_of("freeze", 2, BOTH, {}, 1.0)), placed])
    assert not any("freeze" in name for name in link.links.api.proxies()[link.name].toxics)


def test_toxics_that_the_server_lost_are_detected(link: Link) -> None:
    placed = place(link, "latency", 1, latency=1)
    link.links.api.add(link.name, toxics_of("freeze", 3, ("upstream",), {}, 1.0)[0])
    with pytest.raises(LinkFaultError, match="freeze-3"):
        link.links._check([ProxyToxics(link.name, toxics_of("freeze", 3, ("upstream",), {}, 1.0))], present=False)
    link.links.api.destroy(link.name)
    with pytest.raises((LinkFaultError, ToxiproxyError)):
        link.links.remove([placed])


@pytest.mark.parametrize(
    ("kind", "attributes"), [("nonsense", {}), ("latency", {"latency": -1}), ("freeze", {"latency": 1})]
)
def test_invalid_faults_are_refused(kind: str, attributes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"is not a link fault|needs"):
        toxics_of(kind, 1, BOTH, attributes, 1.0)


def test_every_kind_has_its_toxics() -> None:
    assert {kind for kind in PROXY_KINDS if not toxics_of(kind, 1, BOTH, {}, 1.0)} == {"refuse"}
