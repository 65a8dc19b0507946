"""The offset map as a topic on the target, written in transactions by the newest run of a mirror."""

import threading
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException, Producer

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.lookup import retried
from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror.logs import REQUEST_SECONDS, read_topic
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.translation import OffsetMap, apply


class Superseded(Exception):
    """Another run of the same mirror has begun: this one must not write any more."""


class Ledger:
    """The offset map, in memory and as the map topic. Used by the batches' thread and by the mirror's loop.

    The newest ledger of a mirror is the only one that can write. So an older run never writes what it has in memory (an
    end of the target that it read before it was suspended) after a newer run has begun to write records.
    """

    def __init__(self, spec: MirrorSpec) -> None:
        """Fence older runs of this mirror and end what they left open, then read what they wrote."""
        settings = client.from_options(spec.target.settings())
        self._name = spec.name
        self._topic = spec.map_topic
        self._lock = threading.Lock()
        own = {"transactional.id": f"kvorum-mirror-{spec.name}", "acks": "all", "linger.ms": "5"}
        self._producer = Producer({**client.for_producer(settings), **own})
        retried(lambda: self._producer.init_transactions(REQUEST_SECONDS))
        self.map = OffsetMap()
        maps = {spec.name: self.map}
        for message in read_topic(settings, self._topic):
            apply(maps, message.key(), message.value())

    def mark(self, ends: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Write marks: (source, target) by partition, as far as they say something new."""
        with self._lock:
            marks = [self.map.next_mark(place, source, target) for place, (source, target) in ends.items()]
            fresh = [mark for mark in marks if mark is not None]
            self._write([(mark.key(self._name), mark.value()) for mark in fresh])
            for mark in fresh:
                self.map.take(mark)

    def restart(self, place: TopicPartition) -> None:
        """Remove the marks of a partition whose topic on the target was deleted and created again."""
        with self._lock:
            marks = self.map.marks(place)
            self._write([(mark.key(self._name), None) for mark in marks])
            for mark in marks:
                self.map.drop(place, mark.slot())

    def _write(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write records, all or none. Raises: Superseded; KafkaException for an error that is not passing."""
        if not records:
            return
        try:
            self._producer.begin_transaction()
            for key, value in records:
                self._producer.produce(self._topic, value, key)
            retried(lambda: self._producer.commit_transaction(REQUEST_SECONDS))
        except KafkaException as error:
            cause = client.error_of(error)
            if cause.code() in client.FENCED:
                raise Superseded(f"fenced by another run of this mirror: {cause.str()}") from error
            if cause.txn_requires_abort():
                self._producer.abort_transaction(REQUEST_SECONDS)
            raise
