"""Formats of Kafka's serializers of plain types: numbers, big-endian, and UUIDs of 16 bytes. Sans-IO.

    int32, int64    IntegerSerializer, LongSerializer
    float, double   FloatSerializer, DoubleSerializer; NaN and the infinities are texts, as JSON has no numbers for them
    uuid            16 bytes; what Kafka's UUIDSerializer writes is the text of one, and read as such

Source: org.apache.kafka.common.serialization.
"""

import math
import re
from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from types import MappingProxyType
from typing import Final

INTEGERS: Final[Mapping[str, Struct]] = MappingProxyType({"int32": Struct(">i"), "int64": Struct(">q")})
FLOATS: Final[Mapping[str, Struct]] = MappingProxyType({"float": Struct(">f"), "double": Struct(">d")})
UUID: Final = "uuid"
TYPES: Final = (*INTEGERS, *FLOATS, UUID)
UUID_TEXT: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
UUID_SIZE: Final = 16
FLOAT_DIGITS: Final = (6, 7, 8, 9)
"""Digits that identify any 32-bit float; the shortest representation is returned."""
NOT_FINITE: Final[Mapping[str, float]] = MappingProxyType(
    {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
)


def read(type_: str, data: bytes) -> int | float | str | None:
    """Return the value of bytes; None if they are invalid for that type."""
    if type_ == UUID:
        return uuid_of(data)
    struct = INTEGERS.get(type_) or FLOATS[type_]
    if len(data) != struct.size:
        return None
    (value,) = struct.unpack(data)
    if type_ in INTEGERS:
        return int(value)
    if not math.isfinite(value):
        return next(name for name, each in NOT_FINITE.items() if each == value or (value != value and each != each))
    return shortest(float(value)) if type_ == "float" else float(value)


def shortest(value: float) -> float:
    """Return the number with the fewest digits that is the same float of 32 bits: 0.1, not 0.10000000149011612."""
    struct = FLOATS["float"]
    wanted = struct.pack(value)
    return next(found for digits in FLOAT_DIGITS if struct.pack(found := float(f"{value:.{digits}g}")) == wanted)


def uuid_of(data: bytes) -> str | None:
    """Return a UUID's text."""
    if len(data) == UUID_SIZE:
        digits = data.hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    text = data.decode(errors="replace")
    return text if UUID_TEXT.fullmatch(text) else None


def write(type_: str, value: object) -> bytes:
    """Return the bytes of a number or a text. Raises ValueError."""
    if type_ == UUID:
        if not isinstance(value, str) or not UUID_TEXT.fullmatch(value):
            raise ValueError("expected a UUID such as 123e4567-e89b-12d3-a456-426614174000")
        return bytes.fromhex(value.replace("-", ""))
    try:
        if type_ in INTEGERS:
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise ValueError(f"{type_} must be an integer")
            return INTEGERS[type_].pack(int(value))
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"{type_} must be a number")
        number = NOT_FINITE.get(value) if isinstance(value, str) else None
        return FLOATS[type_].pack(float(value) if number is None else number)
    except (StructError, OverflowError) as error:
        raise ValueError(f"not a {type_}: {error}") from error
