"""The active controller's pipeline: what is decided on what, who is answered when, and what is thrown away."""

import asyncio

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.active import RESTART_DELAY_S, State
from kvorum.quorum.batches import encode_batches, encoded_batches
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.records import BeginTransaction
from tests.unit.quorum.runtime.runtime_kit import World, change, names, topic_record


@pytest.fixture
def slow() -> World:
    """A world whose log commits when told to."""
    world = World(commits_at_once=False)
    world.elect()
    world.act(world.log.commit)
    return world


async def code_of(task: "asyncio.Future[object]") -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await task
    return caught.value.code


def test_a_new_cluster_begins_with_its_features(world: World) -> None:
    world.elect()
    assert world.image.features.metadata_version > 0
    assert world.server.controller.epoch == 1


def test_every_activation_writes_a_first_record_of_its_epoch(world: World) -> None:
    world.elect()
    before = world.log.high_watermark
    world.elect()
    assert world.log.high_watermark == before + 1
    assert world.server.store.epoch == 2


def test_nothing_is_decided_while_inactive(world: World) -> None:
    async def submit() -> ErrorCode:
        return await code_of(asyncio.ensure_future(world.server.controller.submit(change("no", topic_record(1)))))

    assert world.run(submit()) is ErrorCode.NOT_CONTROLLER
    assert world.log.high_watermark == 0


def test_later_decisions_see_earlier_ones_before_they_are_committed(slow: World) -> None:
    seen: list[list[str]] = []

    def looking(image: MetadataImage) -> Result[str]:
        seen.append(list(names(image)))
        return Result(records=[topic_record(2)], response="second")

    async def go() -> None:
        controller = slow.server.controller
        first = asyncio.ensure_future(controller.submit(change("first", topic_record(1))))
        second = asyncio.ensure_future(controller.submit(looking))
        await asyncio.sleep(0.01)
        assert seen == [["topic-1"]]
        assert names(controller.image) == []
        assert not first.done() and not second.done()
        slow.log.commit(1)
        assert await first == "first"
        assert names(controller.image) == ["topic-1"]
        assert not second.done()
        slow.log.commit(1)
        assert await second == "second"

    slow.run(go())
    slow.end()


def test_a_decision_without_records_waits_for_the_commit_of_its_base(slow: World) -> None:
    async def go() -> None:
        controller = slow.server.controller
        writing = asyncio.ensure_future(controller.submit(change("written", topic_record(1))))
        await asyncio.sleep(0)
        looking = asyncio.ensure_future(
            controller.submit(lambda image: Result(records=[], response=tuple(names(image))))
        )
        await asyncio.sleep(0.01)
        assert not looking.done()
        slow.log.commit()
        assert await looking == ("topic-1",)
        assert await writing == "written"

    slow.run(go())
    slow.end()


def test_lost_leadership_fails_all_waiters_and_discards_speculative_state(slow: World) -> None:
    async def go() -> None:
        controller = slow.server.controller
        waiting = [asyncio.ensure_future(controller.submit(change(n, topic_record(n)))) for n in range(3)]
        looking = asyncio.ensure_future(controller.submit(lambda image: Result(records=[], response="seen")))
        await asyncio.sleep(0)
        slow.log.depose(leader_id=2)
        for task in [*waiting, looking]:
            assert await code_of(task) is ErrorCode.NOT_CONTROLLER
        assert controller.state is State.INACTIVE
        assert names(controller.speculative_image) == []
        slow.log.elect()
        slow.log.commit()
        again = asyncio.ensure_future(controller.submit(change("again", topic_record(1))))
        await asyncio.sleep(0)
        slow.log.commit()
        assert await again == "again"
        assert names(controller.image) == ["topic-1"]

    slow.run(go())
    slow.end()


def test_a_dropped_batch_throws_away_all_that_was_decided_after_it(slow: World) -> None:
    async def go() -> None:
        controller = slow.server.controller
        first = asyncio.ensure_future(controller.submit(change("first", topic_record(1))))
        second = asyncio.ensure_future(controller.submit(change("second", topic_record(2))))
        await asyncio.sleep(0)
        slow.log.drop_open()
        assert await code_of(first) is ErrorCode.NOT_CONTROLLER
        assert await code_of(second) is ErrorCode.NOT_CONTROLLER
        await asyncio.sleep(0.01)
        assert controller.state is State.ACTIVE
        assert names(controller.speculative_image) == []
        third = asyncio.ensure_future(controller.submit(change("third", topic_record(3))))
        await asyncio.sleep(0)
        slow.log.commit()
        assert await third == "third"
        assert names(controller.image) == ["topic-3"]

    slow.run(go())
    slow.end()


def test_a_change_that_the_log_refuses_leaves_those_before_it_alone(slow: World) -> None:
    async def go() -> None:
        controller = slow.server.controller
        first = asyncio.ensure_future(controller.submit(change("first", topic_record(1))))
        await asyncio.sleep(0)
        slow.log.refuse_after = 0
        refused = asyncio.ensure_future(controller.submit(change("refused", topic_record(2))))
        assert await code_of(refused) is ErrorCode.REQUEST_TIMED_OUT
        slow.log.refuse_after = None
        third = asyncio.ensure_future(controller.submit(change("third", topic_record(3))))
        await asyncio.sleep(0)
        slow.log.commit()
        assert (await first, await third) == ("first", "third")
        assert names(controller.image) == ["topic-1", "topic-3"]

    slow.run(go())
    slow.end()


def test_a_client_that_goes_away_takes_nothing_with_it(slow: World) -> None:
    async def go() -> None:
        controller = slow.server.controller
        gone = asyncio.ensure_future(controller.submit(change("gone", topic_record(1))))
        stays = asyncio.ensure_future(controller.submit(change("stays", topic_record(2))))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        slow.log.commit()
        assert await stays == "stays"
        assert names(controller.image) == ["topic-1", "topic-2"]

    slow.run(go())
    slow.end()


def test_a_large_change_is_never_half_visible(slow: World, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [topic_record(n) for n in range(25)]
    monkeypatch.setattr(
        "kvorum.quorum.active.encoded_batches",
        lambda found, timestamp_ms, name="": encoded_batches(found, timestamp_ms, name=name, records_max=10),
    )

    async def go() -> None:
        controller = slow.server.controller
        task = asyncio.ensure_future(controller.submit(change("done", *records)))
        after = asyncio.ensure_future(controller.submit(change("after", topic_record(99))))
        await asyncio.sleep(0)
        assert len(names(controller.speculative_image)) == 26
        steps = 0
        while not task.done():
            assert names(controller.image) == []
            steps += slow.log.commit(1)
            await asyncio.sleep(0.001)
        assert steps == 3
        assert len(names(controller.image)) == 25
        slow.log.commit()
        assert await after == "after"

    slow.run(go())
    slow.end()


def test_a_transaction_left_open_by_a_predecessor_is_aborted(slow: World) -> None:
    async def go() -> None:
        controller = slow.server.controller
        half = encode_batches([BeginTransaction(name="large"), topic_record(1)], 0)
        slow.log.append(half[0], controller.next_offset, controller.epoch)
        slow.log.commit()
        assert slow.server.store.in_transaction
        slow.log.depose(leader_id=2)
        slow.log.elect()
        slow.log.commit()
        assert not slow.server.store.in_transaction
        done = asyncio.ensure_future(controller.submit(change("done", topic_record(2))))
        await asyncio.sleep(0)
        slow.log.commit()
        await done
        assert names(controller.image) == ["topic-2"]

    slow.run(go())
    slow.end()


def test_a_transaction_cut_off_by_a_refusal_is_aborted_and_forgotten(
    slow: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kvorum.quorum.active.encoded_batches",
        lambda found, timestamp_ms, name="": encoded_batches(found, timestamp_ms, name=name, records_max=10),
    )

    async def go() -> None:
        controller = slow.server.controller
        slow.log.refuse_after = 1
        task = asyncio.ensure_future(controller.submit(change("never", *[topic_record(n) for n in range(25)])))
        assert await code_of(task) is ErrorCode.NOT_CONTROLLER
        assert controller.state is State.DRAINING
        slow.log.refuse_after = None
        slow.log.commit()
        await asyncio.sleep(0.01)
        assert controller.state is State.ACTIVE
        slow.log.commit()
        assert not slow.server.store.in_transaction
        done = asyncio.ensure_future(controller.submit(change("done", topic_record(50))))
        await asyncio.sleep(0)
        slow.log.commit()
        assert await done == "done"
        assert names(controller.image) == ["topic-50"]

    slow.run(go())
    slow.end()


def test_an_abort_that_the_log_refuses_is_tried_again_and_nothing_is_decided_before_it(
    slow: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kvorum.quorum.active.encoded_batches",
        lambda found, timestamp_ms, name="": encoded_batches(found, timestamp_ms, name=name, records_max=10),
    )

    async def go() -> None:
        controller = slow.server.controller
        slow.log.refuse_after = 1
        task = asyncio.ensure_future(controller.submit(change("never", *[topic_record(n) for n in range(25)])))
        assert await code_of(task) is ErrorCode.NOT_CONTROLLER
        slow.log.commit()  # the half that was taken; now nothing is open, and the log is still full
        await asyncio.sleep(5 * RESTART_DELAY_S)
        assert controller.state is State.DRAINING
        early = asyncio.ensure_future(controller.submit(change("early", topic_record(49))))
        assert await code_of(early) is ErrorCode.NOT_CONTROLLER
        slow.log.refuse_after = None
        await asyncio.sleep(2 * RESTART_DELAY_S)
        assert controller.state is State.ACTIVE
        done = asyncio.ensure_future(controller.submit(change("done", topic_record(50))))
        await asyncio.sleep(0)
        slow.log.commit()
        assert await done == "done"
        assert names(controller.image) == ["topic-50"]

    slow.run(go())
    slow.end()


def test_a_new_clusters_first_records_are_tried_again_until_the_log_takes_them() -> None:
    world = World()
    world.log.refuse_after = 0
    world.elect()
    controller = world.server.controller
    assert controller.state is State.DRAINING and controller.image.features.metadata_version == 0
    world.log.refuse_after = None
    world.advance(2000 * RESTART_DELAY_S)
    assert controller.state is State.ACTIVE and controller.image.features.metadata_version > 0
    world.end()


def test_a_deposed_controller_does_not_restart_the_work() -> None:
    world = World()
    world.log.refuse_after = 0
    world.elect()
    world.act(world.log.depose)
    world.log.refuse_after = None
    world.advance(2000 * RESTART_DELAY_S)
    assert world.server.controller.state is State.INACTIVE and not world.log.batches
    world.end()


def test_a_decision_that_fails_unexpectedly_ends_the_process(world: World) -> None:
    world.elect()

    def broken(image: MetadataImage) -> Result[None]:
        raise ZeroDivisionError

    async def go() -> None:
        with pytest.raises(ZeroDivisionError):
            await world.server.controller.submit(broken)

    world.run(go())
    assert [type(fault) for fault in world.faults] == [ZeroDivisionError]
    world.faults.clear()
