"""Images for tests, made of records as production makes them."""

from collections.abc import Iterable

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import Endpoint, MetadataRecord, Partition, RegisterBroker, Topic, decode, encode


def uuid(number: int) -> Uuid:
    """Return a uuid that is not reserved."""
    return Uuid((number + 1000).to_bytes(16, "big"))


def broker(broker_id: int, epoch: int = 0, **changes: object) -> RegisterBroker:
    """Return a registration, unfenced."""
    fields: dict[str, object] = {
        "broker_id": broker_id,
        "broker_epoch": epoch,
        "incarnation_id": uuid(500 + broker_id),
        "endpoints": (Endpoint("PLAINTEXT", "localhost", 9092 + broker_id),),
        "fenced": False,
        "log_dirs": (uuid(700 + broker_id),),
    }
    return RegisterBroker(**{**fields, **changes})  # type: ignore[arg-type]


def partition(topic_id: Uuid, partition_id: int, replicas: Iterable[int] = (1, 2, 3), **changes: object) -> Partition:
    """Return a partition whose replicas are all in sync."""
    replicas = tuple(replicas)
    fields: dict[str, object] = {"isr": replicas, "leader": replicas[0]}
    return Partition(topic_id=topic_id, partition_id=partition_id, replicas=replicas, **{**fields, **changes})  # type: ignore[arg-type]


def topic(name: str, number: int, partitions: int = 1, replicas: Iterable[int] = (1, 2, 3)) -> list[MetadataRecord]:
    """Return a topic's records."""
    replicas = tuple(replicas)
    records: list[MetadataRecord] = [Topic(name=name, topic_id=uuid(number))]
    return records + [partition(uuid(number), index, replicas) for index in range(partitions)]


def apply(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataImage:
    """Return the image after these records, each written and read once on the way."""
    delta = MetadataDelta(image)
    offset = image.offset
    for record in records:
        offset += 1
        delta.replay(decode(encode(record)))
    return delta.apply(offset, 1)


def image_of(*groups: Iterable[MetadataRecord]) -> MetadataImage:
    """Return the image that these records make."""
    image = MetadataImage()
    for group in groups:
        image = apply(image, group)
    return image
