"""Who looks for the active controller asks each in turn, ever more rarely up to a limit; in virtual time."""

import asyncio
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kvorum.protocol.schema import Message
from kvorum.quorum.controller_channel import (
    RETRY_BACKOFF_MS_MAX,
    SEARCH_BACKOFF_MS_MAX,
    ControllerChannel,
    ControllerNodes,
)
from kvorum.quorum.loader import MetadataLoader
from sim.clock import SimClock
from sim.disk import SimDisk
from sim.loop import SimLoop
from tests.unit.quorum.runtime.runtime_kit import CLUSTER_ID, settings

FIRST_MS = 20
"""controller.quorum.retry.backoff.ms."""
SHORTEST, LONGEST = 0.8, 1.2
"""A delay is up to a fifth longer or shorter by chance."""
ROUNDING_MS = 0.001

REQUEST = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop(random.Random(1))
    yield loop
    assert not loop.errors
    loop.close()


def nodes() -> ControllerNodes:
    return ControllerNodes({1: ("a", 1), 2: ("b", 2), 3: ("c", 3)}, CLUSTER_ID)


def assert_doubles(times: list[float], last_ms: int) -> None:
    """Check the waits between the tries: from FIRST_MS on each twice the one before, up to the last."""
    for number, (earlier, later) in enumerate(pairwise(times)):
        delay = min(last_ms, FIRST_MS << number)
        gap = 1000 * (later - earlier)
        assert delay * SHORTEST - ROUNDING_MS <= gap <= delay * LONGEST + ROUNDING_MS, (number, gap)


class Deaf(ControllerChannel):
    """A channel whose connections all fail, until one does not; notes who was asked when."""

    def __init__(self, known: ControllerNodes, answers_from: float = float("inf")) -> None:
        super().__init__(known, settings(), client_id="test", chance=random.Random(7))
        self.tries: list[float] = []
        self.requested: list[int] = []
        self.answers_from = answers_from

    async def send_to(self, node_id: int, message: Message, *, timeout_ms: int) -> Message:
        now = asyncio.get_running_loop().time()
        self.tries.append(now)
        self.requested.append(node_id)
        if now < self.answers_from:
            raise ChannelError("nobody is there")
        return AllocateProducerIdsResponse()


@pytest.mark.parametrize("searching", [False, True], ids=["request", "search"])
def test_tries_to_find_the_controller_grow_apart_up_to_a_limit(loop: SimLoop, searching: bool) -> None:
    channel = Deaf(nodes())
    backoff = channel.search_backoff() if searching else None
    began = loop.time()
    with pytest.raises(KafkaError) as caught:
        loop.run_until_complete(channel.request(REQUEST, timeout_ms=5_000, backoff=backoff))
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT and "nobody is there" in str(caught.value)
    assert loop.time() - began == pytest.approx(5.0, abs=0.002), "no try after the time is up, and no end before"
    last_ms = SEARCH_BACKOFF_MS_MAX if searching else RETRY_BACKOFF_MS_MAX
    assert len(channel.tries) > 5_000 / last_ms / LONGEST
    assert_doubles(channel.tries, last_ms)
    assert {*channel.requested[:3]} == {*channel.requested[3:6]} == {1, 2, 3}, "each in turn"


def test_each_request_begins_with_a_short_wait_again(loop: SimLoop) -> None:
    channel = Deaf(nodes(), answers_from=loop.time() + 3.0)
    loop.run_until_complete(channel.request(REQUEST, timeout_ms=10_000))
    assert_doubles(channel.tries, RETRY_BACKOFF_MS_MAX)
    channel.tries.clear()
    channel.answers_from = loop.time() + 1.0
    loop.run_until_complete(channel.request(REQUEST, timeout_ms=10_000))
    assert len(channel.tries) > 3
    assert_doubles(channel.tries, RETRY_BACKOFF_MS_MAX)


def test_a_controller_that_becomes_known_is_queried_at_once(loop: SimLoop) -> None:
    known = nodes()
    channel = Deaf(known)

    async def go() -> None:
        waiting = asyncio.ensure_future(channel.request(REQUEST, timeout_ms=10_000))
        await asyncio.sleep(2.0)
        channel.answers_from = loop.time()
        known.learn(3, 7)
        await waiting
        assert channel.requested[-1] == 3 and channel.tries[-1] == channel.answers_from

    loop.run_until_complete(go())


def test_the_metadata_fetch_tries_often_again_once_a_controller_answered(
    loop: SimLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[BaseException] = []
    tries: list[float] = []
    answers: set[int] = {20}
    """Which of the tries succeeds."""

    async def fetch(loader: MetadataLoader, node_id: int) -> bool:
        tries.append(loop.time())
        await asyncio.sleep(0)
        if len(tries) in answers:
            return True
        raise ChannelError("nobody is there")

    monkeypatch.setattr(MetadataLoader, "_fetch", fetch)

    async def go() -> None:
        loader = MetadataLoader(
            settings(),
            SimDisk(random.Random(2)),
            SimClock(loop),
            nodes(),
            node_id=11,
            cluster_id=CLUSTER_ID,
            chance=random.Random(3),
            on_fault=faults.append,
            directory="/data",
        )
        await loader.start()
        await asyncio.sleep(3.0)
        await loader.close()

    loop.run_until_complete(go())
    assert len(tries) > 25 and not faults
    assert_doubles(tries[:20], SEARCH_BACKOFF_MS_MAX)
    assert tries[20] == tries[19], "after an answer the next fetch goes out at once"
    assert_doubles(tries[20:], SEARCH_BACKOFF_MS_MAX)
