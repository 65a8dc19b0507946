"""Decisions that take longer than a slice of the loop's time: still one decision, on what was there when it began."""

import asyncio
from collections.abc import Callable

import pytest

from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.batches import decode_batch
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.records import BrokerRegistrationChange, MetadataRecord
from kvorum.quorum.slices import SLICE_S
from kvorum.quorum.steps import Steps
from tests.unit.quorum.runtime.runtime_kit import SESSION_MS, World, change, names, topic_record


@pytest.fixture(autouse=True)
def _turns_for_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated loop looks at timers only when no callback is ready: a turn for others is a short sleep here."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda delay: sleep(max(delay, 0.0001)))


@pytest.fixture
def slow() -> World:
    """A world whose log commits when told to."""
    world = World(commits_at_once=False)
    world.elect()
    world.act(world.log.commit)
    return world


def large(
    world: World, response: str, *records: MetadataRecord, slices: int = 20, error: Exception | None = None
) -> Callable[[MetadataImage], Steps[Result[str]]]:
    """Return a decide function that takes so many slices, and then comes to this."""

    def decide(image: MetadataImage) -> Steps[Result[str]]:
        for _ in range(slices):
            world.loop._now += SLICE_S
            yield
        if error is not None:
            raise error
        return Result(records=list(records), response=response)

    return decide


async def begun(world: World, decide: Callable[[MetadataImage], Steps[Result[str]]]) -> "asyncio.Task[str]":
    """Submit a large decision and return in the middle of it."""
    task = asyncio.ensure_future(world.server.controller.submit(decide))
    await asyncio.sleep(0.01)
    assert world.server.controller.is_making and not task.done()
    return task


async def refusal(task: "asyncio.Future[str]") -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await task
    return caught.value.code


def test_others_wait_for_it_and_then_run_in_order(slow: World) -> None:
    seen: list[list[str]] = []

    def looking(image: MetadataImage) -> Result[str]:
        seen.append(list(names(image)))
        return Result(records=[topic_record(10 + len(seen))], response=f"small {len(seen)}")

    async def go() -> None:
        controller = slow.server.controller
        first = await begun(slow, large(slow, "large", topic_record(1), topic_record(2)))
        end_offset = slow.log.log_end_offset
        others = [asyncio.ensure_future(controller.submit(looking)) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert controller.is_making and not seen and slow.log.log_end_offset == end_offset
        assert names(controller.speculative_image) == [], "nobody sees half a decision"
        await asyncio.sleep(1.0)
        both = ["topic-1", "topic-2"]
        assert seen == [both, ["topic-1", "topic-11", "topic-2"], ["topic-1", "topic-11", "topic-12", "topic-2"]]
        slow.log.commit()
        assert [await task for task in (first, *others)] == ["large", "small 1", "small 2", "small 3"]
        now_ms = asyncio.get_running_loop().time() * 1000
        waited, took = controller.times.queue_ms, controller.times.processing_ms
        assert waited.count == took.count == 4
        assert waited.collect(now_ms)["0.50"] > 0 < took.collect(now_ms)["0.99"]
        assert took.collect(now_ms)["0.99"] > 20 * SLICE_S * 1000 * 0.95 > took.collect(now_ms)["0.50"]

    slow.run(go())
    slow.end()


def test_two_large_ones_run_one_after_the_other(slow: World) -> None:
    async def go() -> None:
        first = await begun(slow, large(slow, "first", topic_record(1)))
        second = asyncio.ensure_future(slow.server.controller.submit(large(slow, "second", topic_record(2))))
        third = asyncio.ensure_future(slow.server.controller.submit(change("third", topic_record(3))))
        while not third.done():
            slow.log.commit()
            await asyncio.sleep(0.001)
        assert [await first, await second, await third] == ["first", "second", "third"]
        assert names(slow.image) == ["topic-1", "topic-2", "topic-3"]
        assert (
            slow.image.offset - 2
            == slow.log.batches.index(slow.log.batches[-1]) - 2 + slow.image.offset - len(slow.log.batches) + 1
        )

    slow.run(go())
    slow.end()


@pytest.mark.parametrize("again", [False, True], ids=["deposed", "deposed and elected again"])
def test_lost_leadership_ends_it_with_nothing_appended(slow: World, again: bool) -> None:
    async def go() -> None:
        task = await begun(slow, large(slow, "never", topic_record(1)))
        slow.log.depose(leader_id=2)
        if again:
            slow.log.elect()
        assert await refusal(task) is ErrorCode.NOT_CONTROLLER
        assert not slow.server.controller.is_making
        if not again:
            slow.log.elect()
        done = asyncio.ensure_future(slow.server.controller.submit(change("after", topic_record(2))))
        await asyncio.sleep(0.001)
        slow.log.commit()
        assert await done == "after"
        assert names(slow.image) == ["topic-2"]

    slow.run(go())
    slow.end()


def test_it_ends_if_its_base_is_discarded(slow: World) -> None:
    async def go() -> None:
        controller = slow.server.controller
        before = asyncio.ensure_future(controller.submit(change("before", topic_record(1))))
        await asyncio.sleep(0.001)
        task = await begun(slow, large(slow, "never", topic_record(2)))
        slow.log.drop_open()
        assert await refusal(task) is ErrorCode.NOT_CONTROLLER
        assert await refusal(before) is ErrorCode.NOT_CONTROLLER
        slow.log.commit()
        assert names(controller.speculative_image) == [] and not controller.is_making

    slow.run(go())
    slow.end()


def test_a_change_that_slips_in_spoils_it_and_not_the_log(slow: World) -> None:
    async def go() -> None:
        task = await begun(slow, large(slow, "never", topic_record(1)))
        slow.server.controller.write_nowait("in between", [topic_record(2)])
        assert await refusal(task) is ErrorCode.NOT_CONTROLLER
        slow.log.commit()
        assert names(slow.image) == ["topic-2"]

    slow.run(go())
    slow.end()


def test_a_client_that_goes_away_in_the_middle_of_it_delays_no_other(slow: World) -> None:
    async def go() -> None:
        task = await begun(slow, large(slow, "never", topic_record(1)))
        after = asyncio.ensure_future(slow.server.controller.submit(change("after", topic_record(2))))
        task.cancel()
        await asyncio.sleep(0.001)
        slow.log.commit()
        assert await after == "after"
        assert names(slow.image) == ["topic-2"]

    slow.run(go())
    slow.end()


def test_a_refusal_in_its_last_step_is_the_answer_and_a_fault_ends_the_process(slow: World) -> None:
    async def go() -> None:
        controller = slow.server.controller
        refused = KafkaError(ErrorCode.POLICY_VIOLATION, "no")
        assert await refusal(await begun(slow, large(slow, "", error=refused))) is ErrorCode.POLICY_VIOLATION
        assert not slow.faults and not controller.is_making
        with pytest.raises(ZeroDivisionError):
            await (await begun(slow, large(slow, "", error=ZeroDivisionError())))
        assert [type(fault) for fault in slow.faults] == [ZeroDivisionError] and not controller.is_making

    slow.run(go())
    slow.faults.clear()
    slow.end()


def test_a_sign_of_life_does_not_slip_in() -> None:
    world = World(metadata_max_idle_interval_ms=50)
    world.elect()

    async def go() -> None:
        before = world.log.high_watermark
        task = await begun(world, large(world, "done", topic_record(1), slices=100))
        assert await task == "done"
        assert world.log.high_watermark == before + 1, "the change, and no NoOp beside it"
        await asyncio.sleep(0.2)
        assert world.log.high_watermark > before + 1

    world.run(go())
    world.end()


def test_a_broker_whose_heartbeat_waits_for_it_is_not_silent(world: World) -> None:
    """12 is silent for good. 11's session ends in the middle of the decision, after its heartbeat came."""
    world.elect()

    async def go() -> None:
        epochs = await world.join(11, 12)
        await asyncio.sleep(0.5)
        await world.beat(11, epochs[11])
        await asyncio.sleep((SESSION_MS - 600) / 1000)
        decide = large(world, "done", slices=int(2.0 / SLICE_S))
        task = asyncio.ensure_future(world.server.controller.submit(decide))
        await asyncio.sleep(0.5)
        assert world.server.controller.is_making
        beat = asyncio.ensure_future(world.beat(11, epochs[11]))
        await task
        assert not (await beat).is_fenced
        await asyncio.sleep(0.1)
        views = [memoryview(batch) for batch in world.log.batches]
        records = [record for view in views for record in decode_batch(view, 0, parse_header(view))]
        changes = [record for record in records if isinstance(record, BrokerRegistrationChange)]
        assert {change.broker_id for change in changes if change.fenced} == {12}

    world.run(go())
