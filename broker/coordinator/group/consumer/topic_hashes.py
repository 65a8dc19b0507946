"""Hashes of topics, by which a group detects changes of its topics (KIP-1101). Sans-IO.

A topic's hash is over its id, its name, and the racks of each partition's replicas; the group's over those of its
topics, by name. Values are Kafka's own: XXH3, 64 bits, of the bytes that hash4j's stream makes of each value (numbers
little-endian; a string as UTF-16 and then its length). Source: Kafka's Utils.computeTopicHash, computeGroupHash.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from xxhash import xxh3_64_intdigest

from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.topics import TopicImage

NO_TOPICS_HASH: Final = 0
_MAGIC: Final = b"\0"
_INT: Final = Struct("<i")


class TopicHashes:
    """Hashes of the subscribed topics, each computed once until its topic changes."""

    def __init__(self) -> None:
        """Know none yet."""
        self._hashes: dict[str, int] = {}

    def forget(self, name: str) -> None:
        """A topic was changed or deleted."""
        self._hashes.pop(name, None)

    def group_hash(self, names: Iterable[str], image: MetadataImage) -> int:
        """Return the hash of those of the topics that there are; signed, as the record has it."""
        parts = []
        for name in sorted(set(names)):
            topic = image.topics.topic(name)
            if topic is not None:
                parts.append(self._hash_of(topic, image).to_bytes(8, "little"))
        return _signed(xxh3_64_intdigest(b"".join(parts))) if parts else NO_TOPICS_HASH

    def _hash_of(self, topic: TopicImage, image: MetadataImage) -> int:
        found = self._hashes.get(topic.name)
        if found is None:
            found = self._hashes[topic.name] = topic_hash(topic, image)
        return found


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    """Return a topic's hash, not signed. Cost: its partitions and their replicas."""
    high, low = topic.topic_id[:8], topic.topic_id[8:]
    out = bytearray(_MAGIC)
    out += high[::-1] + low[::-1]
    out += _string(topic.name) + _INT.pack(len(topic.partitions))
    for number, partition in topic.sorted_partitions():
        out += _INT.pack(number)
        brokers = (image.cluster.broker(broker_id) for broker_id in partition.replicas)
        for rack in sorted(broker.rack for broker in brokers if broker is not None and broker.rack):
            out += _INT.pack(_length(rack)) + _string(rack)
    return xxh3_64_intdigest(bytes(out))


def _length(text: str) -> int:
    """As Java counts: in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _string(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _INT.pack(_length(text))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
