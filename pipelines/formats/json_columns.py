"""JSON records read a column at a time: the results of json_rows.Reader, at a fraction of its cost.

msgspec parses the texts. It takes the last of two equal names, and it does not read all that json_rows reads. A record
is therefore doubtful unless msgspec accepts its text, the text has no more names than the objects made of it, and each
value either has a type that Arrow holds as it is or is converted by json_rows. Doubtful records are read again by
json_rows, whose result counts.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from kvorum.pipelines.faults import Unfit
from kvorum.pipelines.formats.json_rows import Number, Reader, as_text, payload
from kvorum.pipelines.formats.rows import ARROW_ERRORS
from kvorum.pipelines.formats.schemas import BITS

Texts = list[bytes | None]
Rows = list[dict[str, Any]]

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
NAME: Final = re.compile(rb'"[ \t\r\n]*:')
PAYLOAD: Final = re.compile(rb'"payload"[ \t\r\n]*:')
QUOTE, COLON, BLANK = b'": '


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field of the records."""

    name: str
    kind: T.DataType
    unchanged: frozenset[type]
    convert: Callable[[Any], Any]
    """Of a time with a cache: the same time comes often."""
    arrow: pa.DataType


@dataclass(slots=True)
class ColumnReader:
    """Reads texts as `reader` does. It is pickled for the tasks, each of which prepares its own columns."""

    reader: Reader
    columns: list[Column] | None = None
    is_flat: bool = False

    def decoded(self, data: "pa.Array[Any]") -> "pa.Array[Any]":
        """Return what texts say, as structs of value and error: the same as reader.decoded(data)."""
        kind = self.reader.kind
        if not isinstance(kind, T.StructType) or not kind.names or len(set(kind.names)) < len(kind.names):
            return self.reader.decoded(data)
        if self.columns is None:
            self.is_flat = all(isinstance(field.dataType, FLAT) for field in kind.fields)
            self.columns = columns_of(self.reader, kind)
        whole: Texts = data.to_pylist()
        texts = payloads(whole) if self.reader.envelope else whole
        nulls = {index for index, text in enumerate(whole) if text is None} if data.null_count else set[int]()
        rows, doubtful = parsed_rows(texts, None if self.is_flat else Number)
        doubtful -= nulls
        lists = [[row.get(column.name) for row in rows] for column in self.columns]
        for column, values in zip(self.columns, lists, strict=True):
            convert_values(column, values, self.is_flat, doubtful, nulls)
        return self.joined(data, arrays_of(self.columns, lists, doubtful), doubtful, nulls)

    def joined(
        self, data: "pa.Array[Any]", arrays: list["pa.Array[Any]"], doubtful: set[int], nulls: set[int]
    ) -> "pa.Array[Any]":
        """Return the results of all texts, doubtful ones read by the reader."""
        certain = [index for index in range(len(data)) if index not in doubtful] if doubtful or nulls else []
        mask = pa.array([index in nulls for index in certain]) if nulls else None
        fields = list(to_arrow_type(as_text(self.reader.kind), timezone="UTC"))
        value = pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)
        read = pa.StructArray.from_arrays([value, pa.nulls(len(value), pa.string())], names=["value", "error"])
        if not doubtful:
            return read
        again = sorted(doubtful)
        order = np.empty(len(data), np.int64)
        order[certain] = np.arange(len(read))
        order[again] = np.arange(len(read), len(data))
        return pa.concat_arrays([read, self.reader.decoded(data.take(pa.array(again)))]).take(pa.array(order))


def payloads(texts: Texts) -> Texts:
    """Return the payloads of Connect's envelopes; None where one does not begin as the first, or its payload is first.

    Most records of a topic have the same schema, which is longer than the payload. It is parsed once.
    """
    found = PAYLOAD.search(next(filter(None, texts), b""))
    start = found.string[: found.end()] if found else b""
    try:
        payload(start + b"null}")
    except Unfit:
        return [None] * len(texts)
    size = len(start)
    return [text[size:-1] if text and text.startswith(start) and text.endswith(b"}") else None for text in texts]


def columns_of(reader: Reader, kind: T.StructType) -> list[Column]:
    """Return the fields with their conversions."""
    schemas = {one["field"]: one for one in (reader.schema or {}).get("fields", ())}
    columns = list[Column]()
    for field, arrow in zip(kind.fields, to_arrow_type(as_text(kind), timezone="UTC"), strict=True):
        schema = schemas.get(field.name)
        has_default = reader.defaults and schema is not None and schema.get("default") is not None
        takes_null = schema is None or (schema.get("optional") is True and not has_default)
        unchanged = [UNCHANGED[type(field.dataType)]] if type(field.dataType) in UNCHANGED else []
        convert = reader.convert(field.dataType, schema)
        columns.append(
            Column(
                name=field.name,
                kind=field.dataType,
                unchanged=frozenset([*unchanged, type(None)] if takes_null else unchanged),
                convert=lru_cache(TIMES_KEPT, typed=True)(convert) if isinstance(field.dataType, TIMES) else convert,
                arrow=arrow.type,
            )
        )
    return columns


def parsed_rows(texts: Texts, float_hook: Callable[[str], Any] | None) -> tuple[Rows, set[int]]:
    """Return the objects and the indexes of doubtful texts, for which there is an empty object."""
    decode = msgspec.json.Decoder(float_hook=float_hook).decode
    rows, doubtful = list[Any](), set[int]()
    try:
        rows = list(map(decode, texts))  # type: ignore[arg-type]  # None raises, and is found below
    except Exception:
        rows = [_decoded_or_none(decode, text) for text in texts]
    for index, (row, count) in enumerate(zip(rows, names_at_most(texts), strict=True)):
        if type(row) is not dict or (len(row) != count and names_of(row) != len(NAME.findall(texts[index] or b""))):
            doubtful.add(index)
            rows[index] = {}
    return rows, doubtful


def _decoded_or_none(decode: Callable[[Any], Any], text: bytes | None) -> Any:
    try:
        return None if text is None else decode(text)
    except Exception:  # whatever it is: the reader reads the text again and names the fault
        return None


def names_at_most(texts: Texts) -> list[int]:
    """Return for each text an upper bound of its names: the quotes before a colon or a blank."""
    present = [text or b"" for text in texts]
    joined = np.frombuffer(b"".join([*present, b"\0"]), np.uint8)
    following = joined[1:]
    closing = np.flatnonzero((joined[:-1] == QUOTE) & ((following == COLON) | (following <= BLANK)))
    ends = np.cumsum(list(map(len, present)))
    found: list[int] = np.diff(np.searchsorted(closing, ends), prepend=0).tolist()
    return found


def names_of(value: Any) -> int:
    """Return the number of names in all objects of a value."""
    if type(value) is dict:
        return len(value) + sum(names_of(one) for one in value.values() if type(one) in (dict, list))
    return sum(names_of(one) for one in value if type(one) in (dict, list))


def convert_values(column: Column, values: list[Any], is_flat: bool, doubtful: set[int], nulls: set[int]) -> None:
    """Replace a field's values by what Arrow takes; rows whose value cannot be converted become doubtful."""
    kinds = set(map(type, values))
    if kinds <= column.unchanged:
        return
    hidden = HIDE_DIGITS if is_flat and not isinstance(column.kind, T.FloatType | T.DoubleType) else ()
    if kinds.isdisjoint(hidden):
        with suppress(Exception):  # raised again below, where its row is known
            values[:] = [value if type(value) in column.unchanged else column.convert(value) for value in values]
            return
    for index, value in enumerate(values):
        if type(value) in column.unchanged or index in doubtful or index in nulls:
            continue
        values[index] = None
        if type(value) in hidden:
            doubtful.add(index)
            continue
        try:
            values[index] = column.convert(value)
        except Exception:  # the reader reads the text again and names the fault
            doubtful.add(index)


def arrays_of(columns: list[Column], lists: list[list[Any]], doubtful: set[int]) -> list["pa.Array[Any]"]:
    """Return Arrow arrays without doubtful rows; rows with a value that Arrow does not hold become doubtful."""
    while True:
        wanted = [index not in doubtful for index in range(len(lists[0]))] if doubtful else None
        arrays = list["pa.Array[Any]"]()
        for column, values in zip(columns, lists, strict=True):
            try:
                arrays.append(pa.array(values if wanted is None else list(compress(values, wanted)), column.arrow))
            except ARROW_ERRORS:
                doubtful.update(index for index, value in enumerate(values) if not _is_held(value, column.arrow))
                break
        else:
            return arrays


def _is_held(value: Any, arrow: pa.DataType) -> bool:
    try:
        pa.array([value], arrow)
    except ARROW_ERRORS:
        return False
    return True
