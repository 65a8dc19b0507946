"""Formats in Python, a row at a time: what runs in Spark's Python workers.

Answers are structs of value and error, one of the two null. Nothing raises for a row. Times are integers on the way:
Python's own types have fewer years than Spark's.
"""

import codecs
import math
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import DecimalType

from kvorum.pipelines.faults import Unfit, shown

BIG_ENDIAN: Final = {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}
MESSAGE_MAX: Final = 500
"""Characters of an error that are kept: some libraries put the whole value into it."""
EXACT: Final = Context(prec=20_000, Emax=10**6, Emin=-(10**6))
"""For decimals: results are not rounded. A JSON integer of more than 4300 digits is an error before."""


def by_row(data: "pa.Array[Any]", one: Callable[[Any], Any], arrow: pa.DataType) -> "pa.Array[Any]":
    """Return structs of value and error for a function of one value."""
    values, errors = list[Any](), list[str | None]()
    for item in data.cast(with_integers(data.type)).to_pylist():
        value, error = None, None
        if item is not None:
            try:
                value = one(item)
            except Exception as caught:
                # A row's fault, whatever a library raises for it: it becomes the row's failure.
                name = "" if isinstance(caught, Unfit) else f"{type(caught).__name__}: "
                # Half of a surrogate pair, which a JSON text may contain, has no UTF-8.
                error = f"{name}{caught}"[:MESSAGE_MAX].encode(errors="backslashreplace").decode()
        values.append(value)
        errors.append(error)
    return pa.StructArray.from_arrays(
        [_array(values, errors, arrow), pa.array(errors, pa.string())], names=["value", "error"]
    )


def _array(values: list[Any], errors: list[str | None], arrow: pa.DataType) -> "pa.Array[Any]":
    """Return an Arrow array; where the batch does not fit its type, row by row, to fail those that do not."""
    try:
        return pa.array(values, arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        for index, value in enumerate(values):
            try:
                pa.array([value], arrow)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                values[index], errors[index] = None, str(error)[:MESSAGE_MAX]
        return pa.array(values, arrow)


def with_integers(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type with integers in place of timestamps and dates."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, with_integers(one.type), one.nullable) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(with_integers(kind.key_type), with_integers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(with_integers(kind.value_type))
    return kind


def text_decoded(encoding: str, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return bytes as text of an encoding; without a mark, UTF-16 and UTF-32 are big-endian, as in Java."""
    name = codecs.lookup(encoding).name

    def one(value: bytes) -> str:
        has_mark = value[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff") or value[:2] in (b"\xff\xfe", b"\xfe\xff")
        return value.decode(name if has_mark else BIG_ENDIAN.get(name, name))

    return by_row(data, one, pa.string())


def text_encoded(encoding: str, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return text as bytes of an encoding; UTF-16 and UTF-32 as Java writes them."""
    name = codecs.lookup(encoding).name
    mark, wanted = b"\xfe\xff" if name == "utf-16" else b"", BIG_ENDIAN.get(name, name)
    return by_row(data, lambda value: mark + value.encode(wanted), pa.binary())


def as_float(value: float) -> float:
    """Return a number that a float of 32 bits holds. Raises Unfit if it would be rounded."""
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        found = math.nan
    if found != value and not math.isnan(value):
        raise Unfit(f"{shown(value)} is not a float of 32 bits")
    return value


def fitted(kind: DecimalType, number: Decimal) -> Decimal:
    """Return a number with a type's scale. Raises Unfit if digits would be lost."""
    if not number.is_finite():
        raise Unfit(f"{number} is not a number")
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not number:
        return Decimal((0, (0,), -kind.scale))
    text = "".join(map(str, digits))
    zeros = len(text) - len(text.rstrip("0"))
    if -exponent - zeros > kind.scale:
        raise Unfit(f"{shown(number)} has more than the {kind.scale} digits after the point of {kind.simpleString()}")
    if len(text) + exponent > kind.precision - kind.scale:
        raise Unfit(f"{shown(number)} is out of the range of {kind.simpleString()}")
    return number.quantize(Decimal((0, (1,), -kind.scale)), context=EXACT)
