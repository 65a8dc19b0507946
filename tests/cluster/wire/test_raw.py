"""What is made by hand is, where nothing is bent, what a client would send."""

from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kvorum.protocol.records import Record, build_batch
from tests.cluster.wire.raw import batch, by_hand, record, request

NOW_MS = 1_700_000_000_000


def test_a_batch_by_hand_is_a_clients_batch() -> None:
    records = record(b"a", b"b") + record(None, None, index=1, timestamp_delta=5, headers=b"\x02\x02h\x02x")
    wanted = build_batch([Record(b"b", b"a", NOW_MS), Record(None, None, NOW_MS + 5, (("h", b"x"),))])
    assert batch(records, 2, base_timestamp=NOW_MS, max_timestamp=NOW_MS + 5) == wanted


def test_a_bent_crc_differs_in_the_crc_only() -> None:
    good, bad = batch(record()), batch(record(), crc_off_by=1)
    assert [place for place, pair in enumerate(zip(good, bad, strict=True)) if pair[0] != pair[1]] == [20]


def test_a_frame_by_hand_is_a_clients_frame() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="a")], allow_auto_topic_creation=True)
    assert by_hand(3, 4, b"\0\0\0\1\0\1a\1") == request(message, 4)
