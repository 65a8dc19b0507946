"""A keyed load on a compacted topic that knows what was acknowledged where, and what must be left of it on a disk."""

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from kvorum.protocol.records import batches, crc_of, decode_records
from tests.cluster.clients import eventually

FLUSH_SECONDS = 120
SEND_PAUSE_SECONDS = 0.02
BATCH_RECORDS_MAX = 200
"""However much has waited for a leader: a batch has to fit into the topic's small segments."""
TOMBSTONES = 0.05
"""So many of the records delete their key."""


class Entry(NamedTuple):
    """A record for ever: what stands at an offset."""

    key: bytes
    value: bytes | None
    timestamp: int


Entries = dict[int, Entry]
"""Of one partition, by offset."""


@dataclass(slots=True)
class KeyedLoad:
    """Several idempotent producers with acks=all that overwrite and delete the same keys, each in a thread."""

    bootstrap: str
    topic: str
    partitions: int
    producers: int
    keys: int
    acked: dict[int, Entries] = field(default_factory=dict)
    without_offset: dict[int, list[Entry]] = field(default_factory=dict)
    """Acknowledged by the acknowledgement of a later batch: librdkafka does not know their offsets."""
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin to send."""
        codecs = ("lz4", "none", "zstd", "gzip", "snappy")
        for number in range(self.producers):
            thread = threading.Thread(target=self._send, args=(number, codecs[number % len(codecs)]))
            thread.start()
            self._threads.append(thread)

    def wait_for_more(self, records: int) -> None:
        """Wait until so many more records are acknowledged."""
        wanted = self.acked_count() + records
        eventually(lambda: self.acked_count() >= wanted, lambda: f"{self.acked_count()} of {wanted} acknowledged")

    def acked_count(self) -> int:
        """Return how many records were acknowledged."""
        with self._lock:
            return sum(map(len, self.acked.values()))

    def stop(self) -> None:
        """Send no more, and wait for every answer. Fails where a record was refused."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self.failed, self.failed[:3]

    def _send(self, number: int, codec: str) -> None:
        config = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        config |= {"message.timeout.ms": FLUSH_SECONDS * 1000, "batch.num.messages": BATCH_RECORDS_MAX}
        producer = Producer(config | {"compression.type": codec})
        rng = random.Random(number)
        count = 0
        while not self._stop.is_set():
            for _ in range(rng.randrange(1, 12)):
                count += 1
                key = b"key-%d" % rng.randrange(self.keys)
                value = None if rng.random() < TOMBSTONES else b"%d-%d " % (number, count) + rng.randbytes(40)
                self._produce(producer, rng.randrange(self.partitions), Entry(key, value, int(time.time() * 1000)))
            producer.poll(SEND_PAUSE_SECONDS)
        if producer.flush(FLUSH_SECONDS):
            self.failed.append("no answer")

    def _produce(self, producer: Producer, partition: int, entry: Entry) -> None:
        def delivered(error: Any, message: Any) -> None:
            with self._lock:
                if error is not None:
                    self.failed.append(str(error))
                    return
                offset = message.offset()
                if offset is None:
                    self.without_offset.setdefault(partition, []).append(entry)
                    return
                before = self.acked.setdefault(partition, {}).setdefault(offset, entry)
                assert before is entry, f"two records were acknowledged at {partition}/{offset}"

        producer.produce(
            self.topic, entry.value, entry.key, partition, on_delivery=delivered, timestamp=entry.timestamp
        )

    def acked_in(self, partition: int) -> Entries:
        """What was acknowledged so far."""
        with self._lock:
            return dict(self.acked.get(partition, {}))


def entries_on_disk(folder: Path) -> Entries:
    """Return every record of a partition's log, its batches whole and in order. No process may have it open."""
    found: Entries = {}
    end = -1
    for path in sorted(folder.glob("*.log")):
        data = memoryview(path.read_bytes())
        for position, header in batches(data):
            assert crc_of(data, position, header.size) == header.crc, f"{path} is damaged at {position}"
            assert header.base_offset > end, f"{path} goes back to {header.base_offset}"
            end = header.last_offset
            for record in decode_records(data, position):
                assert header.base_offset <= record.offset <= end and record.offset not in found
                assert record.key is not None
                value = None if record.value is None else bytes(record.value)
                found[record.offset] = Entry(bytes(record.key), value, record.timestamp)
    return found


def check_entries(found: Entries, acked: Entries, without_offset: list[Entry], where: str) -> None:
    """Compare a replica with what was acknowledged.

    What is there is what was acknowledged at its offset; of each key the last record is there, unless it is a tombstone
    that has taken all others along. Keys are left out that have an acknowledged record of unknown offset which is gone:
    it may have been the last one.
    """
    known = {offset: entry for offset, entry in found.items() if offset not in acked and entry in without_offset}
    acked = acked | known
    unknown = {entry.key for entry in without_offset if entry not in known.values()}
    changed = {offset: (entry, acked.get(offset)) for offset, entry in found.items() if acked.get(offset) != entry}
    assert not changed, f"{where}: not what was acknowledged there: {list(changed.items())[:3]}"
    last = {entry.key: offset for offset, entry in sorted(acked.items())}
    left: dict[bytes, list[int]] = {}
    for offset, entry in found.items():
        left.setdefault(entry.key, []).append(offset)
    for key, offset in last.items():
        if key in unknown:
            continue
        if acked[offset].value is not None:
            assert offset in found, f"{where}: the last value of {key!r}, at {offset}, is gone"
        else:
            assert offset in found or key not in left, f"{where}: the tombstone of {key!r} went before what it deletes"


def check_replicas_agree(replicas: dict[str, Entries], where: str) -> None:
    """Each has cleaned its own log: what only one of them has left is superseded in the others by a later record.

    With a tombstone that is gone already, by nothing at all: the key is in none of the later offsets.
    """
    for one, mine in replicas.items():
        for other, theirs in replicas.items():
            later = {entry.key: offset for offset, entry in sorted(theirs.items())}
            keys_last = {entry.key: offset for offset, entry in sorted(mine.items())}
            for offset, entry in mine.items():
                if offset in theirs:
                    assert theirs[offset] == entry, f"{where}: {one} and {other} differ at {offset}"
                elif entry.key in later:
                    assert later[entry.key] > offset, f"{where}: {other} has {offset} of {one} removed for nothing"
                else:
                    is_deleted = mine[keys_last[entry.key]].value is None
                    assert is_deleted, f"{where}: {other} has nothing of {entry.key!r}, which {one} has at {offset}"
