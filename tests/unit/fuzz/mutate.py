"""What the fuzzer starts from, and how it spoils it: random valid messages and batches, and mutations of bytes."""

import random

from kvorum.protocol.api import ApiKey, request_header_version
from kvorum.protocol.codec import encode_bytes, fields_of, message_class
from kvorum.protocol.compression import Codec
from kvorum.protocol.headers import RequestHeader, encode_request_header
from kvorum.protocol.records import Record, build_batch
from kvorum.protocol.schema import Field, Message, Struct
from kvorum.protocol.uuids import Uuid

INTEGER_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32}
NASTY = (
    *(bytes.fromhex(text) for text in ("00", "01", "7f", "80", "ff", "0000", "7fff", "8000", "ffff", "fffe")),
    *(bytes.fromhex(text) for text in ("00000000", "00000001", "7fffffff", "80000000", "ffffffff", "fffffffe")),
    *(bytes.fromhex(text) for text in ("ffffffff0f", "ffffffff07", "8080808001", "ffffffffff", "ffffffffffffffffff01")),
    *(bytes.fromhex(text) for text in ("7fffffffffffffff", "8000000000000000", "ffffffffffffffff", "c328", "eda080")),
)
"""Values at the edges of lengths, counts, varints and text."""
MUTATIONS_MAX = 6


def random_value(rng: random.Random, field: Field, version: int, depth: int) -> object:
    """Return a value the field may have."""
    nullable = field.nullable is not None and field.nullable[0] <= version <= field.nullable[1]
    if nullable and field.tag is None and rng.random() < 0.2:
        return None
    if field.array:
        single = field._replace(array=False, nullable=None)
        return [random_value(rng, single, version, depth + 1) for _ in range(rng.randrange(0, 4 if depth < 3 else 2))]
    if field.struct is not None:
        return random_struct(rng, field.struct, version, depth + 1)
    match field.kind:
        case "bool":
            return rng.random() < 0.5
        case "string":
            return "".join(rng.choice("aé語 .-") for _ in range(rng.randrange(0, 200 if rng.random() < 0.1 else 9)))
        case "records":
            return bytes(random_batch(rng)) if rng.random() < 0.5 else rng.randbytes(rng.randrange(0, 100))
        case "bytes":
            return rng.randbytes(rng.randrange(0, 60))
        case "uuid":
            return Uuid(rng.randbytes(16))
        case "float64":
            return rng.random()
    return rng.randrange(0, 1 << rng.randrange(1, INTEGER_BITS[field.kind] + 1))


def random_struct(rng: random.Random, cls: type[Struct], version: int, depth: int = 0) -> Struct:
    """Return a struct with every field of the version set."""
    return cls(**{f.name: random_value(rng, f, version, depth) for f in fields_of(cls, version)})


def random_message(rng: random.Random, side: str) -> tuple[Message, int]:
    """Return a "Request" or a "Response" of any API, and one of its versions."""
    cls = message_class(rng.choice(list(ApiKey)), side)
    version = rng.randint(*cls.VERSIONS)
    return random_struct(rng, cls, version), version  # type: ignore[return-value]


def random_request(rng: random.Random) -> bytes:
    """Return header and body of a request, without the frame's length."""
    message, version = random_message(rng, "Request")
    client_id = rng.choice([None, "", "client-1", "é" * 20])
    header = RequestHeader(message.API_KEY, version, rng.randrange(1 << 31), client_id)
    head = encode_request_header(header, request_header_version(message.API_KEY, version, message.FLEXIBLE_FROM))
    return head + encode_bytes(message, version)


def random_batch(rng: random.Random) -> bytearray:
    """Return a record batch as a producer may send it."""
    kind = rng.random()
    count = rng.randrange(1, 40 if kind < 0.2 else 5)
    records = [
        Record(
            value=None if rng.random() < 0.1 else rng.randbytes(8 if kind < 0.5 else rng.randrange(0, 60)),
            key=None if rng.random() < 0.5 else b"key",
            timestamp=1_700_000_000_000 + rng.randrange(0, 1 << rng.randrange(1, 20)),
            headers=tuple((f"h{number}", rng.choice([None, b"", b"x"])) for number in range(rng.randrange(0, 3))),
        )
        for _ in range(count)
    ]
    if rng.random() < 0.4:
        return build_batch(records, codec=rng.choice(list(Codec)))
    return build_batch(
        records,
        codec=rng.choice(list(Codec)),
        producer_id=rng.randrange(0, 1 << 40),
        producer_epoch=rng.randrange(0, 1 << 15),
        base_sequence=rng.randrange(0, 1 << 31),
        is_transactional=rng.random() < 0.2,
    )


def mutate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return the bytes spoiled in one to MUTATIONS_MAX places; `other` is where foreign bytes come from."""
    spoiled = bytearray(data)
    for _ in range(rng.randrange(1, MUTATIONS_MAX + 1)):
        place = rng.randrange(len(spoiled) + 1)
        match rng.randrange(9):
            case 0 if spoiled:
                spoiled[place % len(spoiled)] ^= 1 << rng.randrange(8)
            case 1 if spoiled:
                spoiled[place % len(spoiled)] = rng.randrange(256)
            case 2:
                del spoiled[place:]
            case 3:
                del spoiled[place : place + rng.randrange(1, 9)]
            case 4:
                value = rng.choice(NASTY)
                spoiled[place : place + len(value)] = value
            case 5:
                spoiled[place:place] = rng.choice(NASTY)
            case 6 if other:
                start = rng.randrange(len(other))
                spoiled[place : place + rng.randrange(0, 9)] = other[start : start + rng.randrange(1, 40)]
            case 7:
                spoiled[place:place] = spoiled[place : place + rng.randrange(1, 40)]
            case _ if len(spoiled) >= 2:
                # A length of two or four bytes, off by a little.
                size = rng.choice([1, 2, 4])
                place = min(place, len(spoiled) - size) if len(spoiled) >= size else 0
                number = int.from_bytes(spoiled[place : place + size], "big") + rng.choice([-2, -1, 1, 2, 100])
                spoiled[place : place + size] = (number % (1 << 8 * size)).to_bytes(size, "big")
    return bytes(spoiled)
