"""Broker 1 with the log directories a and b, whose processes come and go, and a controller that says yes."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

from kvorum.broker.metadata.stray_logs import StrayLogs
from kvorum.broker.replica.directory_assignments import DirectoryAssignments
from kvorum.broker.replica.types import Role
from kvorum.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.publisher import LoaderManifest, ManifestKind
from kvorum.runtime.disk import OsDisk
from kvorum.storage.checkpoints import MetaProperties, write_meta_properties
from tests.unit.broker.replica.manager_kit import LoopClock, World, brokers, fetch, settled, topic, until, values
from tests.unit.broker.replica.replica_kit import KEY

IDS = {"a": Uuid(b"\x0a" * 16), "b": Uuid(b"\x0b" * 16)}
MANIFEST = LoaderManifest(kind=ManifestKind.LOG_DELTA, offset=0, epoch=1, batches_count=1, bytes_count=1, leader_id=1)


class Broker:
    """Broker 1 with the log directories a and b, and a controller that notes where replicas are said to lie."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        for name, directory_id in IDS.items():
            (folder / name).mkdir(exist_ok=True)
            write_meta_properties(
                OsDisk(), str(folder / name), MetaProperties(cluster_id="c", node_id=1, directory_id=directory_id)
            )
        self.settings = {"log.dirs": f"{folder}/a,{folder}/b", **settings}
        self.reported: list[Uuid] = []
        self.held: list[records.MetadataRecord] | None = None
        self.world = self.made()

    def made(self) -> World:
        world = World(self.folder, settings=self.settings, clock=LoopClock())
        world.manager.tell_directories(
            DirectoryAssignments(broker_id=1, broker_epoch=lambda: 101, controller=self, cluster=world.cache)
        )
        return world

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """Commit it, or hold it back."""
        response = AssignReplicasToDirsResponse()
        for directory in request.directories:
            answer = ResponseDirectoryData(id_=directory.id_)
            for each in directory.topics:
                rows = [ResponsePartitionData(partition_index=row.partition_index) for row in each.partitions]
                answer.topics.append(ResponseTopicData(topic_id=each.topic_id, partitions=rows))
                self.reported.append(directory.id_)
                index = each.partitions[0].partition_index
                known = self.world.cache.image.topics.partition(each.topic_id, index)
                assert known is not None
                lie = tuple(directory.id_ if replica == 1 else known.directory(replica) for replica in known.replicas)
                change = records.PartitionChange(topic_id=each.topic_id, partition_id=index, directories=lie)
                if self.held is None:
                    asyncio.get_running_loop().create_task(self.world.metadata(change))
                else:
                    self.held.append(change)
            response.directories.append(answer)
        return response

    async def commit_held(self) -> None:
        held, self.held = self.held or [], None
        await self.world.metadata(*held)

    async def start(self) -> None:
        await self.world.start()
        await self.world.metadata(*brokers(), *topic())
        await until(lambda: self.reported or self.lies_in() is None)
        await settled()
        if self.lies_in() == "b":  # the tests speak of a
            await self.move("b")

    async def again(self, *changes: records.MetadataRecord, without: str = "") -> None:
        """End this process and begin another, which is told what the metadata are, with changes.

        `without`: this directory is broken from then on.
        """
        delta = MetadataDelta(self.world.cache.image)
        for change in changes:
            delta.replay(change)
        image = delta.apply(self.world.cache.image.offset + len(changes), 1)
        await self.world.close()
        if without:
            (self.folder / without).rename(self.folder / f"{without}.broken")
            (self.folder / without).write_text("no directory")
        self.reported.clear()
        self.world = self.made()
        await self.world.start()
        await self.take(image)

    def mend(self, name: str) -> None:
        """Have a broken directory work again, from the next start on."""
        (self.folder / name).unlink()
        (self.folder / f"{name}.broken").rename(self.folder / name)

    def role(self, key: TopicPartition = KEY) -> Role:
        """What the replica here is."""
        return self.world.manager.hosted.by_name[key].role

    async def take(self, image: MetadataImage) -> None:
        """Publish a whole image as the first one."""
        delta = MetadataDelta(MetadataImage())
        for record in image.to_records():
            delta.replay(record)
        await StrayLogs(1, self.world.logs).on_metadata_update(delta, image, MANIFEST)
        self.world.cache.image = image
        await self.world.manager.apply_delta(delta, image)

    def lies_in(self, key: TopicPartition = KEY) -> str | None:
        directory = self.world.logs.dir_of(key)
        return None if directory is None else directory.path.rpartition("/")[2]

    @property
    def named(self) -> str | None:
        """Which directory the metadata name."""
        partition = self.world.cache.partition(*KEY)
        assert partition is not None
        return next((name for name, each in IDS.items() if each == partition.directory(1)), None)

    async def alter(self, name: str, key: TopicPartition = KEY) -> None:
        await self.world.manager.moves.alter(key, f"{self.folder}/{name}")

    async def move(self, name: str) -> None:
        await self.alter(name)
        await until(lambda: self.lies_in() == name)

    def folders(self) -> list[str]:
        """Which folders of logs there are, but for those that wait for their removal."""
        found = [path for path in self.folder.glob("*/orders-*") if not path.name.endswith("-delete")]
        return sorted(
            f"{path.parent.name}/{'future' if path.name.endswith('-future') else path.name}" for path in found
        )

    def read(self) -> list[bytes | None]:
        return values(fetch(self.world).result()[0])


def run(test: Callable[[Broker], Coroutine[None, None, None]], folder: Path, **settings: object) -> None:
    async def story() -> None:
        broker = Broker(folder, **{key.replace("_", "."): value for key, value in settings.items()})
        await broker.start()
        try:
            await test(broker)
        finally:
            await broker.world.close()

    asyncio.run(asyncio.wait_for(story(), 60))
