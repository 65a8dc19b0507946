"""A broker's loader follows the metadata log over real connections."""

import asyncio
from pathlib import Path

import pytest

from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.records import Record, build_batch
from kvorum.quorum.batches import encode_batches
from kvorum.quorum.controller_channel import ControllerNodes
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.loader import MetadataLoader, PublisherFailed
from kvorum.quorum.publisher import LoaderManifest, ManifestKind
from kvorum.quorum.records import BeginTransaction, EndTransaction, UnknownRecord
from kvorum.runtime.clock import SystemClock
from tests.unit.quorum.runtime.net_kit import (
    OTHER_CLUSTER_ID,
    Controller,
    Follower,
    closing,
    eventually,
    running,
    within_limit,
)
from tests.unit.quorum.runtime.runtime_kit import CLUSTER_ID, change, registration, topic_record


async def write(controller: Controller, *numbers: int) -> int:
    """Create topics in one change; return the last offset."""
    await controller.server.controller.submit(change(None, *[topic_record(number) for number in numbers]))
    return controller.log.high_watermark - 1


async def followed(loader: MetadataLoader, *followers: Follower) -> MetadataLoader:
    loader.install(*followers)
    await loader.start()
    await loader.wait_published()
    return loader


def test_publishers_get_the_full_image_first_and_then_each_change(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            await write(controller, 1)
            follower = Follower()
            loader = await followed(net.loader(11), follower)

            async def follow() -> None:
                offset = await write(controller, 2)
                await loader.wait_for_offset(offset)
                assert loader.offset == offset
                assert follower.image is loader.image
                assert [manifest.kind for manifest, _ in follower.seen] == [
                    ManifestKind.SNAPSHOT,
                    ManifestKind.LOG_DELTA,
                ]
                assert [seen for _, seen in follower.seen] == [["topic-1"], ["topic-1", "topic-2"]]
                assert loader.image.digest() == controller.server.store.image.digest()
                assert loader.fetched.total(SystemClock().monotonic_ms()) == controller.log.high_watermark
                assert loader.log_end_epoch == controller.log.epoch
                traffic = loader.traffic
                assert traffic.frames_sent - 1 <= traffic.frames_received <= traffic.frames_sent
                assert traffic.bytes_sent > 10 * traffic.frames_sent and traffic.bytes_received > 100

            await closing(loader, follow())
            assert not net.faults

    within_limit(go())


def test_nothing_is_published_before_an_image_that_it_may_begin_with(tmp_path: Path) -> None:
    """A controller that is behind the times tells of a high watermark that was long ago."""

    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            await write(controller, 1)
            follower, refused = Follower(), asyncio.Event()
            loader = net.loader(11)
            loader.install(follower)

            def may_begin(image: MetadataImage) -> bool:
                if "topic-2" not in image.topics.by_name:
                    refused.set()
                return "topic-2" in image.topics.by_name

            async def follow() -> None:
                await loader.start(may_begin)
                await refused.wait()
                assert not follower.seen and loader.offset == -1
                await write(controller, 2)
                await loader.wait_published()
                await loader.wait_for_offset(await write(controller, 3))
                assert [seen for _, seen in follower.seen] == [
                    ["topic-1", "topic-2"],
                    ["topic-1", "topic-2", "topic-3"],
                ]

            await closing(loader, follow())
            assert not net.faults

    within_limit(go())


def test_a_delta_is_released_when_all_publishers_have_taken_it_over(tmp_path: Path) -> None:
    deltas: list[MetadataDelta] = []

    class Keeper:
        def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
            assert not delta.is_empty
            deltas.append(delta)

    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            loader = net.loader(11)
            loader.install(Keeper())
            await loader.start()
            await loader.wait_published()

            async def follow() -> None:
                await loader.wait_for_offset(await write(controller, *range(5)))
                await eventually(lambda: all(delta.topics_delta.is_empty for delta in deltas))
                assert len(deltas) == 2 and loader.image.topics.by_name

            await closing(loader, follow())

    within_limit(go())


def test_publishers_are_called_in_the_order_of_installation_one_at_a_time(tmp_path: Path) -> None:
    calls: list[str] = []

    class Slow(Follower):
        async def on_metadata_update(self, delta, image, manifest):  # type: ignore[no-untyped-def,override]
            calls.append("slow begins")
            await asyncio.sleep(0.01)
            calls.append("slow ends")

    class Quick(Follower):
        def on_metadata_update(self, delta, image, manifest):  # type: ignore[no-untyped-def]
            calls.append("quick")

    async def go() -> None:
        async with running(tmp_path) as net:
            net.controllers[0].log.elect()
            loader = await followed(net.loader(11), Slow(), Quick())
            await loader.close()
            assert calls[:3] == ["slow begins", "slow ends", "quick"]

    within_limit(go())


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.REQUEST_TIMED_OUT, "x"), ChannelError("x"), ValueError("x")])
def test_any_exception_of_a_publisher_ends_the_node(tmp_path: Path, error: Exception) -> None:
    """Also what a failed fetch raises, which would be tried again: the change would be gone for this publisher."""

    class Failing(Follower):
        def on_metadata_update(self, delta, image, manifest):  # type: ignore[no-untyped-def]
            super().on_metadata_update(delta, image, manifest)
            if len(self.seen) == 2:
                raise error

    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            await write(controller, 1)
            failing, after = Failing(), Follower()
            loader = await followed(net.loader(11), failing, after)
            offset = loader.offset
            await write(controller, 2)
            await eventually(lambda: bool(net.faults))
            (fault,) = net.faults
            assert fault is error or (isinstance(fault, PublisherFailed) and fault.__cause__ is error)
            await write(controller, 3)
            assert loader.offset == offset, "nobody is told that it was taken over"
            assert (len(failing.seen), len(after.seen)) == (2, 1), "and nothing goes on"
            await loader.close()

    within_limit(go())


def test_a_restarted_loader_continues_from_its_own_copy(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            await write(controller, 1, 2, 3)
            first = await followed(net.loader(11))
            digest, offset = first.image.digest(), first.offset
            await first.close()
            await write(controller, 4)
            second = net.loader(11)
            follower = Follower()
            second.install(follower)
            await second.start()

            async def follow() -> None:
                log = second.log
                assert log is not None and log.log_end_offset == offset + 1, (
                    "what was fetched once is not fetched again"
                )
                await second.wait_for_offset(offset + 1)
                assert [topic.name for topic in second.image.topics.sorted_topics()][-1] == "topic-4"
                assert second.image.digest() != digest
                assert follower.seen[0][0].kind is ManifestKind.SNAPSHOT

            await closing(second, follow())
            assert not net.faults

    within_limit(go())


def test_nothing_is_published_before_a_controller_reported_the_log_end(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            await write(controller, 1)
            first = await followed(net.loader(11))
            await first.close()
            controller.log.depose()
            second = net.loader(11)
            follower = Follower()
            second.install(follower)
            await second.start()
            await asyncio.sleep(0.1)
            assert follower.seen == [] and second.offset == -1
            controller.log.elect()
            await second.wait_published()
            await second.close()
            assert follower.seen[0][1] == ["topic-1"]

    within_limit(go())


def test_a_wiped_broker_recovers_from_snapshot_and_log(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            await write(controller, *range(300))
            snapshot_id = await controller.log.take_snapshot()
            assert snapshot_id is not None
            controller.server.store.trim(snapshot_id.end_offset)
            offset = await write(controller, 1000)
            # Small pieces, so that the snapshot takes many requests.
            loader = await followed(net.loader(11, controller_quorum_fetch_snapshot_max_bytes=1000))

            async def follow() -> None:
                await loader.wait_for_offset(offset)
                assert loader.image.digest() == controller.server.store.image.digest()
                log = loader.log
                assert log is not None and log.log_start_offset == snapshot_id.end_offset

            await closing(loader, follow())
            again = await followed(net.loader(11))
            assert again.image.digest() == controller.server.store.image.digest()
            await again.close()
            assert not net.faults

    within_limit(go())


def test_a_loader_writes_snapshots_and_starts_from_them(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            limits = {"metadata_log_max_record_bytes_between_snapshots": 2000}
            loader = await followed(net.loader(11, **limits))
            for number in range(50):
                offset = await write(controller, number)
            await loader.wait_for_offset(offset)
            folder = tmp_path / "broker-11" / "__cluster_metadata-0"
            await eventually(lambda: len(list(folder.glob("*.checkpoint"))) == 1)
            await loader.close()
            again = await followed(net.loader(11, **limits))
            assert again.image.digest() == controller.server.store.image.digest()
            await again.close()
            assert not net.faults

    within_limit(go())


def test_a_loader_finds_the_leader_by_the_hint_of_another_controller(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, 2) as net:
            first, second = net.controllers
            second.log.elect()
            first.log.depose(leader_id=2)
            await write(second, 1)
            nodes = net.nodes()
            nodes.addresses.remove(2)  # only the first is known: the second is found by its word
            loader = await followed(net.loader(11, nodes))
            assert loader.leader_id == 2
            assert nodes.addresses.get(2) == net.known[2]
            await loader.close()

    within_limit(go())


def test_a_broker_registers_with_a_leader_that_its_configuration_does_not_name(tmp_path: Path) -> None:
    """It follows nothing yet: whoever it knows and does not lead says who does."""

    async def go() -> None:
        async with running(tmp_path, 2) as net:
            first, second = net.controllers
            second.log.elect()
            first.log.depose(leader_id=2)
            await write(second, 1)
            nodes = net.nodes()
            nodes.addresses.remove(2)
            channel = net.channel(nodes)
            answer = await channel.register_broker(registration(11))
            assert (answer.error_code, nodes.leader_id, nodes.addresses.get(2)) == (0, 2, net.known[2])
            await channel.close()

    within_limit(go())


def test_a_loader_outlives_a_change_of_leadership(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            await write(controller, 1)
            loader = await followed(net.loader(11))
            controller.log.depose()
            await eventually(lambda: loader.leader_id is None)
            controller.log.elect()
            offset = await write(controller, 2)
            await loader.wait_for_offset(offset)
            assert loader.image.epoch == 2
            await loader.close()
            assert not net.faults

    within_limit(go())


def test_a_large_change_is_published_whole(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            follower = Follower()
            loader = await followed(net.loader(11), follower)
            parts = [
                [BeginTransaction(name="large"), topic_record(1)],
                [topic_record(2)],
                [topic_record(3), EndTransaction()],
            ]
            for part in parts:
                (batch,) = encode_batches(part, 0)
                await controller.log.append(batch, controller.log.log_end_offset, controller.log.epoch)
                await asyncio.sleep(0.02)
            await loader.wait_for_offset(controller.log.high_watermark - 1)
            await loader.close()
            assert {tuple(seen) for _, seen in follower.seen} == {(), ("topic-1", "topic-2", "topic-3")}
            assert not net.faults

    within_limit(go())


def test_an_unknown_record_stops_the_node(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            (controller,) = net.controllers
            controller.log.elect()
            loader = await followed(net.loader(11))
            batch = bytes(build_batch([Record(value=b'{"type":"FromTheFuture","version":0}', timestamp=0)]))
            with pytest.raises(UnknownRecord):
                controller.log.append(batch, controller.log.log_end_offset, controller.log.epoch)
            # A controller of a newer release would serve it: the stored log is what is read.
            store = controller.server.store
            store._end_offset = store._stored.log_end_offset
            store.wake()
            await eventually(lambda: bool(net.faults))
            assert isinstance(net.faults[0], UnknownRecord)
            await loader.close()

    within_limit(go())


def test_a_controller_of_another_cluster_is_not_followed(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path / "a") as ours, running(tmp_path / "b", cluster_id=OTHER_CLUSTER_ID) as other:
            for net in (ours, other):
                net.controllers[0].log.elect()
            await write(ours.controllers[0], 1)
            await write(other.controllers[0], 2)
            nodes = ControllerNodes({1: ours.known[1], 2: other.known[1], 3: other.known[1]}, CLUSTER_ID)
            nodes.learn(2, 0)
            loader = await followed(ours.loader(11, nodes))

            async def follow() -> None:
                assert [topic.name for topic in loader.image.topics.sorted_topics()] == ["topic-1"]
                assert (nodes.leader_id, nodes.wrong_cluster()) == (1, None)

            await closing(loader, follow())
            assert not ours.faults

    within_limit(go())


def test_a_copy_that_is_ahead_of_the_controllers_is_fetched_again_at_start(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path / "a") as net:
            net.controllers[0].log.elect()
            await write(net.controllers[0], 1, 2, 3, 4, 5)
            loader = await followed(net.loader(11))
            await loader.close()
        (tmp_path / "b").mkdir()
        (tmp_path / "a" / "broker-11").rename(tmp_path / "b" / "broker-11")
        async with running(tmp_path / "b") as net:
            net.controllers[0].log.elect()
            await write(net.controllers[0], 9)
            loader = await followed(net.loader(11))
            assert loader.image.digest() == net.controllers[0].server.store.image.digest()
            await loader.close()
            assert not net.faults

    within_limit(go())


def test_a_loader_can_be_closed_while_no_controller_answers(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as net:
            loader = net.loader(11)
            await loader.start()
            await asyncio.sleep(0.05)
            waiting = asyncio.ensure_future(loader.wait_published())
            await asyncio.sleep(0)
            await loader.close()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    within_limit(go())
