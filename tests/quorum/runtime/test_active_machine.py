"""The active controller under all that a log may do to it, in any order: what was answered is committed."""

import asyncio
from collections.abc import Sequence
from functools import partial
from unittest import mock

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from runtime_kit import World, change, names, topic_record

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import parse_header
from kvorum.quorum import active
from kvorum.quorum.active import State
from kvorum.quorum.batches import decode_batch, encode_batches
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer

STEPS = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 3)),
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
        self.waiting: list[tuple[tuple[str, ...], asyncio.Future[tuple[str, ...]]]] = []
        self.answered: set[str] = set()

    async def step(self, what: str, count: int) -> None:
        log = self.world.log
        match what:
            case "submit":
                numbers = range(self.number, self.number + count)
                self.number += count
                wanted = tuple(f"topic-{number}" for number in numbers)
                work = self.controller.submit(change(wanted, *[topic_record(number) for number in numbers]))
                self.waiting.append((wanted, asyncio.ensure_future(work)))
            case "look":
                seen = tuple(names(self.controller.speculative_image))
                self.waiting.append((seen, asyncio.ensure_future(self.controller.submit(change(seen)))))
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

    def check(self) -> None:
        committed = set(names(self.world.image))
        still = []
        for wanted, task in self.waiting:
            if not task.done():
                still.append((wanted, task))
            elif not task.cancelled() and task.exception() is None:
                assert task.result() == wanted
                self.answered.update(wanted)
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
        if self.controller.state is State.INACTIVE:
            assert not self.waiting, "who is not active keeps nobody waiting"

    async def settle(self) -> None:
        """Heal: in the end all is decided, and the image is what the log says."""
        self.world.log.refuse_after = None
        self.world.log.elect()
        for _ in range(5):
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
@example(steps=[("refuse after", 1), ("submit", 3), ("commit", 2)], large=True)  # the abort is refused too
def test_what_is_answered_is_committed_whatever_the_log_does(steps: list[tuple[str, int]], large: bool) -> None:
    world = World(commits_at_once=False)

    async def go() -> None:
        machine = Machine(world)
        world.log.elect()
        for what, count in steps:
            await machine.step(what, count)
        await machine.settle()

    # With two records a batch, changes of three are transactions.
    cut = partial(encode_batches, records_max=2) if large else encode_batches
    with mock.patch.object(active, "encode_batches", cut):
        world.run(go())
    world.end()
