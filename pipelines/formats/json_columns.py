"""JSON records read a column at a time: the results of json_rows.Reader, at a fraction of its cost.

msgspec parses the texts. It takes the last of two equal names, and it does not read all that json_rows reads. Records
are therefore read here only if msgspec accepts each text, no text has more names than the objects made of it, and each
value either has a type that Arrow holds as it is or is converted by json_rows. Where one record of a few is not like
that, json_rows reads these few, and its result counts.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from kvorum.pipelines.faults import Unfit
from kvorum.pipelines.formats.json_rows import Number, Reader, as_text, payload
from kvorum.pipelines.formats.schemas import BITS

UNCHANGED: Final[dict[type[T.DataType], type]] = {
    T.BooleanType: bool,
    **dict.fromkeys(BITS, int),
    T.DoubleType: float,
    T.StringType: str,
}
"""Values that Arrow holds as they are; it refuses integers out of range."""
TIMES: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)
FLAT: Final[tuple[type[T.DataType], ...]] = (*UNCHANGED, *TIMES, T.FloatType, T.BinaryType, T.CharType, T.VarcharType)
HIDE_DIGITS: Final = (float, dict, list)
"""Without Number: values that no longer show how a number was written."""
TIMES_KEPT: Final = 10_000
FEW: Final = 100
"""Records that json_rows reads because of one of them."""
NAME: Final = re.compile(rb'"[ \t\r\n]*:')
PAYLOAD: Final = re.compile(rb'"payload"[ \t\r\n]*:')
QUOTE, COLON, BLANK = b'": '


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field of the records."""

    name: str
    unchanged: frozenset[type]
    doubtful: frozenset[type]
    convert: Callable[[Any], Any]
    """Of a time with a cache: the same time comes often."""
    arrow: pa.DataType

    def array(self, values: list[Any]) -> "pa.Array[Any]":
        """Return values as Arrow holds them. Raises an error if one is not certain to be what the reader returns."""
        kinds = set(map(type, values))
        if not kinds <= self.unchanged:
            if kinds & self.doubtful:
                raise Unfit("read by the reader")
            values = [value if type(value) in self.unchanged else self.convert(value) for value in values]
        return pa.array(values, self.arrow)


@dataclass(slots=True)
class ColumnReader:
    """Reads texts as `reader` does. It is pickled for the tasks, each of which prepares its own columns."""

    reader: Reader
    columns: list[Column] | None = None
    decode: Callable[[bytes], Any] | None = None

    def decoded(self, data: "pa.Array[Any]") -> "pa.Array[Any]":
        """Return what texts say, as structs of value and error: the same as reader.decoded(data)."""
        kind = self.reader.kind
        if not isinstance(kind, T.StructType) or not kind.names or len(set(kind.names)) < len(kind.names):
            return self.reader.decoded(data)
        if self.columns is None:
            is_flat = all(isinstance(field.dataType, FLAT) for field in kind.fields)
            self.columns = columns_of(self.reader, kind, is_flat)
            self.decode = msgspec.json.Decoder(float_hook=None if is_flat else Number).decode
        try:
            return self._certain(data)
        except Exception:  # whatever it is: the reader names the fault
            if len(data) <= FEW:
                return self.reader.decoded(data)
            return pa.concat_arrays([self.decoded(data.slice(at, FEW)) for at in range(0, len(data), FEW)])

    def _certain(self, data: "pa.Array[Any]") -> "pa.Array[Any]":
        """Return the result of `decoded`. Raises an error where it is not certain."""
        assert self.columns is not None and self.decode is not None
        texts: list[bytes] = data.drop_null().to_pylist()
        if self.reader.envelope and texts:
            texts = payloads(texts)
        rows = list(map(self.decode, texts))
        for row, text, names in zip(rows, texts, names_at_most(texts), strict=True):
            if type(row) is not dict or (len(row) != names and names_of(row) != len(NAME.findall(text))):
                raise Unfit("read by the reader")
        arrays = [column.array([row.get(column.name) for row in rows]) for column in self.columns]
        fields = list(to_arrow_type(as_text(self.reader.kind), timezone="UTC"))
        value = pa.StructArray.from_arrays(arrays, fields=fields)
        if data.null_count:
            present = count()
            value = value.take(pa.array([next(present) if valid else None for valid in data.is_valid().to_pylist()]))
        return pa.StructArray.from_arrays([value, pa.nulls(len(value), pa.string())], names=["value", "error"])


def payloads(texts: Sequence[bytes]) -> list[bytes]:
    """Return the payloads of Connect's envelopes. Raises Unfit if one does not begin as the first.

    Most records of a topic have the same schema, which is longer than the payload. It is parsed once.
    """
    found = PAYLOAD.search(texts[0])
    start = texts[0][: found.end()] if found else b""
    payload(start + b"null}")
    if not all(text.startswith(start) and text.endswith(b"}") for text in texts):
        raise Unfit("read by the reader")
    return [text[len(start) : -1] for text in texts]


def columns_of(reader: Reader, kind: T.StructType, is_flat: bool) -> list[Column]:
    """Return the fields with their conversions."""
    schemas = {one["field"]: one for one in (reader.schema or {}).get("fields", ())}
    columns = list[Column]()
    for field, arrow in zip(kind.fields, to_arrow_type(as_text(kind), timezone="UTC"), strict=True):
        schema = schemas.get(field.name)
        has_default = reader.defaults and schema is not None and schema.get("default") is not None
        takes_null = schema is None or (schema.get("optional") is True and not has_default)
        unchanged = [UNCHANGED[type(field.dataType)]] if type(field.dataType) in UNCHANGED else []
        convert = reader.convert(field.dataType, schema)
        hides_digits = is_flat and not isinstance(field.dataType, T.FloatType | T.DoubleType)
        columns.append(
            Column(
                name=field.name,
                unchanged=frozenset([*unchanged, type(None)] if takes_null else unchanged),
                doubtful=frozenset(HIDE_DIGITS if hides_digits else ()),
                convert=lru_cache(TIMES_KEPT, typed=True)(convert) if isinstance(field.dataType, TIMES) else convert,
                arrow=arrow.type,
            )
        )
    return columns


def names_at_most(texts: Sequence[bytes]) -> list[int]:
    """Return for each text an upper bound of its names: the quotes before a colon or a blank."""
    joined = np.frombuffer(b"".join([*texts, b"\0"]), np.uint8)
    following = joined[1:]
    closing = np.flatnonzero((joined[:-1] == QUOTE) & ((following == COLON) | (following <= BLANK)))
    ends = np.cumsum(list(map(len, texts)))
    found: list[int] = np.diff(np.searchsorted(closing, ends), prepend=0).tolist()
    return found


def names_of(value: Any) -> int:
    """Return the number of names in all objects of a value."""
    if type(value) is dict:
        return len(value) + sum(names_of(one) for one in value.values() if type(one) in (dict, list))
    return sum(names_of(one) for one in value if type(one) in (dict, list))
