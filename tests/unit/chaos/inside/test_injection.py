"""What a rule does to the requests it is for, and that it leaves all others alone."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kvorum.cluster.fault_injection.injection import RULES_MAX, Injection, NoSuchListener, Rule, TooManyRules
from kvorum.network.channel import Channel
from kvorum.network.dial import ChannelError
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

Play = Callable[[Callable[[Any], Coroutine[Any, Any, None]]], None]
METADATA, GROUPS = int(ApiKey.METADATA), int(ApiKey.LIST_GROUPS)


def error(api_key: int = METADATA, **more: Any) -> Rule:
    return Rule(action="error", api_key=api_key, code=ErrorCode.REBOOTSTRAP_REQUIRED, **more)


def groups(channel: Channel) -> "asyncio.Task[ListGroupsResponse]":
    return asyncio.ensure_future(channel.ask(ListGroupsRequest(), ListGroupsResponse, timeout_ms=10_000))


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # the loop turns until then; the scenario has a limit
        await asyncio.sleep(0)


def test_the_next_requests_are_refused_unhandled_and_then_no_more(play: Play) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(error(remaining=2))
        channel = served.channel()
        codes = [(await served.metadata(channel)).error_code for _ in range(4)]
        assert codes == [ErrorCode.REBOOTSTRAP_REQUIRED] * 2 + [ErrorCode.NONE] * 2
        assert len(served.handled) == 2
        assert served.injection.rules == {}

    play(scenario)


def test_a_rule_without_a_count_lasts_until_it_is_withdrawn(play: Play) -> None:
    async def scenario(served: Any) -> None:
        rule_id = served.injection.add(error())
        channel = served.channel()
        assert {(await served.metadata(channel)).error_code for _ in range(5)} == {ErrorCode.REBOOTSTRAP_REQUIRED}
        assert served.injection.rules[rule_id].hits == 5
        assert served.injection.withdraw(rule_id)
        assert not served.injection.withdraw(rule_id)
        assert (await served.metadata(channel)).error_code == ErrorCode.NONE

    play(scenario)


def test_only_the_client_the_listener_and_the_api_it_names_are_meant(play: Play) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(error(client_id="victim"))
        served.injection.add(error(listener="OTHER", client_id="third"))
        served.injection.add(error(GROUPS))
        victim, other = served.channel(client_id="victim"), served.channel(client_id="other")
        elsewhere, here = served.channel("OTHER", "third"), served.channel("PLAINTEXT", "third")
        found = [(await served.metadata(each)).error_code for each in (victim, other, elsewhere, here)]
        wrong, right = ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.NONE
        assert found == [wrong, right, wrong, right]
        assert (await groups(other)).error_code == wrong

    play(scenario)


def test_the_oldest_rule_that_fits_counts(play: Play) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(error(remaining=1))
        served.injection.add(Rule(action="error", api_key=METADATA, code=ErrorCode.UNKNOWN_SERVER_ERROR, remaining=1))
        channel = served.channel()
        codes = [(await served.metadata(channel)).error_code for _ in range(3)]
        assert codes == [ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]

    play(scenario)


def test_a_delayed_request_is_handled_at_once_and_answered_late(play: Play) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(Rule(action="delay", api_key=METADATA, delay_ms=200, remaining=1))
        channel = served.channel()
        loop = asyncio.get_running_loop()
        began = loop.time()
        late = asyncio.ensure_future(served.metadata(channel))
        await until(lambda: served.handled)
        assert not late.done()
        assert (await late).cluster_id == "test"
        assert round((loop.time() - began) * 1000) >= 200, "the loop counts whole milliseconds"

    play(scenario)


def test_requests_after_a_delayed_one_are_handled_and_answered_after_it(play: Play) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(Rule(action="delay", api_key=METADATA, delay_ms=1_000, remaining=1))
        channel = served.channel()
        answered: list[str] = []
        late = asyncio.ensure_future(served.metadata(channel))
        late.add_done_callback(lambda _: answered.append("delayed"))
        following = asyncio.ensure_future(served.metadata(channel))
        following.add_done_callback(lambda _: answered.append("following"))
        await until(lambda: len(served.handled) == 2)
        assert answered == []
        assert (await following).cluster_id == (await late).cluster_id == "test"
        assert answered == ["delayed", "following"]

    play(scenario)


def test_a_delayed_long_poll_is_answered_late_and_ends_with_its_connection(play: Play) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(Rule(action="delay", api_key=GROUPS, delay_ms=50))
        channel = served.channel()
        waiting = groups(channel)
        await until(lambda: served.parked)
        served.parked[0].set_result(ListGroupsResponse())
        assert (await waiting).error_code == ErrorCode.NONE
        again = groups(channel)
        await until(lambda: len(served.parked) == 2)
        again.cancel()
        await channel.close()
        await until(served.parked[1].cancelled)

    play(scenario)


@pytest.mark.parametrize("handled", [False, True])
def test_a_dropped_request_closes_its_connection_done_or_not(play: Play, handled: bool) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(Rule(action="drop", api_key=METADATA, handled=handled, remaining=1))
        channel = served.channel()
        with pytest.raises(ChannelError):
            await served.metadata(channel)
        assert len(served.handled) == handled
        assert (await served.metadata(served.channel())).cluster_id == "test"

    play(scenario)


@pytest.mark.parametrize("handled", [False, True])
def test_a_silenced_request_is_never_answered_until_all_is_cleared(play: Play, handled: bool) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(Rule(action="drop", api_key=METADATA, silent=True, handled=handled, remaining=1))
        waiting = asyncio.ensure_future(served.metadata(served.channel()))
        await until(lambda: served.injection.silent == 1)
        assert len(served.handled) == handled
        assert not waiting.done()
        assert (await served.metadata(served.channel())).cluster_id == "test", "others are served"
        served.injection.clear()
        with pytest.raises(ChannelError):
            await waiting
        assert served.injection.silent == 0

    play(scenario)


def test_a_long_poll_that_is_lost_is_done_first(play: Play) -> None:
    async def scenario(served: Any) -> None:
        served.injection.add(Rule(action="drop", api_key=GROUPS, handled=True, remaining=1))
        waiting = groups(served.channel())
        await until(lambda: served.parked)
        served.parked[0].set_result(ListGroupsResponse())
        with pytest.raises(ChannelError):
            await waiting

    play(scenario)


def test_a_refusing_listener_is_closed_without_its_connections_and_reopens_on_its_port(play: Play) -> None:
    async def scenario(served: Any) -> None:
        channel = served.channel()
        await served.metadata(channel)
        listener = served.injection.listener("PLAINTEXT")
        port = listener.port
        listener.refuse()
        listener.refuse()
        assert listener.is_refusing
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        assert (await served.metadata(channel)).cluster_id == "test", "who was connected still is"
        assert (await served.metadata(served.channel("OTHER"))).cluster_id == "test"
        await listener.accept()
        await listener.accept()
        assert listener.port == port and not listener.is_refusing
        assert (await served.metadata(served.channel())).cluster_id == "test"

    play(scenario)


def test_a_listener_that_refuses_can_cut_its_connections_and_be_closed_for_good(play: Play) -> None:
    async def scenario(served: Any) -> None:
        channel = served.channel()
        await served.metadata(channel)
        listener = served.injection.listener("PLAINTEXT")
        listener.refuse(cut=True)
        await until(lambda: listener.connection_count == 0)
        with pytest.raises(ChannelError):
            await served.metadata(channel, timeout_ms=200)
        await listener.close()
        await listener.accept()
        assert not listener.is_refusing
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", listener.port)

    play(scenario)


def test_limits_and_unknown_names_are_refused() -> None:
    injection = Injection()
    for _ in range(RULES_MAX):
        injection.add(error())
    with pytest.raises(TooManyRules):
        injection.add(error())
    injection.clear()
    assert injection.rules == {}
    with pytest.raises(NoSuchListener):
        injection.listener("NOBODY")
