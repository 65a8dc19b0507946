"""Whose quota holds, what is counted for it, and how long a client is held back: with the time in hand."""

from itertools import combinations

import pytest

from kvorum.network import quotas
from kvorum.network.context import RequestContext
from kvorum.network.ip_rates import IpConnectionRates, plain
from kvorum.network.quota_entities import Entity, QuotaTable, Scope
from kvorum.network.quota_rate import Windows
from kvorum.network.quotas import BrokerQuotas, ControllerQuotas
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.security.principal import Principal

WINDOWS = Windows(11, 1_000)
PRODUCE, FETCH, REQUEST, MUTATION = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
LEVELS: list[tuple[Entity, Scope]] = [
    ((("client-id", "app"), ("user", "ann")), Scope("ann", "app")),
    ((("client-id", None), ("user", "ann")), Scope("ann", "app")),
    ((("user", "ann"),), Scope("ann", "")),
    ((("client-id", "app"), ("user", None)), Scope("ann", "app")),
    ((("client-id", None), ("user", None)), Scope("ann", "app")),
    ((("user", None),), Scope("ann", "")),
    ((("client-id", "app"),), Scope("", "app")),
    ((("client-id", None),), Scope("", "app")),
]
"""The entities that fit user ann's client app, the first that has a quota holds; and who shares it."""


class Time:
    """A clock that is set by hand, in seconds."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


def client(client_id: str | None = "app", user: str = "ann", version: int = 99) -> RequestContext:
    return RequestContext(principal=Principal("User", user), client_id=client_id, api_version=version)


def broker(*entries: tuple[Entity, dict[str, float]]) -> tuple[BrokerQuotas, Time]:
    time = Time()
    found = BrokerQuotas(time, WINDOWS)
    found.update(entries)
    return found, time


@pytest.mark.parametrize("chosen", list(combinations(range(8), 2)), ids=str)
def test_the_most_specific_quota_holds(chosen: tuple[int, int]) -> None:
    table = QuotaTable("k", [(LEVELS[level][0], {"k": 10.0 + level}) for level in chosen])
    scope = table.scope("ann", "app")
    assert scope == LEVELS[chosen[0]][1]
    assert table.bound(scope) == 10.0 + chosen[0]


def test_other_listeners_get_all_other_data() -> None:
    table = QuotaTable("k", [(entity, {"k": 10.0 + level}) for level, (entity, _) in enumerate(LEVELS)])
    expected = {("ann", "other"): 11.0, ("bob", "app"): 13.0, ("bob", "other"): 14.0}
    assert {pair: table.bound(table.scope(*pair)) for pair in expected} == expected
    assert table.bound(QuotaTable("other key", [(LEVELS[0][0], {"k": 1.0})]).scope("ann", "app")) is not None
    assert not QuotaTable("other key", [(LEVELS[0][0], {"k": 1.0}), ((("ip", "::1"),), {"other key": 1.0})])


def test_a_client_without_a_client_id_has_no_client_id_quota() -> None:
    table = QuotaTable("k", [((("client-id", None),), {"k": 1.0})])
    assert table.bound(table.scope("ann", "")) is None
    table = QuotaTable("k", [((("client-id", None), ("user", "ann")), {"k": 1.0}), ((("user", None),), {"k": 2.0})])
    assert table.bound(table.scope("ann", "")) == 2.0, "as a user alone"


def test_without_quotas_no_request_is_checked() -> None:
    found, _ = broker()
    assert not found.enabled and not found.timed
    found.update([((("client-id", "app"),), {PRODUCE: 1.0})])
    assert found.enabled and not found.timed
    found.update([((("client-id", "app"),), {REQUEST: 1.0})])
    assert found.enabled and found.timed
    found.update([((("ip", "127.0.0.1"),), {"connection_creation_rate": 1.0}), ((("user", None),), {MUTATION: 1.0})])
    assert not found.enabled and not found.timed


def test_a_producer_over_its_quota_waits_alone_and_a_greater_quota_frees_it() -> None:
    found, time = broker(((("client-id", "app"),), {PRODUCE: 1_000.0}))
    assert found.throttle_ms(client(), produced=10_000) == 0, "ten windows' worth at once"
    assert found.throttle_ms(client(), produced=1_000) == 1_000
    assert found.throttle_ms(client("other"), produced=10**9) == 0
    assert found.throttle_ms(client()) == 0, "a request that brings nothing counts for nothing"
    time.s += 1
    assert found.throttle_ms(client(), produced=1) == 1_001, "the windows are as young as before: Kafka waits for them"
    found.update([((("client-id", "app"),), {PRODUCE: 2_000.0})])
    assert found.throttle_ms(client(), produced=1) == 0
    (meter,) = found.produce.meters()
    assert meter.bound == 2_000 and meter.measure.measure(time.s * 1000) > 900, "what was used stays counted"
    assert meter.throttle_time_ms(time.s * 1000) == pytest.approx(1_000, abs=2)
    found.update([])
    assert not list(found.produce.meters())


def test_clients_of_a_user_share_the_users_quota() -> None:
    found, _ = broker(((("user", "ann"),), {PRODUCE: 1_000.0}))
    assert found.throttle_ms(client("a"), produced=10_000) == 0
    assert found.throttle_ms(client("b"), produced=1_000) == 1_000
    assert found.throttle_ms(client("b", "bob"), produced=10**9) == 0


def test_a_fetch_that_is_held_back_brought_nothing() -> None:
    found, time = broker(((("client-id", "app"),), {FETCH: 100.0}))
    assert found.fetch_bytes_max(client()) == 1_000
    assert found.fetch_bytes_max(client("other")) == quotas.UNBOUNDED_BYTES
    assert found.fetch_throttle_ms(client(), 900) == 0
    assert found.fetch_throttle_ms(client(), 300) == 2_000
    (meter,) = found.fetch.meters()
    assert meter.measure.measure(time.s * 1000) == pytest.approx(90)
    assert found.fetch_throttle_ms(client(), 100) == 0


def test_the_loops_time_is_counted_from_the_request_on_or_as_long_as_it_was_busy() -> None:
    found, time = broker(((("client-id", "app"),), {REQUEST: 1.0}))
    busy = client()
    busy.received_ms = time.s * 1000 - 50
    assert found.throttle_ms(busy) == 0, "five percent of one second, half a percent of ten"
    busy.received_ms = time.s * 1000 - 70
    assert found.throttle_ms(busy) == 1_000, "more than a second would be longer than a window"
    assert found.throttle_ms(busy, exempt=True) == 0
    waited = client("waited")
    found.update([((("client-id", "waited"),), {REQUEST: 1.0})])
    waited.received_ms, waited.spent_ms = 0.0, 0.5
    assert found.throttle_ms(waited) == 0, "it waited for long, and took half a millisecond"


def test_the_longer_of_two_times_counts() -> None:
    found, time = broker(((("client-id", "app"),), {REQUEST: 1.0, PRODUCE: 100.0, FETCH: 100.0}))
    ctx = client()
    ctx.received_ms = time.s * 1000 - 102
    assert found.throttle_ms(ctx, produced=1_500) == 5_000
    ctx.received_ms = time.s * 1000
    assert found.fetch_throttle_ms(ctx, 10) == pytest.approx(200, abs=1)


def test_bytes_that_were_in_hand_at_once_are_paid_for_by_the_longest_time_alone() -> None:
    """A connection keeps to the longest of the times it is told. One after another, as in Kafka, take somewhat longer:
    each wait begins with windows that are not over yet."""
    count, size = 30, 1_500
    together, time = broker(((("client-id", "app"),), {PRODUCE: 1_000.0}))
    reported = [together.throttle_ms(client(), produced=size) for _ in range(count)]
    assert reported == sorted(reported) and reported[-1] == count * size - 10_000, "all beyond ten seconds' worth"
    one_by_one, time = broker(((("client-id", "app"),), {PRODUCE: 1_000.0}))
    began = time.s
    for _ in range(count):
        time.s += one_by_one.throttle_ms(client(), produced=size) / 1000
    assert reported[-1] / 1000 <= time.s - began <= reported[-1] / 1000 * 1.25


def test_time_that_was_in_hand_at_once_is_not_paid_for_by_the_longest_time() -> None:
    """It is a window at the most: whose time is counted has one request in hand, as every connection of Kafka's."""
    found, time = broker(((("client-id", "app"),), {REQUEST: 1.0}))
    for _ in range(100):
        ctx = client()
        ctx.received_ms = time.s * 1000 - 10
        reported = found.throttle_ms(ctx)
    assert reported == 1_000
    time.s += reported / 1000
    (meter,) = found.request.meters()
    assert meter.measure.measure(time.s * 1000) > 8 * meter.bound
    assert found.times(client()) and not found.times(client("other"))
    found.update([])
    assert not found.times(client())


def test_client_ids_without_end_are_forgotten_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "METERS_MAX", 20)
    found, time = broker(((("client-id", None),), {PRODUCE: 100.0}))
    for number in range(100):
        time.s += 0.001
        assert found.throttle_ms(client(f"app-{number}"), produced=1_000) == 0
        assert len(list(found.produce.meters())) <= 20
    assert found.throttle_ms(client("app-99"), produced=1_000) > 0
    assert found.throttle_ms(client("app-0"), produced=1_000) == 0


def controller(*entries: tuple[Entity, dict[str, float]]) -> tuple[ControllerQuotas, Time]:
    time = Time()
    found = ControllerQuotas(time, Windows(11, 1_000))
    found.update(entries)
    return found, time


def test_a_strict_client_is_refused_once_the_bucket_is_empty_and_not_before() -> None:
    found, time = controller(((("user", "ann"),), {MUTATION: 1.0}))
    quota = found.mutation_quota(client(version=6), 6)
    assert quota is not None
    quota.record(20)
    assert quota.throttle_ms() == 0, "what empties the bucket is taken whole"
    with pytest.raises(KafkaError) as caught:
        quota.record(1)
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert quota.throttle_ms() == 9_000
    time.s += 2
    assert quota.throttle_ms() == 7_000
    time.s += 7
    later = found.mutation_quota(client(version=6), 6)
    assert later is not None
    later.record(1)
    assert later.throttle_ms() == 0


def test_just_below_zero_is_below_zero() -> None:
    """Kafka's Sensor refuses below zero, though the time until zero may be none in whole milliseconds."""
    found, time = controller(((("user", "ann"),), {MUTATION: 1.0}))
    quota = found.mutation_quota(client(version=6), 6)
    assert quota is not None
    quota.record(20)  # of eleven tokens
    time.s += 8.9996
    with pytest.raises(KafkaError) as caught:
        quota.record(1)
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED and quota.throttle_ms() == 0
    time.s += 0.0005
    quota.record(1)


def test_an_older_client_is_only_held_back() -> None:
    found, _ = controller(((("user", "ann"),), {MUTATION: 1.0}))
    quota = found.mutation_quota(client(version=5), 6)
    assert quota is not None
    quota.record(10)
    assert quota.throttle_ms() == 0
    quota.record(10)
    assert quota.throttle_ms() == 9_000
    assert found.mutation_quota(client(user="bob"), 6) is None
    found.update([])
    assert found.mutation_quota(client(), 6) is None


def test_an_address_that_connects_too_fast_waits_and_is_not_counted() -> None:
    rates = IpConnectionRates(WINDOWS)
    assert rates.throttle_ms("10.0.0.1", 0) == 0
    rates.update(None, [("10.0.0.1", 1.0)])
    assert [rates.throttle_ms("10.0.0.1", 0) for _ in range(12)] == [0] * 10 + [1_000] * 2
    assert rates.throttle_ms("10.0.0.2", 0) == 0
    assert rates.throttle_ms("::ffff:10.0.0.1", 0) == 1_000, "the same address"
    assert rates.throttle_ms("10.0.0.1", 10.9) == 100, "eleven in 10.9 seconds"
    assert rates.throttle_ms("10.0.0.1", 22.0) == 0
    rates.update(5.0, [("10.0.0.1", 100.0)])
    assert [rates.throttle_ms("10.0.0.2", 22) for _ in range(51)] == [0] * 50 + [200]
    assert rates.throttle_ms("10.0.0.1", 22) == 0
    rates.update(None, [])
    assert rates.throttle_ms("10.0.0.2", 22) == 0


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::FFFF:1.2.3.4", "1.2.3.4"),
        ("0:0::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("?", "?"),
    ],
)
def test_an_address_has_one_form(address: str, expected: str) -> None:
    assert plain(address) == expected
