"""The hash of a group's topics: the values are those of Kafka 4.3.0's own functions (hash4j's XXH3)."""

from kvorum.broker.coordinator.group.consumer.topic_hashes import TopicHashes, topic_hash
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.topics import TopicImage
from tests.unit.broker.coordinator.consumer.consumer_kit import broker_record, image_after, topic_records

KAFKA_FOO = -3604853996866986094
KAFKA_GROUP = -6590610057174939259


def image_of(replicas: tuple[int, ...] = (1, 2), racks: tuple[str | None, ...] = ("r1", "räck")) -> MetadataImage:
    brokers = [broker_record(number + 1, rack) for number, rack in enumerate(racks)]
    topics = [*topic_records("foo", 3, replicas), *topic_records("bar", 1, replicas)]
    return image_after(MetadataImage(), *brokers, *topics)[1]


def topic_of(image: MetadataImage, name: str) -> TopicImage:
    topic = image.topics.topic(name)
    assert topic is not None
    return topic


def test_the_values_are_kafkas() -> None:
    """Made by a Java program with hash4j, step by step as Utils.computeTopicHash and computeGroupHash do."""
    image = image_of()
    assert signed(topic_hash(topic_of(image, "foo"), image)) == KAFKA_FOO
    assert TopicHashes().group_hash({"foo", "bar", "missing"}, image) == KAFKA_GROUP


def test_the_hash_depends_on_topics_partitions_and_racks_in_any_order() -> None:
    base = TopicHashes().group_hash(["foo", "bar"], image_of())
    assert TopicHashes().group_hash(["bar", "foo", "foo"], image_of()) == base
    assert TopicHashes().group_hash(["bar", "foo"], image_of(replicas=(2, 1))) == base
    assert TopicHashes().group_hash(["foo"], image_of()) != base
    assert TopicHashes().group_hash(["bar", "foo"], image_of(racks=("r1", None))) != base
    assert TopicHashes().group_hash(["none"], image_of()) == 0


def test_a_topic_is_looked_at_again_when_it_has_changed() -> None:
    hashes, image = TopicHashes(), image_of()
    before = hashes.group_hash(["foo"], image)
    _, grown = image_after(image, *topic_records("foo", 4, (1, 2))[4:])
    assert hashes.group_hash(["foo"], grown) == before
    hashes.forget("foo")
    assert hashes.group_hash(["foo"], grown) != before


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
