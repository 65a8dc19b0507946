"""Requests with extreme values: every API and version, each field at its edges. None ends in an unexpected error."""

import random
import socket
import struct
import time
from pathlib import Path
from typing import Any

from crc32c import crc32c

from kvorum.cluster.local.local import LocalCluster
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode_response, encode_bytes, message_class
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.schema import Field
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import voters
from tests.cluster.clients import create_topic, eventually, send_one
from tests.cluster.conftest import clusters_in

REQUESTS = 1200
SEED = 28
SILENCE_SECONDS = 1.0
"""An answer that takes longer is not waited for: JoinGroup and Fetch may park."""
PRIVATE_KEY_MIN = 10_000
LEFT_OUT = {
    *(ApiKey.UPDATE_FEATURES, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
    *(ApiKey.UNREGISTER_BROKER, ApiKey.REMOVE_RAFT_VOTER),
}
"""Orders that are to change how the node works; configs have a test of their own."""
BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
NAMES = {
    "group": ["g1", "g2", ""],
    "transactional": ["x1", "x2", ""],
    "member": ["m1", ""],
    "topic": ["t", "compacted", "__consumer_offsets", "__transaction_state", "absent", ""],
    "protocol": ["consumer", "range", ""],
}
TEXTS = ["", "a", "consumer", "range", "uniform", "\0", "é" * 100, "x" * 300, "0", "*", ".*", "(", "x" * 30_000]
BLOBS = [b"", b"\0", b"\xff" * 8, bytes(100), b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff", b"\0\1\0\0\0\1\0\1t\0\0\0\0"]
TIMES = [-1, -2, 0, 2**63 - 1, -(2**63), 2**62, -(2**62), -62_135_596_800_000]
HEADER_FIELDS = (
    (0, ">q"),
    (12, ">i"),
    (21, ">h"),
    (23, ">i"),
    (27, ">q"),
    (35, ">q"),
    (43, ">q"),
    (51, ">h"),
    (53, ">i"),
)


class Requests:
    """Makes requests; what answers give (members, producer ids, topic ids) goes into later ones."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.members = ["m1"]
        self.producer_ids = [0, 1, -1, 2**63 - 1]
        self.topic_ids = [ZERO_UUID, Uuid(b"\xff" * 16)]

    def batch(self) -> bytes:
        """A batch of extreme timestamps and producers; now and then one header field is extreme, too."""
        chance = self.chance
        records = [Record(b"v", chance.choice([b"k", None]), chance.choice([*TIMES, int(time.time() * 1000)]))]
        batch = build_batch(
            records * chance.choice([1, 1, 3]),
            producer_id=chance.choice(self.producer_ids),
            producer_epoch=chance.choice([0, 0, 1, -1, 2**15 - 1, -(2**15)]),
            base_sequence=chance.choice([0, 0, 1, -1, 2**31 - 1, -(2**31)]),
            is_transactional=chance.random() < 0.3,
            is_control=chance.random() < 0.05,
        )
        if chance.random() < 0.3:
            position, form = chance.choice(list(HEADER_FIELDS.items()))
            edge = 1 << 8 * struct.calcsize(form) - 1
            struct.pack_into(form, batch, position, chance.choice([0, 1, -1, edge - 1, -edge]))
            struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
        return bytes(batch)

    def integer(self, name: str, bits: int) -> int:
        chance, edge = self.chance, 1 << bits - 1
        if name == "producer_id":
            return chance.choice(self.producer_ids)
        if "partition" in name and chance.random() < 0.7:
            return chance.choice([0, 1])
        return chance.choice([0, 0, 1, 1, -1, -2, 3, 10, edge - 1, -edge, edge // 2, *([30_000] * (bits > 16))])

    def text(self, name: str) -> str:
        chance = self.chance
        for part, values in NAMES.items():
            if (part in name or (part == "topic" and name == "name")) and chance.random() < 0.9:
                return chance.choice([*values, *(self.members if part == "member" else ())])
        return chance.choice(TEXTS)

    def value(self, field: Field, version: int) -> Any:
        chance = self.chance
        if field.nullable and field.nullable[0] <= version <= field.nullable[1] and chance.random() < 0.1:
            return None
        match field.kind:
            case "struct":
                assert field.struct is not None
                return self.filled(field.struct(), version)
            case "bool":
                return chance.random() < 0.5
            case "float64":
                return chance.choice([0.0, -1.0, float("nan"), float("inf"), 1e308])
            case "uuid":
                return chance.choice(self.topic_ids)
            case "string":
                return self.text(field.name)
            case "bytes":
                return chance.choice([*BLOBS, chance.randbytes(30)])
            case "records":
                return self.batch()
            case kind if kind.startswith("u"):
                return chance.choice([0, 1, (1 << BITS[kind]) - 1])
            case kind:
                return self.integer(field.name, BITS[kind])

    def filled(self, message: Any, version: int) -> Any:
        """Return the message with a value in each field that its version has."""
        for field in message.FIELDS:
            if not field.versions[0] <= version <= field.versions[1]:
                continue
            if field.array:
                may_be_null = field.nullable and field.nullable[0] <= version <= field.nullable[1]
                rows = [self.value(field, version) for _ in range(self.chance.choice([0, 1, 1, 1, 2]))]
                setattr(message, field.name, None if may_be_null and self.chance.random() < 0.1 else rows)
            else:
                setattr(message, field.name, self.value(field, version))
        for name in ("max_wait", "max_wait_ms", "timeout", "timeout_ms"):
            if hasattr(message, name):
                setattr(message, name, self.chance.choice([0, 100, -1]))
        if hasattr(message, "acks") and message.acks == 0:
            message.acks = 1
        return message

    def learn(self, response: Any) -> None:
        if getattr(response, "member_id", None):
            self.members = [*self.members[-3:], response.member_id]
        if getattr(response, "producer_id", -1) >= 0:
            self.producer_ids = [*self.producer_ids[:4], *self.producer_ids[4:][-2:], response.producer_id]
        for topic in getattr(response, "topics", None) or ():
            if getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID:
                self.topic_ids = [*self.topic_ids[-4:], topic.topic_id]


class Connection:
    """One connection; opened again where the peer closed it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket: socket.socket | None = None

    def call(self, key: int, version: int, body: bytes, is_flexible: bool) -> bytes | None:
        """Return the answer's bytes behind the correlation id; None if it was closed, or there is none so soon."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, 10)
                self._socket.settimeout(SILENCE_SECONDS)
            frame = struct.pack(">hhih", key, version, 7, 4) + b"fuzz" + b"\0" * is_flexible + body
            self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
            with self._socket.makefile("rb", buffering=0) as stream:
                data = b""
                while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                    more = stream.read(65536)
                    if not more:
                        raise ConnectionResetError
                    data += more
            return data[8:]
        except (ConnectionError, TimeoutError):
            self.close()
            return None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def bombard(address: tuple[str, int], keys: list[ApiKey], seed: int) -> int:
    """Send REQUESTS requests; return how many were answered."""
    requests, connection, answered = Requests(seed), Connection(address), 0
    for _ in range(REQUESTS):
        key = requests.chance.choice(keys)
        cls = message_class(key, "Request")
        version = requests.chance.randint(*cls.VERSIONS)
        try:
            body = encode_bytes(requests.filled(cls(), version), version)
        except Exception:  # a value that this version cannot carry
            continue
        is_flexible = version >= cls.FLEXIBLE_FROM
        data = connection.call(key, version, body, is_flexible)
        if data is None:
            continue
        answered += 1
        skipped = 1 if is_flexible and key != ApiKey.API_VERSIONS else 0
        requests.learn(decode_response(key, version, memoryview(bytearray(data))[skipped:]))
    connection.close()
    return answered


def served_by(address: tuple[str, int]) -> list[ApiKey]:
    """Return the APIs of a listener that are asked for."""
    connection = Connection(address)
    data = connection.call(ApiKey.API_VERSIONS, 0, b"", False)
    connection.close()
    assert data is not None
    served = {row.api_key for row in decode_response(ApiKey.API_VERSIONS, 0, memoryview(bytearray(data))).api_keys}  # type: ignore[attr-defined]
    return [key for key in ApiKey if key in served - LEFT_OUT and key < PRIVATE_KEY_MIN]


def faults(cluster: LocalCluster) -> list[str]:
    paths = cluster.node("node-1")
    texts = [Path(paths.log(role)).read_text() for role in ("broker", "controller", "node")]
    words = (
        "failed unexpectedly",
        "unhandled",
        "Traceback",
        "AssertionError",
        "role crashed",
        "stops after a fatal error",
    )
    return [line[:500] for line in "".join(texts).splitlines() if any(word in line for word in words)]


def test_extreme_requests_end_in_errors_with_a_code_and_the_node_works_on(tmp_path: Path) -> None:
    with clusters_in(tmp_path) as start:
        cluster = start("single.yaml")
        bootstrap = cluster.plan.bootstrap
        create_topic(bootstrap, "t", 2, 1)
        create_topic(bootstrap, "compacted", 2, 1, **{"cleanup.policy": "compact"})
        host, port = bootstrap.rsplit(":", 1)
        broker = (host, int(port))
        controller = next(iter(voters(Settings.of(dict(cluster.plan.nodes[0].properties))).values()))
        for address in (broker, controller):
            keys = served_by(address)
            assert len(keys) > 20
            answered = bombard(address, keys, SEED)
            assert answered > REQUESTS // 4, f"{answered} answers of {address}"
            assert not faults(cluster)
        eventually(lambda: send_one(bootstrap, "t") is None, "nothing can be produced any more")
        cluster.kill("node-1")
        assert cluster.start("node-1", timeout_seconds=60) == {"node-1": "ready"}
        eventually(lambda: send_one(bootstrap, "t") is None, "nothing can be produced after the recovery")
        assert not faults(cluster)
