"""Resolution of subscribed patterns: costly or invalid ones do not block the event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from kvorum.broker.coordinator.group.consumer.patterns import SLICE_MS, Resolution, compiled
from kvorum.broker.coordinator.records.codec import GroupRecordType, group_record
from kvorum.broker.coordinator.records.consumer import ConsumerGroupMemberMetadataValue, MemberKey
from kvorum.broker.coordinator.runtime.aside import Aside
from kvorum.broker.coordinator.runtime.words import Decision
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image import MetadataImage
from sim.loop import SimLoop
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.consumer.consumer_kit import (
    Consumer,
    ConsumerWorld,
    image_after,
    topic_id,
    topic_records,
)
from tests.unit.broker.coordinator.group_kit import GROUP

T = TypeVar("T")


def image_of(*names: str) -> MetadataImage:
    return image_after(MetadataImage(), *(record for name in names for record in topic_records(name, 1)))[1]


@pytest.mark.parametrize("pattern", [r"(\pL.*){0,300}", "|".join(f".*a.{{{n}}}" for n in range(1, 240)), "a" * 32_768])
def test_a_pattern_that_would_take_long_to_compile_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        compiled(pattern)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_list_of_500_names_is_a_pattern() -> None:
    matches = compiled("|".join(f"orders-service-{n}-events" for n in range(500)))
    assert matches("orders-service-499-events")
    assert not matches("orders-service-500-events")


def test_a_slice_of_a_resolution_ends_when_its_time_is_over() -> None:
    """However long one match takes: the clock moves 4 ms a look."""
    names = [f"t{n}" for n in range(50)]
    resolution = Resolution({"t.*"}, image_of(*names), lambda name: name != "t7", 0)
    looks = 0

    def now_ms() -> int:
        nonlocal looks
        looks += 1
        return looks * 4

    slices = 1
    while resolution.step(now_ms):
        slices += 1
    assert slices >= len(names) * 4 / (SLICE_MS + 8)
    assert not resolution.judge()
    assert resolution.result["t.*"].topics == frozenset(names) - {"t7"}


def test_names_are_matched_off_the_loop(run: Run, loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    is_off = False
    run_in_executor, step = loop.run_in_executor, Resolution.step

    def off(executor: object, work: Callable[..., T], *arguments: object) -> object:
        def done(*arguments: object) -> T:
            nonlocal is_off
            is_off = True
            try:
                return work(*arguments)
            finally:
                is_off = False

        return run_in_executor(executor, done, *arguments)

    def stepped(self: Resolution, now_ms: Callable[[], int]) -> bool:
        assert is_off, "a match may take ten milliseconds"
        return step(self, now_ms)

    monkeypatch.setattr(loop, "run_in_executor", off)
    monkeypatch.setattr(Resolution, "step", stepped)

    async def scenario() -> None:
        world = ConsumerWorld()
        world.make_topic("t", 2)
        await world.lead()
        member = Consumer(world, "a", topics=None, regex="t.*")
        await member.join()
        await asyncio.sleep(1)
        await member.join()
        assert set(member.assigned) == {topic_id("t")}

    run(scenario())


def test_one_thing_is_done_aside_at_a_time_and_in_order(run: Run) -> None:
    async def scenario() -> None:
        aside, reported = Aside(), []

        def work(number: int) -> Callable[[], int]:
            def job() -> int:
                reported.append(f"begun {number}")
                return number

            return job

        for number in range(3):
            aside.do(work(number), lambda result: reported.append(f"done {result}"))
        await asyncio.sleep(1)
        assert reported == ["begun 0", "done 0", "begun 1", "done 1", "begun 2", "done 2"]

    run(scenario())


def test_an_unreadable_pattern_in_the_log_matches_nothing(run: Run) -> None:
    """Another implementation wrote it, with a dialect of its own."""

    async def scenario() -> None:
        world = ConsumerWorld()
        world.make_topic("t", 2)
        await world.lead()
        key = MemberKey(group_id=GROUP, member_id="alien")
        value = ConsumerGroupMemberMetadataValue(
            subscribed_topic_regex="(?=t)t", rebalance_timeout_ms=1000, classic_member_metadata=None
        )
        record = group_record(GroupRecordType.CONSUMER_GROUP_MEMBER_METADATA, key, value, 0)
        await world.partition.write("alien", lambda state, now_ms: Decision(response=None, records=[record]))
        member = Consumer(world, "a", topics=None, regex="t.*")
        assert (await member.join()).error_code == ErrorCode.NONE
        await asyncio.sleep(1)
        await member.join()
        assert set(member.assigned) == {topic_id("t")}
        assert world.group.regexes["(?=t)t"].topics == frozenset()

    run(scenario())
