"""Use without requests: CPU of an idle node with many partitions, and metadata growth."""

import asyncio
import statistics
import tempfile
import time

from bench.beds import Bed
from bench.curves.curve import Curve, Series
from bench.curves.load import ALL_SECONDS, child, make_topics
from bench.links import Link
from bench.processes import cpu_seconds, memory_mib
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import PartitionChange, Topic
from tests.unit.quorum.image.image_kit import broker, partition, uuid

CONNECTIONS = 1_000
SETTLE_SECONDS, IDLE_SECONDS = 10.0, 30.0
BROKERS, REPLICAS, TOPIC_PARTITIONS = 5, 3, 10
CHANGES = 400
IDLE = (Series(name="CPU of all processes", unit="cores"), Series(name="memory (PSS)", unit="MiB"))
IMAGE = (Series(name="image of all", unit="s"), Series(name="one partition's change", unit="us"))
LIFE = {
    "create": Series(name="create, controller", unit="s"),
    "create_followed": Series(name="create, a broker", unit="s"),
    "create_pause": Series(name="create, longest pause", unit="ms"),
    "elect": Series(name="a broker dies, controller", unit="s"),
    "elect_followed": Series(name="a broker dies, another", unit="s"),
    "elect_pause": Series(name="a broker dies, longest pause", unit="ms"),
    "write": Series(name="write a checkpoint", unit="s"),
    "checkpoint": Series(name="checkpoint", unit="MiB"),
    "restart": Series(name="restart", unit="s"),
    "restart_pause": Series(name="restart and checkpoint, longest pause", unit="ms"),
    "image": Series(name="memory of the image", unit="MiB"),
}
METADATA = (*IMAGE, *LIFE.values())


def idle(bed: Bed, place: int) -> dict[str, float]:
    """Create partitions and a thousand connections, each of which has sent one request."""
    make_topics(bed, place)
    return asyncio.run(at_rest(bed))


async def at_rest(bed: Bed) -> dict[str, float]:
    """Connect, and look after a while."""
    links = [await Link.to(bed.system.address(1)) for _ in range(bed.scale.count(CONNECTIONS))]
    for link in links:
        await link.ask(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
    await asyncio.sleep(bed.scale.seconds(SETTLE_SECONDS))
    pids = bed.system.pids()
    used, began = cpu_seconds(pids), time.perf_counter()
    await asyncio.sleep(bed.scale.seconds(IDLE_SECONDS))
    share = (cpu_seconds(pids) - used) / (time.perf_counter() - began)
    _, proportional = memory_mib(pids)
    for link in links:
        link.close()
    return {IDLE[0].name: share, IDLE[1].name: proportional}


def metadata(bed: Bed, place: int) -> dict[str, float]:
    """Replay the records of so many partitions into an image, and change one after the other; then have them live."""
    began = time.perf_counter()
    image = image_of(place)
    elapsed = time.perf_counter() - began
    topics, samples = max(1, place // TOPIC_PARTITIONS), []
    for turn in range(bed.scale.count(CHANGES, 20)):
        topic_id = uuid(turn * 7919 % topics)
        old = image.topics.by_id[topic_id].partitions[0]
        changed = PartitionChange(topic_id=topic_id, partition_id=0, isr=old.isr[1:], leader=old.isr[1])
        began = time.perf_counter()
        delta = MetadataDelta(image)
        delta.replay(changed)
        delta.apply(1, 1)
        samples.append(time.perf_counter() - began)
    del image, delta
    figures = {IMAGE[0].name: elapsed, IMAGE[1].name: statistics.median(samples) * 1e6}
    return figures | {LIFE[key].name: value for key, value in life(place).items()}


def life(partitions: int) -> dict[str, float]:
    """Create partitions, kill a broker, restart another: in separate processes, to measure their memory."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for work in ("lived", "restarted"):
            with child("bench.clients.metadata_life", work, partitions, folder) as process:
                words = [word.partition("=") for word in process.expect(ALL_SECONDS)]
            found |= {name: float(value) for name, _, value in words}
    pauses = {
        "create_pause": max(found["create_pause"], found["create_followed_pause"]),
        "elect_pause": max(found["elect_pause"], found["elect_followed_pause"]),
        "restart_pause": max(found["restart_pause"], found["write_pause"]),
    }
    whole = {key: found[key] for key in ("create", "create_followed", "elect", "elect_followed", "write", "restart")}
    sizes = {"checkpoint": found["snapshot_bytes"] / 2**20, "image": found["image_mib"]}
    return whole | {key: seconds * 1e3 for key, seconds in pauses.items()} | sizes


def image_of(partitions: int) -> MetadataImage:
    """Return topics of ten partitions each, led in turn by five brokers."""
    delta = MetadataDelta(MetadataImage())
    for number in range(BROKERS):
        delta.replay(broker(number))
    for number in range(max(1, partitions // TOPIC_PARTITIONS)):
        delta.replay(Topic(name=f"topic-{number}", topic_id=uuid(number)))
        for index in range(min(TOPIC_PARTITIONS, partitions)):
            replicas = tuple((number + index + place) % BROKERS for place in range(REPLICAS))
            delta.replay(partition(uuid(number), index, replicas))
    return delta.apply(0, 0)


CURVES = (
    Curve(
        name="idle",
        title="A node at rest with 1,000 connections",
        x="partitions of the broker",
        places=(10, 100, 1_000, 10_000),
        series=IDLE,
        run=idle,
        scaled=True,
        fresh=True,
    ),
    Curve(
        name="metadata",
        title="Metadata over 5 brokers, RF 3",
        x="partitions of the cluster",
        places=(100, 1_000, 10_000, 100_000),
        series=METADATA,
        run=metadata,
        nodes=lambda place: 0,
        scaled=True,
        kinds=("kvorum",),
    ),
)
