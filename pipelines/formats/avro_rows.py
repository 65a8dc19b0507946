"""Avro by fastavro: what runs in Spark's Python workers, a batch of rows at a time.

Answers are structs of value and error, one of the two null. Nothing raises for a row.
"""

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

MESSAGE_MAX = 500
"""Letters of an error that are kept: some hold the whole datum."""


def decoded(writer: Any, reader: Any, kind: DataType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return what bytes say, as `kind`."""
    write_schema, read_schema = (fastavro.parse_schema(json.loads(json.dumps(one))) for one in (writer, reader))
    same = write_schema == read_schema
    arrow, normal = to_arrow_type(kind, timezone="UTC"), normaliser(kind)

    def one(datum: bytes) -> Any:
        found = fastavro.schemaless_reader(io.BytesIO(datum), write_schema, None if same else read_schema)
        return normal(found)

    return by_row(data, one, arrow)


def encoded(schema: Any, kind: DataType, data: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return values as bytes."""
    parsed, plain = fastavro.parse_schema(json.loads(json.dumps(schema))), with_dicts(kind)

    def one(value: Any) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, plain(value), strict_allow_default=True)
        return buffer.getvalue()

    return by_row(data, one, to_arrow_type(BinaryType()))


def by_row(data: "pa.Array[Any]", one: Callable[[Any], Any], arrow: pa.DataType) -> "pa.Array[Any]":
    """Return structs of value and error for a function of one value."""
    values, errors = list[Any](), list[str | None]()
    for item in data.to_pylist():
        value, error = None, None
        if item is not None:
            try:
                value = one(item)
            except Exception as caught:
                # A row's fault, whatever a library raises for it: it becomes the row's failure.
                error = f"{type(caught).__name__}: {caught}"[:MESSAGE_MAX]
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


def with_dicts(kind: DataType) -> Callable[[Any], Any]:
    """Return what turns Arrow's maps, which are lists of pairs in Python, into dictionaries."""
    match kind:
        case StructType():
            inner = {one.name: with_dicts(one.dataType) for one in kind.fields}
            return lambda value: None if value is None else {name: each(value[name]) for name, each in inner.items()}
        case ArrayType():
            item = with_dicts(kind.elementType)
            return lambda value: None if value is None else [item(one) for one in value]
        case MapType():
            entry = with_dicts(kind.valueType)
            return lambda value: None if value is None else {key: entry(one) for key, one in dict(value).items()}
        case _:
            return lambda value: value


def normaliser(kind: DataType) -> Callable[[Any], Any]:
    """Return what turns fastavro's values into Arrow's where they are not the same."""
    match kind:
        case StructType():
            inner = [(one.name, normaliser(one.dataType)) for one in kind.fields]
            return lambda value: None if value is None else {name: each(value.get(name)) for name, each in inner}
        case ArrayType():
            item = normaliser(kind.elementType)
            return lambda value: None if value is None else [item(one) for one in value]
        case MapType():
            entry = normaliser(kind.valueType)
            return lambda value: None if value is None else [(key, entry(one)) for key, one in value.items()]
        case StringType():
            return lambda value: None if value is None else str(value)
        case _:
            return lambda value: value
