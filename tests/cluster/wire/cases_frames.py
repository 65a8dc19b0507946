"""Frames, headers and bodies that are not what they say."""

import struct
from collections.abc import Callable

from kvorum.protocol.codec import encode_bytes
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.metadata import MetadataRequest
from tests.cluster.wire.case import Case
from tests.cluster.wire.raw import by_hand, frame, request, request_header
from tests.cluster.wire.world import Json, World, fetch, produce

PRODUCE, FETCH, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 3, 18, 19
REQUEST_BYTES_MAX = 104_857_600
"""socket.request.max.bytes by default."""
NO_TOPICS = MetadataRequest(topics=[])


def sent(*frames: bytes, api_key: int = METADATA, version: int = 12, answers: int = 1) -> Callable[[World], Json]:
    """Send these bytes."""
    return lambda world: world.send(*frames, api_key=api_key, version=version, answers=answers)


def body(api_key: int, version: int, data: bytes, header_version: int | None = None) -> Callable[[World], Json]:
    """Send a valid header and this body."""
    return sent(by_hand(api_key, version, data, header_version), api_key=api_key, version=version)


def client_id(data: bytes) -> Callable[[World], Json]:
    """Send a Metadata v1 for no topic with this client id, length included."""
    return sent(frame(struct.pack(">hhi", METADATA, 1, 1) + data + struct.pack(">i", 0)), version=1)


def api_versions_cut_answer(version: int, data: bytes) -> Callable[[World], Json]:
    """Send an ApiVersions; show the code, and only whether a list came."""

    def run(world: World) -> Json:
        answer = world.send(by_hand(API_VERSIONS, version, data, 2), api_key=API_VERSIONS, version=min(version, 4))
        return short(answer)

    return run


def newest_api_versions(version: int) -> Callable[[World], Json]:
    """Send a version of ApiVersions that does not exist yet; the answer is v0, in full."""
    whole = by_hand(API_VERSIONS, version, encode_bytes(ApiVersionsRequest(), 4), 2)
    return sent(whole, api_key=API_VERSIONS, version=0)


def short(answer: Json) -> Json:
    """Cut the list of APIs out."""
    if "api_keys" not in answer:
        return answer
    return {"error_code": answer["error_code"], "api_keys": "given"}


def named_client(name: str, software_version: str) -> Callable[[World], Json]:
    """Send an ApiVersions v3 of a client with this name and version."""
    message = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    return lambda world: short(world.send(request(message, 3), api_key=API_VERSIONS, version=3))


def produce_without_topic_name(world: World) -> Json:
    """Produce v8 whose topic name is null (length -1)."""
    data = struct.pack(">hhi", -1, -1, 1000) + struct.pack(">i", 1) + struct.pack(">h", -1) + struct.pack(">i", 0)
    return world.send(by_hand(PRODUCE, 8, data), api_key=PRODUCE, version=8)


def produce_truncated(world: World) -> Json:
    """Produce v8 whose last byte is not there: inside of the records."""
    whole = request(produce(world.topic(), b"x" * 100, version=8), 8)
    return world.send(frame(whole[4:-1]), api_key=PRODUCE, version=8)


def produce_records_beyond(world: World) -> Json:
    """Produce v8 whose records say that they are 2,000,000,000 bytes."""
    whole = request(produce(world.topic(), b"x" * 100, version=8), 8)
    return world.send(whole[:-104] + struct.pack(">i", 2_000_000_000) + b"x" * 100, api_key=PRODUCE, version=8)


def good_then_bad(world: World) -> Json:
    """A good request, and behind it one that cannot be read: the first is answered."""
    good = request(NO_TOPICS, 12)
    return pruned(world.send(good + by_hand(METADATA, 99, b""), api_key=METADATA, version=12, answers=2))


def two_good(world: World) -> Json:
    """Two good requests in one packet."""
    good = request(NO_TOPICS, 12)
    return pruned(world.send(good + good, api_key=METADATA, version=12, answers=2))


def fetch_truncated(world: World) -> Json:
    """Fetch v12 cut in its middle."""
    whole = request(fetch(world.topic(), 0), 12)
    return world.send(frame(whole[4:-10]), api_key=FETCH, version=12)


def pruned(answer: Json) -> Json:
    """Leave the count of answers."""
    return {**answer, "answers": len(answer["answers"])} if "answers" in answer else answer


CASES = (
    Case("frame-oversize", "a length of socket.request.max.bytes + 1, nothing behind it",
         sent(struct.pack(">i", REQUEST_BYTES_MAX + 1))),
    Case("frame-largest-int", "a length of 2^31 - 1", sent(struct.pack(">i", 2**31 - 1))),
    Case("frame-negative", "a length of -1", sent(struct.pack(">i", -1) + b"xxxx")),
    Case("frame-most-negative", "a length of -2^31", sent(struct.pack(">i", -(2**31)))),
    Case("frame-zero", "a length of 0", sent(frame(b""))),
    Case("frame-short-header", "a frame of 3 bytes", sent(frame(b"\0\3\0"))),
    Case("frame-header-only", "api key, version and correlation id, and no client id",
         sent(frame(struct.pack(">hhi", METADATA, 1, 7)), version=1)),
    Case("frame-http", "an HTTP request", sent(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")),
    Case("frame-tls", "the start of a TLS handshake",
         sent(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 506)),
    Case("frame-zeros", "64 zero bytes", sent(bytes(64))),
    Case("frame-incomplete", "half of a valid frame, the connection stays open",
         lambda world: world.quiet(request(NO_TOPICS, 12)[:10])),
    Case("header-unknown-api", "api key 30000", sent(by_hand(30_000, 0, b""))),
    Case("header-unknown-api-after-last", "api key 93, one after the last", sent(by_hand(93, 0, b""))),
    Case("header-negative-api", "api key -1", sent(by_hand(-1, 0, b""))),
    Case("header-removed-api", "api key 4, LeaderAndIsr, which Kafka 4 has no more", sent(by_hand(4, 0, b""))),
    Case("header-controller-api", "api key 52 (Vote) v0, which only a controller serves",
         sent(by_hand(52, 0, b"\0" * 8))),
    Case("header-version-above", "Metadata v99", sent(by_hand(METADATA, 99, b""))),
    Case("header-version-negative", "Metadata v-1", sent(by_hand(METADATA, -1, b""))),
    Case("header-fetch-removed-version", "Fetch v3, which Kafka 4 has no more", body(FETCH, 3, bytes(40), 1)),
    Case("header-fetch-version-above", "Fetch v19", body(FETCH, 19, b"")),
    Case("header-list-offsets-removed-version", "ListOffsets v0", body(2, 0, bytes(8), 1)),
    Case("header-create-topics-removed-version", "CreateTopics v1", body(CREATE_TOPICS, 1, bytes(9), 1)),
    Case("header-produce-v0", "Produce v0, listed and not served",
         body(PRODUCE, 0, struct.pack(">hii", 1, 1000, 0), 1)),
    Case("header-produce-v2", "Produce v2, listed and not served",
         body(PRODUCE, 2, struct.pack(">hii", 1, 1000, 0), 1)),
    Case("header-produce-version-above", "Produce v14", body(PRODUCE, 14, bytes(20), 2)),
    Case("header-without-tags", "Metadata v12 behind a header v1: the tag count is missing",
         body(METADATA, 12, encode_bytes(NO_TOPICS, 12), 1)),
    Case("header-unknown-tag", "Metadata v12, a tagged field nobody knows in the header",
         sent(frame(request_header(METADATA, 12)[:-1] + b"\1\x63\2ab" + encode_bytes(NO_TOPICS, 12)))),
    Case("header-tag-beyond", "Metadata v12, a tagged field longer than the frame in the header",
         sent(frame(request_header(METADATA, 12)[:-1] + b"\1\x63\x7fab"))),
    Case("header-tag-twice", "Metadata v12, the same unknown tag twice in the header",
         sent(frame(request_header(METADATA, 12)[:-1] + b"\2\x63\1a\x63\1a" + encode_bytes(NO_TOPICS, 12)))),
    Case("header-client-id-null", "Metadata v1, client id null", client_id(b"\xff\xff")),
    Case("header-client-id-empty", "Metadata v1, client id empty", client_id(b"\0\0")),
    Case("header-client-id-negative", "Metadata v1, client id of length -2", client_id(b"\xff\xfe")),
    Case("header-client-id-beyond", "Metadata v1, client id longer than the frame", client_id(b"\x7f\xff")),
    Case("header-client-id-not-utf-8", "Metadata v1, client id of bytes that are no UTF-8", client_id(b"\0\2\xff\xfe")),
    Case("api-versions-99", "ApiVersions v99", newest_api_versions(99)),
    Case("api-versions-5", "ApiVersions v5", newest_api_versions(5)),
    Case("api-versions-negative", "ApiVersions v-1",
         sent(by_hand(API_VERSIONS, -1, b"", 1), api_key=API_VERSIONS, version=0)),
    Case("api-versions-truncated", "ApiVersions v3 without its body", api_versions_cut_answer(3, b"")),
    Case("api-versions-empty-name", "ApiVersions v3, client name and version empty", named_client("", "")),
    Case("api-versions-bad-name", "ApiVersions v3, client name '-bad name-'", named_client("-bad name-", "1.0")),
    Case("api-versions-bad-version", "ApiVersions v3, client version '!'", named_client("client", "!")),
    Case("api-versions-good-name", "ApiVersions v3, client 'apache-kafka-java' '4.3.0'",
         named_client("apache-kafka-java", "4.3.0")),
    Case("body-empty", "Metadata v1 without body", body(METADATA, 1, b"")),
    Case("body-garbage", "Metadata v12 with a body of 0xff", body(METADATA, 12, b"\xff" * 40)),
    Case("body-count-beyond", "Metadata v1 with 2^31 - 1 topics in 4 bytes",
         body(METADATA, 1, struct.pack(">i", 2**31 - 1))),
    Case("body-count-a-little-beyond", "Metadata v1 with 3 topics of which 1 is there",
         body(METADATA, 1, struct.pack(">i", 3) + b"\0\1a")),
    Case("body-compact-count-beyond", "Metadata v12 with 2^31 - 2 topics in 2 bytes",
         body(METADATA, 12, b"\xff\xff\xff\xff\x07\0\0")),
    Case("body-varint-overlong", "Metadata v12 whose array count is a varint of 6 bytes",
         body(METADATA, 12, b"\xff\xff\xff\xff\xff\x01\0\0")),
    Case("body-count-negative", "CreateTopics v2 with -1 topics",
         body(CREATE_TOPICS, 2, struct.pack(">ii", -1, 1000) + b"\0")),
    Case("body-count-more-negative", "Metadata v1 with -5 topics, where -1 means all",
         lambda world: {"closed": "closed" in world.send(
             by_hand(METADATA, 1, struct.pack(">i", -5)), api_key=METADATA, version=1)}),
    Case("body-string-null", "Metadata v1 for a topic whose name is null",
         body(METADATA, 1, struct.pack(">ih", 1, -1))),
    Case("body-string-more-negative", "Metadata v1 for a topic whose name has length -2",
         body(METADATA, 1, struct.pack(">ih", 1, -2))),
    Case("body-string-beyond", "Metadata v1 for a topic whose name is longer than the frame",
         body(METADATA, 1, struct.pack(">ih", 1, 30_000) + b"a")),
    Case("body-string-not-utf-8", "Metadata v1 for a topic whose name is no UTF-8",
         body(METADATA, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe")),
    Case("body-create-topics-name-null", "CreateTopics v2 for a topic whose name is null",
         body(CREATE_TOPICS, 2, struct.pack(">ihihii", 1, -1, 1, 1, 0, 0) + struct.pack(">i", 1000) + b"\0")),
    Case("body-trailing-bytes", "Metadata v12 with 20 bytes behind its end",
         body(METADATA, 12, encode_bytes(NO_TOPICS, 12) + b"x" * 20)),
    Case("body-unknown-tag", "Metadata v12 with a tagged field nobody knows",
         body(METADATA, 12, encode_bytes(NO_TOPICS, 12)[:-1] + b"\1\x63\2ab")),
    Case("body-tag-beyond", "Metadata v12 with a tagged field longer than the frame",
         body(METADATA, 12, encode_bytes(NO_TOPICS, 12)[:-1] + b"\1\x63\x7fab")),
    Case("body-bool-other", "Metadata v4 whose boolean is 7", body(METADATA, 4, struct.pack(">i", 0) + b"\7")),
    Case("body-produce-truncated", "Produce v8 that lacks its last byte", produce_truncated),
    Case("body-produce-records-beyond", "Produce v8 whose records claim 2,000,000,000 bytes", produce_records_beyond),
    Case("body-produce-name-null", "Produce v8 whose topic name is null", produce_without_topic_name),
    Case("body-fetch-truncated", "Fetch v12 that lacks its last 10 bytes", fetch_truncated),
    Case("pipeline-two-good", "two requests in one packet", two_good),
    Case("pipeline-bad-first", "Metadata v99 and a valid Metadata v12 in one packet",
         sent(by_hand(METADATA, 99, b"") + request(NO_TOPICS, 12))),
    Case("pipeline-bad-second", "a valid Metadata v12 and a Metadata v99 in one packet", good_then_bad),
)  # fmt: skip
