"""The active controller under all that a log may do to it, in any order: what was answered is committed."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from unittest import mock

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum import active
from kvorum.quorum.active import State
from kvorum.quorum.batches import decode_batch, encoded_batches
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer
from kvorum.quorum.slices import SLICE_S
from kvorum.quorum.steps import Steps
from tests.unit.quorum.runtime.runtime_kit import World, change, names, topic_record

T = TypeVar("T")

SLICES = 6
TURN_S = 0.0004
"""A decision in slices goes on over two or three steps of the machine."""

STEPS = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 3)),
    st.tuples(st.just("submit large"), st.integers(1, 3)),
    st.tuples(st.just("look"), st.just(0)),
    st.tuples(st.just("commit"), st.integers(1, 5)),
    st.tuples(st.just("drop"), st.just(0)),
    st.tuples(st.just("depose"), st.integers(0, 1)),
    st.tuples(st.just("elect"), st.just(0)),
    st.tuples(st.just("refuse after"), st.integers(0, 2)),
    st.tuples(st.just("take again"), st.just(0)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
)


class Machine:
    """Takes steps, and holds the invariants against each."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.controller = world.server.controller
        self.number = 0
        self.waiting: list[tuple[tuple[str, ...] | None, asyncio.Future[tuple[str, ...]]]] = []
        """What the answer is to be (None: whatever a look sees), and who waits for it."""
        self.answered: set[str] = set()

    async def step(self, what: str, count: int) -> None:
        log = self.world.log
        match what:
            case "submit" | "submit large":
                numbers = range(self.number, self.number + count)
                self.number += count
                wanted = tuple(f"topic-{number}" for number in numbers)
                decide = change(wanted, *[topic_record(number) for number in numbers])
                work = self.controller.submit(decide if what == "submit" else self.in_slices(decide))
                self.waiting.append((wanted, asyncio.ensure_future(work)))
            case "look":
                work = self.controller.submit(lambda image: Result(records=[], response=tuple(names(image))))
                self.waiting.append((None, asyncio.ensure_future(work)))
            case "commit":
                log.commit(count)
            case "drop":
                log.drop_open()
            case "depose":
                log.depose(leader_id=2 if count else None)
            case "elect":
                log.elect()
            case "refuse after":
                log.refuse_after = count
            case "take again":
                log.refuse_after = None
            case "cancel":
                if count < len(self.waiting):
                    self.waiting[count][1].cancel()
        await asyncio.sleep(0.001)
        self.check()

    def in_slices(self, decide: Callable[[MetadataImage], Result[T]]) -> Callable[[MetadataImage], Steps[Result[T]]]:
        """Return what decides the same and takes SLICES turns for it, on what was there when it began."""

        def steps(image: MetadataImage) -> Steps[Result[T]]:
            for _ in range(SLICES):
                self.world.loop._now += SLICE_S
                yield
            return decide(image)

        return steps

    def check(self) -> None:
        committed = set(names(self.world.image))
        still = []
        for wanted, task in self.waiting:
            if not task.done():
                still.append((wanted, task))
            elif not task.cancelled() and task.exception() is None:
                assert wanted is None or task.result() == wanted
                self.answered.update(task.result())
            elif not task.cancelled():
                error = task.exception()
                assert isinstance(error, KafkaError)
                assert error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
        self.waiting = still
        assert self.answered <= committed, "what was answered, or seen by an answered look, is committed"
        if self.controller.state is State.ACTIVE:
            assert committed <= set(names(self.controller.speculative_image))
            if self.controller.changes_count == 0:
                assert self.controller.speculative_image.same_content(self.world.image)
        if self.controller.state is State.INACTIVE and not self.controller.is_making:
            assert not self.waiting, "who is not active keeps nobody waiting"

    async def settle(self) -> None:
        """Heal: in the end all is decided, and the image is what the log says."""
        self.world.log.refuse_after = None
        self.world.log.elect()
        for _ in range(5 + SLICES * self.number):
            self.world.log.commit()
            await asyncio.sleep(0.001)
        self.check()
        assert not self.waiting
        assert self.controller.state is State.ACTIVE
        assert not self.world.server.store.in_transaction
        assert self.world.image.same_content(replayed(self.world.log.batches))


def replayed(batches: Sequence[bytes]) -> MetadataImage:
    delta, transactions = MetadataDelta(MetadataImage()), TransactionBuffer()
    for batch in batches:
        view = memoryview(batch)
        header = parse_header(view)
        for _, record in transactions.feed_batch(header.base_offset, decode_batch(view, 0, header)):
            delta.replay(record)
    return delta.apply(0, 0)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=40), large=st.booleans())
@example(steps=[("submit large", 1), ("depose", 1), ("elect", 0), ("submit", 1), ("commit", 5)], large=True)
@example(steps=[("submit", 1), ("submit large", 1), ("submit", 2), ("drop", 0), ("submit", 1)], large=False)
@example(steps=[("refuse after", 1), ("submit", 3), ("commit", 2)], large=True)  # the abort is refused too
def test_every_response_is_committed_despite_log_failures(steps: list[tuple[str, int]], large: bool) -> None:
    world = World(commits_at_once=False)

    async def go() -> None:
        machine = Machine(world)
        world.log.elect()
        for what, count in steps:
            await machine.step(what, count)
        await machine.settle()

    # With two records a batch, changes of three are transactions.
    sleep = asyncio.sleep
    cut = partial(encoded_batches, records_max=2) if large else encoded_batches
    # The simulated loop comes to timers only when no callback is ready: a turn for others is a short sleep here.
    turn = mock.patch.object(asyncio, "sleep", lambda delay: sleep(max(delay, TURN_S)))
    with mock.patch.object(active, "encoded_batches", cut), turn:
        world.run(go())
    world.end()
