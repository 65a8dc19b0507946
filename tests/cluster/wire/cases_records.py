"""Produce: batches, records, producers and requests that a broker must not take."""

import struct
import time
import zlib
from collections.abc import Callable

import cramjam

from kvorum.protocol.compression import Codec, compress
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.uuids import ONE_UUID, ZERO_UUID, Uuid
from tests.cluster.wire.case import Case
from tests.cluster.wire.raw import batch, record, request, signed_varint
from tests.cluster.wire.world import DEADLINE_SECONDS, Json, Topic, World, produce

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64
OLD_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
LOOKS_TRANSACTIONAL = 1 << 28
"""The bit of a v1 timestamp at the place where a batch has that of transactions."""
MESSAGE_BYTES_MAX = 1_048_588
"""max.message.bytes by default."""
UNKNOWN = Topic("no-such-topic", Uuid(b"no-such-topic-id"))
Records = bytes | None
Make = Callable[[World], Records]


def good(world: World, value: bytes | None = b"v", key: bytes | None = b"k") -> bytes:
    """Return a batch nobody refuses."""
    return bytes(build_batch([Record(value, key, world.now_ms())]))


def sent(make: Make, *, version: int = 12, acks: int = -1, transactional_id: str | None = None, partition: int = 0,
         **configs: str) -> Callable[[World], Json]:  # fmt: skip
    """Produce to a new topic what `make` returns."""

    def run(world: World) -> Json:
        message = produce(
            world.topic(**configs),
            make(world),
            version=version,
            acks=acks,
            transactional_id=transactional_id,
            partition=partition,
        )
        return world.ask(message, version)

    return run


def hand(payload: bytes, count: int = 1, **header: int) -> Make:
    """Make a batch by hand, with the time of now."""
    return lambda world: batch(payload, count, **({"base_timestamp": world.now_ms()} | header))  # type: ignore[arg-type]


def many(count: int) -> bytes:
    """Return so many records."""
    return b"".join(record(index=index) for index in range(count))


def packed(codec: Codec, payload: bytes, count: int = 1) -> Make:
    """Make a batch of a codec around whatever records."""
    return hand(compress(codec, payload), count, attributes=int(codec))


def magic_0(world: World) -> bytes:
    """A message of format v0, as producers of Kafka 0.9 wrote it."""
    return legacy(0, struct.pack(">bb", 0, 0) + struct.pack(">i", 1) + b"k" + struct.pack(">i", 1) + b"v")


def magic_1(world: World) -> bytes:
    """A message of format v1, as producers of Kafka 0.10 wrote it; its timestamp is where batches say what they are."""
    body = (
        struct.pack(">bbq", 1, 0, world.now_ms() | LOOKS_TRANSACTIONAL)
        + struct.pack(">i", 1)
        + b"k"
        + struct.pack(">i", 1)
        + b"v"
    )
    return legacy(1, body)


def legacy(magic: int, body: bytes) -> bytes:
    """Return a message set of one message."""
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def topic_unknown(world: World) -> Json:
    """Produce by the name of no topic."""
    return world.ask(produce(UNKNOWN, good(world)), 12)


def with_id(topic_id: Uuid) -> Callable[[World], Json]:
    """Produce v13 to a topic id."""
    return lambda world: world.ask(produce(Topic("", topic_id), good(world)), 13)


def by_id(world: World) -> Json:
    """Produce v13 to a known topic id."""
    return world.ask(produce(world.topic(), good(world)), 13)


def partition_twice(world: World) -> Json:
    """One partition twice in one request."""
    message = produce(world.topic(), good(world))
    message.topic_data[0].partition_data.append(PartitionProduceData(index=0, records=good(world)))
    return world.ask(message, 12)


def topic_twice(world: World) -> Json:
    """One topic twice in one request, different partitions."""
    topic = world.topic(partitions=2)
    message = produce(topic, good(world))
    message.topic_data += produce(topic, good(world), partition=1).topic_data
    return world.ask(message, 12)


def one_good_one_bad(world: World) -> Json:
    """Two partitions, the second with a wrong CRC."""
    message = produce(world.topic(partitions=2), good(world))
    bad = batch(record(), crc_off_by=1, base_timestamp=world.now_ms())
    message.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=bad))
    return world.ask(message, 12)


def no_answer_asked(make: Make) -> Callable[[World], Json]:
    """Produce with acks=0; an error can be told only by closing."""

    def run(world: World) -> Json:
        return world.quiet(request(produce(world.topic(), make(world), acks=0), 12))

    return run


def nothing(world: World) -> Json:
    """A Produce of no topic."""
    return world.ask(ProduceRequest(acks=-1, timeout=1000), 12)


def null_records(world: World) -> Json:
    """Null where records belong."""
    whole = request(produce(world.topic(), None), 12)
    return world.quiet(whole, api_key=0, version=12)


def producer_id(world: World) -> int:
    """Return a producer id of the broker's; the first one may take a broker a moment."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    requested = InitProducerIdRequest(transactional_id=None, transaction_timeout=0, producer_id=-1, producer_epoch=-1)
    with world.connect() as connection:
        while True:
            given = connection.ask(requested, 4)
            assert given is not None
            if given.error_code == 0:
                return int(given.producer_id)
            assert given.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, given
            assert time.monotonic() < deadline, given
            time.sleep(0.01)


def sequences(*steps: tuple[int, int, int]) -> Callable[[World], Json]:
    """Produce batches of (epoch, base sequence, count) one after another with one producer id; show every answer."""

    def run(world: World) -> Json:
        topic, own, now = world.topic(), producer_id(world), world.now_ms()
        answers = []
        for epoch, sequence, count in steps:
            data = batch(many(count), count, producer=(own, epoch, sequence), base_timestamp=now)
            answers.append(world.ask(produce(topic, data), 12)["responses"][0]["partition_responses"][0])
        return answers

    return run


def header_bytes(key: bytes | None, value: bytes | None = b"v", count: int = 1) -> bytes:
    """Return a record's headers."""
    found = signed_varint(count)
    for part in (key, value):
        found += signed_varint(-1) if part is None else signed_varint(len(part)) + part
    return found


def own_producer(epoch: int, sequence: int, count: int = 1, **header: int) -> Make:
    """A batch with a known producer id and any epoch and sequence."""
    return lambda world: batch(many(count), count, producer=(producer_id(world), epoch, sequence),
                               base_timestamp=world.now_ms(), **header)  # type: ignore[arg-type]  # fmt: skip


BATCHES = (
    Case("produce-good", "Produce v12, a good batch", sent(good)),
    Case("produce-bad-crc", "a batch whose CRC is wrong", sent(hand(record(), crc_off_by=1))),
    Case("produce-bad-crc-old-version", "the same in Produce v3", sent(hand(record(), crc_off_by=1), version=3)),
    Case("produce-magic-0", "a message of magic 0", sent(magic_0)),
    Case("produce-magic-1", "a message of magic 1", sent(magic_1)),
    Case("produce-magic-0-old-version", "a message of magic 0 in Produce v3", sent(magic_0, version=3)),
    Case("produce-magic-3", "a batch of magic 3", sent(hand(record(), magic=3))),
    Case("produce-magic-negative", "a batch of magic -1", sent(hand(record(), magic=-1))),
    Case("produce-null-records", "null instead of records", null_records),
    Case("produce-empty-records", "0 bytes of records", sent(lambda world: b"")),
    Case("produce-empty-records-old-version", "0 bytes of records in Produce v3", sent(lambda world: b"", version=3)),
    Case("produce-garbage-records", "50 bytes of 0xff as records", sent(lambda world: b"\xff" * 50)),
    Case("produce-zero-records-bytes", "100 zero bytes as records", sent(lambda world: bytes(100))),
    Case("produce-few-bytes", "10 bytes of records: less than offset and length", sent(lambda world: bytes(10))),
    Case("produce-truncated-batch", "a batch that lacks its last byte", sent(lambda world: good(world)[:-1])),
    Case("produce-header-only", "only the first 61 bytes of a good batch", sent(lambda world: good(world)[:61])),
    Case("produce-trailing-bytes", "5 zero bytes behind a good batch", sent(lambda world: good(world) + bytes(5))),
    Case("produce-trailing-garbage", "50 bytes of 0xff behind a good batch",
         sent(lambda world: good(world) + b"\xff" * 50)),
    Case("produce-two-batches", "two good batches for one partition", sent(lambda world: good(world) * 2)),
    Case("produce-length-too-small", "a batch length of 48: less than its header",
         sent(hand(record(), batch_length=48))),
    Case("produce-length-negative", "a batch length of -1", sent(hand(record(), batch_length=-1))),
    Case("produce-length-zero", "a batch length of 0", sent(hand(record(), batch_length=0))),
    Case("produce-length-shorter", "a batch length one less than what is there", sent(lambda world: shorter(world))),
    Case("produce-base-offset", "a base offset of 7", sent(hand(record(), base_offset=7))),
    Case("produce-base-offset-negative", "a base offset of -1", sent(hand(record(), base_offset=-1))),
    Case("produce-too-large", "a batch one byte over max.message.bytes=1000",
         sent(lambda world: sized(world, 1001), max_message_bytes="1000")),
    Case("produce-just-fits", "a batch of exactly max.message.bytes=1000",
         sent(lambda world: sized(world, 1000), max_message_bytes="1000")),
    Case("produce-too-large-default", "a batch one byte over the default of max.message.bytes",
         sent(lambda world: sized(world, MESSAGE_BYTES_MAX + 1))),
    Case("produce-over-segment", "a batch larger than segment.bytes",
         sent(lambda world: sized(world, 1_500_000), max_message_bytes="3000000", segment_bytes="1048576")),
)  # fmt: skip
COUNTS = (
    Case("produce-zero-records", "records count 0, last offset delta -1, no records", sent(hand(b"", 0))),
    Case("produce-zero-records-delta-0", "records count 0, last offset delta 0",
         sent(hand(b"", 0, last_offset_delta=0))),
    Case("produce-count-too-large", "records count and delta for 3, two records there", sent(hand(many(2), 3))),
    Case("produce-count-too-small", "records count and delta for 1, two records there", sent(hand(many(2), 1))),
    Case("produce-count-negative", "records count -1", sent(hand(many(1), -1, last_offset_delta=0))),
    Case("produce-count-huge", "records count 2^31 - 1", sent(hand(many(1), 2**31 - 1, last_offset_delta=0))),
    Case("produce-count-huge-and-delta", "records count 2^31 - 1 and delta to match",
         sent(hand(many(1), 2**31 - 1, last_offset_delta=2**31 - 2))),
    Case("produce-delta-mismatch", "two records, last offset delta 0", sent(hand(many(2), 2, last_offset_delta=0))),
    Case("produce-delta-too-large", "two records, last offset delta 5", sent(hand(many(2), 2, last_offset_delta=5))),
    Case("produce-delta-negative", "two records, last offset delta -3", sent(hand(many(2), 2, last_offset_delta=-3))),
    Case("produce-record-delta-gap", "two records with offset deltas 0 and 5",
         sent(hand(record() + record(index=5), 2))),
    Case("produce-record-delta-from-1", "two records with offset deltas 1 and 2",
         sent(hand(record(index=1) + record(index=2), 2))),
    Case("produce-record-delta-same", "two records with offset deltas 0 and 0", sent(hand(record() + record(), 2))),
    Case("produce-record-delta-negative", "a record with offset delta -1", sent(hand(record(index=-1), 1))),
    Case("produce-record-delta-gap-compressed", "gzip, two records with offset deltas 0 and 5",
         sent(packed(Codec.GZIP, record() + record(index=5), 2))),
    Case("produce-count-too-large-compressed", "gzip, count for 3, two records there",
         sent(packed(Codec.GZIP, many(2), 3))),
    Case("produce-count-too-small-compressed", "gzip, count for 1, two records there",
         sent(packed(Codec.GZIP, many(2), 1))),
)  # fmt: skip
RECORDS = (
    Case("record-length-negative", "a record of length -1", sent(hand(record(length=signed_varint(-1))))),
    Case("record-length-zero", "a record of length 0", sent(hand(record(length=signed_varint(0))))),
    Case("record-length-too-large", "a record longer than the batch", sent(hand(record(length=signed_varint(500))))),
    Case("record-length-too-small", "a record one byte longer than its length says",
         sent(hand(record(length=signed_varint(7))))),
    Case("record-length-huge", "a record of length 2^31 - 1", sent(hand(record(length=signed_varint(2**31 - 1))))),
    Case("record-tail", "a record with a byte behind its headers", sent(hand(record(tail=b"x")))),
    Case("record-varint-overlong", "a record length as a varint of 6 bytes",
         sent(hand(record(length=b"\xff\xff\xff\xff\xff\x01")))),
    Case("record-varint-padded", "a record length as a varint of 2 bytes that 1 would hold",
         sent(hand(record(length=b"\x8e\x00")))),
    Case("record-timestamp-varint-overlong", "a timestamp delta as a varint of 11 bytes",
         sent(hand(signed_varint(18) + b"\0" + b"\xff" * 10 + b"\x01" + b"\0\2k\2v\0"))),
    Case("record-key-beyond", "a key longer than its record", sent(hand(signed_varint(7) + b"\0\0\0\x40kkk"))),
    Case("record-key-length-minus-2", "a key of length -2", sent(hand(signed_varint(7) + b"\0\0\0\3\2v\0"))),
    Case("record-value-null", "a null value", sent(hand(record(value=None)))),
    Case("record-value-beyond", "a value longer than its record", sent(hand(signed_varint(7) + b"\0\0\0\1\x40vv"))),
    Case("record-headers-negative", "-1 headers", sent(hand(record(headers=signed_varint(-1))))),
    Case("record-headers-beyond", "1000 headers in no bytes", sent(hand(record(headers=signed_varint(1000))))),
    Case("record-header-key-null", "a header whose key is null", sent(hand(record(headers=header_bytes(None))))),
    Case("record-header-key-negative", "a header whose key has length -2",
         sent(hand(record(headers=signed_varint(1) + signed_varint(-2) + signed_varint(1) + b"v")))),
    Case("record-header-key-not-utf-8", "a header whose key is no UTF-8",
         sent(hand(record(headers=header_bytes(b"\xff\xfe"))))),
    Case("record-header-value-null", "a header whose value is null",
         sent(hand(record(headers=header_bytes(b"h", None))))),
    Case("record-attributes", "record attributes 0xff", sent(hand(signed_varint(8) + b"\xff\0\0\2k\2v\0"))),
    Case("record-header-key-null-compressed", "gzip, a header whose key is null",
         sent(packed(Codec.GZIP, record(headers=header_bytes(None))))),
    Case("record-length-too-large-compressed", "gzip, a record longer than the batch",
         sent(packed(Codec.GZIP, record(length=signed_varint(500))))),
    Case("record-key-null-compacted", "a null key on a compacted topic",
         sent(lambda world: good(world, key=None), cleanup_policy="compact")),
    Case("record-key-null-compact-delete", "a null key, cleanup.policy=compact,delete",
         sent(lambda world: good(world, key=None), cleanup_policy="compact,delete")),
    Case("record-key-null-second", "a null key in the second of two records on a compacted topic",
         sent(lambda world: bytes(build_batch([Record(b"v", b"k", OLD_MS), Record(b"v", None, OLD_MS)])),
              cleanup_policy="compact")),
)  # fmt: skip
CODECS = (
    *(
        Case(f"codec-{codec}", f"codec bits {codec}: no codec has that number", sent(hand(record(), attributes=codec)))
        for codec in (5, 6, 7)
    ),
    *(
        Case(f"codec-{codec.name.lower()}-garbage", f"{codec.name.lower()} whose payload is no such stream",
             sent(hand(b"this is not compressed", attributes=int(codec))))
        for codec in Codec if codec is not Codec.NONE
    ),
    *(
        Case(f"codec-{codec.name.lower()}-cut", f"{codec.name.lower()} whose payload lacks its last 3 bytes",
             sent(lambda world, codec=codec: batch(compress(codec, many(50))[:-3], 50, attributes=int(codec),
                                                   base_timestamp=world.now_ms())))
        for codec in Codec if codec is not Codec.NONE
    ),
    *(
        Case(f"codec-{codec.name.lower()}-good", f"a good {codec.name.lower()} batch",
             sent(packed(codec, many(50), 50)))
        for codec in Codec if codec is not Codec.NONE
    ),
    *(
        Case(f"codec-{codec.name.lower()}-empty", f"{codec.name.lower()} whose payload has 0 bytes",
             sent(hand(b"", attributes=int(codec))))
        for codec in Codec if codec is not Codec.NONE
    ),
    Case("codec-snappy-raw", "snappy as one raw block, without xerial's frame",
         sent(hand(bytes(cramjam.snappy.compress_raw(many(50))), 50, attributes=SNAPPY))),
    Case("codec-zstd-v6", "zstd in Produce v6", sent(packed(Codec.ZSTD, record()), version=6)),
    Case("codec-zstd-v7", "zstd in Produce v7", sent(packed(Codec.ZSTD, record()), version=7)),
    Case("codec-gzip-trailing", "gzip with garbage behind the stream",
         sent(hand(compress(Codec.GZIP, record()) + b"garbage", attributes=GZIP))),
    Case("codec-topic-gzip", "an uncompressed batch to a topic with compression.type=gzip",
         sent(good, compression_type="gzip")),
)  # fmt: skip
ATTRIBUTES = (
    Case("attribute-control", "the control bit", sent(hand(record(), attributes=CONTROL))),
    Case("attribute-control-transactional", "control and transactional bit with a producer id",
         sent(own_producer(0, 0, attributes=CONTROL | TRANSACTIONAL))),
    Case("attribute-transactional", "the transactional bit, no transactional id, no producer id",
         sent(hand(record(), attributes=TRANSACTIONAL))),
    Case("attribute-transactional-with-producer", "the transactional bit and a producer id, no transactional id",
         sent(own_producer(0, 0, attributes=TRANSACTIONAL))),
    Case("attribute-log-append-time", "the log append time bit from a client",
         sent(hand(record(), attributes=LOG_APPEND_TIME))),
    Case("attribute-delete-horizon", "the delete horizon bit", sent(hand(record(), attributes=DELETE_HORIZON))),
    Case("attribute-unused", "an attribute bit without a meaning", sent(hand(record(), attributes=1 << 10))),
    Case("transactional-id-plain-batch", "a transactional id, a batch that is not transactional",
         sent(good, transactional_id="some-transaction")),
    Case("transactional-id-idempotent-batch", "a transactional id, an idempotent batch that is not transactional",
         sent(own_producer(0, 0), transactional_id="some-transaction")),
    Case("timestamp-far-future", "a timestamp two hours ahead (message.timestamp.after.max.ms is one hour)",
         sent(lambda world: bytes(build_batch([Record(b"v", b"k", world.now_ms() + 2 * HOUR_MS)])))),
    Case("timestamp-far-future-second", "the second of two records two hours ahead",
         sent(lambda world: bytes(build_batch(
             [Record(b"v", b"k", world.now_ms()), Record(b"v", b"k", world.now_ms() + 2 * HOUR_MS)])))),
    Case("timestamp-far-past", "a timestamp two hours ago, message.timestamp.before.max.ms=3600000",
         sent(lambda world: bytes(build_batch([Record(b"v", b"k", world.now_ms() - 2 * HOUR_MS)])),
              message_timestamp_before_max_ms="3600000")),
    Case("timestamp-none", "timestamp -1", sent(hand(record(), base_timestamp=-1))),
    Case("timestamp-negative", "timestamp -5", sent(hand(record(), base_timestamp=-5))),
    Case("timestamp-max-wrong", "a max timestamp an hour below the record's",
         sent(lambda world: batch(record(), base_timestamp=world.now_ms(), max_timestamp=world.now_ms() - HOUR_MS))),
    Case("timestamp-far-future-log-append-time", "two hours ahead on a topic of log append time",
         sent(lambda world: bytes(build_batch([Record(b"v", b"k", world.now_ms() + 2 * HOUR_MS)])),
              message_timestamp_type="LogAppendTime")),
)  # fmt: skip
PRODUCERS = (
    Case("producer-negative-sequence", "a producer id, epoch 0, sequence -1", sent(own_producer(0, -1))),
    Case("producer-negative-sequence-2", "a producer id, epoch 0, sequence -2", sent(own_producer(0, -2))),
    Case("producer-negative-epoch", "a producer id, epoch -1, sequence 0", sent(own_producer(-1, 0))),
    Case("producer-negative-id", "producer id -2, epoch 0, sequence 0",
         sent(hand(record(), **{"producer": (-2, 0, 0)}))),
    Case("producer-no-id-with-sequence", "producer id -1, epoch 0, sequence 0",
         sent(hand(record(), **{"producer": (-1, 0, 0)}))),
    Case("producer-unknown-id", "a producer id nobody was given, epoch 0, sequence 0",
         sent(hand(record(), **{"producer": (987_654, 0, 0)}))),
    Case("producer-unknown-id-sequence-5", "a producer id nobody was given, sequence 5",
         sent(hand(record(), **{"producer": (987_655, 0, 5)}))),
    Case("sequence-in-order", "sequences 0 (2 records), 2, 3", sequences((0, 0, 2), (0, 2, 1), (0, 3, 1))),
    Case("sequence-gap", "sequences 0, 2", sequences((0, 0, 1), (0, 2, 1))),
    Case("sequence-duplicate", "sequences 0, 1, 1", sequences((0, 0, 1), (0, 1, 1), (0, 1, 1))),
    Case("sequence-duplicate-older", "sequences 0 to 4, then 0 again: among the last five",
         sequences(*((0, sequence, 1) for sequence in (0, 1, 2, 3, 4, 0)))),
    Case("sequence-duplicate-too-old", "sequences 0 to 5, then 0 again: before the last five",
         sequences(*((0, sequence, 1) for sequence in (0, 1, 2, 3, 4, 5, 0)))),
    Case("sequence-part-of-duplicate", "sequences 0 (3 records), then 1 (1 record)", sequences((0, 0, 3), (0, 1, 1))),
    Case("sequence-duplicate-other-count", "sequences 0 (3 records), then 0 (2 records)",
         sequences((0, 0, 3), (0, 0, 2))),
    Case("epoch-stale", "epoch 1 sequence 0, then epoch 0 sequence 1", sequences((1, 0, 1), (0, 1, 1))),
    Case("epoch-stale-duplicate", "epoch 0 sequence 0, epoch 1 sequence 0, then the first again",
         sequences((0, 0, 1), (1, 0, 1), (0, 0, 1))),
    Case("epoch-new-sequence-0", "epoch 0 sequences 0, 1, then epoch 1 sequence 0",
         sequences((0, 0, 1), (0, 1, 1), (1, 0, 1))),
    Case("epoch-new-sequence-3", "epoch 0 sequence 0, then epoch 1 sequence 3", sequences((0, 0, 1), (1, 3, 1))),
    Case("sequence-first-not-0", "the first batch with sequence 5", sequences((0, 5, 1))),
    Case("producer-two-batches", "two batches of one producer for one partition",
         sent(lambda world: batch(record(), producer=(producer_id(world), 0, 0), base_timestamp=world.now_ms()) * 2)),
)  # fmt: skip
REQUESTS = (
    Case("produce-acks-5", "acks=5", sent(good, acks=5)),
    Case("produce-acks-2", "acks=2", sent(good, acks=2)),
    Case("produce-acks-minus-2", "acks=-2", sent(good, acks=-2)),
    Case("produce-acks-5-bad-crc", "acks=5 and a wrong CRC", sent(hand(record(), crc_off_by=1), acks=5)),
    Case("produce-acks-5-magic-0", "acks=5 and magic 0", sent(magic_0, acks=5)),
    Case("produce-min-isr", "acks=-1 with min.insync.replicas=2 and one replica", sent(good, min_insync_replicas="2")),
    Case("produce-min-isr-acks-1", "acks=1 with min.insync.replicas=2 and one replica",
         sent(good, acks=1, min_insync_replicas="2")),
    Case("produce-acks-0", "acks=0, a good batch", no_answer_asked(good)),
    Case("produce-acks-0-bad-crc", "acks=0, a wrong CRC", no_answer_asked(hand(record(), crc_off_by=1))),
    Case("produce-acks-0-magic-0", "acks=0, magic 0", no_answer_asked(magic_0)),
    Case("produce-unknown-topic", "a topic that is not there", topic_unknown),
    Case("produce-unknown-partition", "partition 5 of 1", sent(good, partition=5)),
    Case("produce-negative-partition", "partition -1", sent(good, partition=-1)),
    Case("produce-unknown-partition-bad-crc", "partition 5 of 1 and a wrong CRC",
         sent(hand(record(), crc_off_by=1), partition=5)),
    Case("produce-by-id", "Produce v13 by topic id", by_id),
    Case("produce-unknown-id", "Produce v13, a topic id nobody has", with_id(UNKNOWN.id)),
    Case("produce-zero-id", "Produce v13, topic id zero", with_id(ZERO_UUID)),
    Case("produce-metadata-id", "Produce v13, the metadata log's topic id", with_id(ONE_UUID)),
    Case("produce-metadata-topic", "Produce v12 to __cluster_metadata",
         lambda world: world.ask(produce(Topic("__cluster_metadata", ONE_UUID), good(world)), 12)),
    Case("produce-invalid-topic", "Produce v12 to the topic 'a b'",
         lambda world: world.ask(produce(Topic("a b", ZERO_UUID), good(world)), 12)),
    Case("produce-empty-topic", "Produce v12 to the topic ''",
         lambda world: world.ask(produce(Topic("", ZERO_UUID), good(world)), 12)),
    Case("produce-partition-twice", "one partition twice in a request", partition_twice),
    Case("produce-topic-twice", "one topic twice in a request, two partitions", topic_twice),
    Case("produce-good-and-bad", "two partitions, the second with a wrong CRC", one_good_one_bad),
    Case("produce-nothing", "no topics", nothing),
    Case("produce-nothing-acks-5", "no topics, acks=5",
         lambda world: world.ask(ProduceRequest(acks=5, timeout=1000), 12)),
)  # fmt: skip


def shorter(world: World) -> bytes:
    """A good batch whose length says one byte less, its CRC that of what the length covers."""
    whole = good(world)
    less = bytearray(batch(whole[61:-1], base_timestamp=world.now_ms()))
    return bytes(less) + whole[-1:]


def sized(world: World, size: int) -> bytes:
    """A good batch of exactly so many bytes."""
    rest = size - len(good(world, b""))
    for length in range(rest, rest - 10, -1):
        data = good(world, b"x" * length)
        if len(data) == size:
            return data
    raise AssertionError(f"no batch of {size} bytes")


CASES = BATCHES + COUNTS + RECORDS + CODECS + ATTRIBUTES + PRODUCERS + REQUESTS
