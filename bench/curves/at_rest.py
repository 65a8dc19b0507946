"""What is used where nothing is asked for: CPU of a crowded node at rest, and metadata as they grow."""

import asyncio
import statistics
import time

from bench.beds import Bed
from bench.curves.curve import Curve, Series
from bench.curves.load import make_topics
from bench.links import Link
from bench.processes import cpu_seconds, memory_mib
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import PartitionChange, Topic
from tests.quorum.image.image_kit import broker, partition, uuid

CONNECTIONS = 1_000
SETTLE_SECONDS, IDLE_SECONDS = 10.0, 30.0
BROKERS, REPLICAS, TOPIC_PARTITIONS = 5, 3, 10
CHANGES = 400
IDLE = (Series(name="CPU of all processes", unit="cores"), Series(name="memory (PSS)", unit="MiB"))
METADATA = (Series(name="image of all", unit="s"), Series(name="one partition's change", unit="us"))


def idle(bed: Bed, place: int) -> dict[str, float]:
    """Have so many partitions and a thousand connections, on each of which something was asked once."""
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
    """Replay the records of so many partitions over five brokers into an image, then change one after the other."""
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
    return {METADATA[0].name: elapsed, METADATA[1].name: statistics.median(samples) * 1e6}


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
        title="Metadata over 5 brokers, RF 3, as a broker holds them",
        x="partitions of the cluster",
        places=(100, 1_000, 10_000, 100_000),
        series=METADATA,
        run=metadata,
        nodes=lambda place: 0,
        scaled=True,
        kinds=("kvorum",),
    ),
)
