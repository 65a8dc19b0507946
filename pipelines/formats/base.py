"""Common interface of formats: bytes to a value or a failure, and back.

A format converts one column. A value that it cannot read or write becomes null, with the row's `_failure`, and the row
stays in the stream. Null bytes are null in every format (a tombstone), and null is written as null bytes.

Some formats are functions of Arrow arrays, which run in Spark's Python workers, a row at a time. They return structs of
value and error, one of the two null. Times are integers on the way: Python's own types have fewer years than Spark's.
"""

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
from pydantic import BaseModel, ConfigDict
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from kvorum.pipelines import frames
from kvorum.pipelines.faults import Unfit, shown
from kvorum.pipelines.plugins import Part

STAGES: Final[Mapping[Part, str]] = {"key": frames.KEY_CONVERTER, "value": frames.VALUE_CONVERTER}
EXACT_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's options for text: its own default writes milliseconds only."""
MESSAGE_MAX: Final = 500
"""Characters of an error that are kept: some libraries put the whole value into it."""
EXACT: Final = Context(prec=20_000, Emax=10**6, Emin=-(10**6))
"""For decimals: results are not rounded. A JSON integer of more than 4300 digits is an error before."""
ARROW_ERRORS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Raised for a value that an Arrow type does not hold."""


class FormatError(ValueError):
    """A format that cannot be made, or cannot write the type it meets."""


@dataclass(frozen=True, slots=True)
class Coded:
    """The other form of a column."""

    column: Column
    error: Column | None = None
    """Why a value could not be converted, null where it could be; None: it always can."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Format(BaseModel):
    """A format; the fields of its model are its options. Unknown options are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    def read(self, column: Column, spark: SparkSession) -> Coded:
        """Return the values of bytes."""
        raise NotImplementedError

    def write(self, column: Column, field: T.StructField) -> Coded:
        """Return the bytes of values, whose type and metadata `field` has. Raises FormatError for other types."""
        raise NotImplementedError

    def decode(self, frame: DataFrame, column: Part) -> DataFrame:
        """Replace the bytes of `key` or `value` by their values."""
        kind = frame.schema[column].dataType
        if not isinstance(kind, T.BinaryType | T.StringType):
            raise FormatError(f"the {column} must be bytes to decode, not {kind.simpleString()}")
        return _replaced(frame, column, self.read(F.col(column).cast("binary"), frame.sparkSession))

    def encode(self, frame: DataFrame, column: Part) -> DataFrame:
        """Replace `key` or `value` by its bytes."""
        return _replaced(frame, column, self.write(F.col(column), frame.schema[column]))


def _replaced(frame: DataFrame, column: Part, coded: Coded) -> DataFrame:
    frame = frames.with_origin(frame)
    columns = {name: F.col(name) for name in frame.columns}
    columns[column] = coded.column.alias(column, metadata=dict(coded.metadata))
    if coded.error is not None:
        failure = frames.failure(frame, coded.error.isNotNull(), stage=STAGES[column], message=coded.error)
        # Not fenced, a filter of failures would be moved below this projection, with a second decoding of each record.
        columns[frames.FAILURE] = frames.fenced(failure).alias(frames.FAILURE)
    return frame.select(*columns.values())


# In Spark's Python workers


def by_rows(
    function: Callable[["pa.Array[Any]"], "pa.Array[Any]"], kind: T.DataType, column: Column, what: str
) -> Coded:
    """Return a column converted by a function that returns structs of value and error; `what` begins the messages."""

    def run(data: pa.Array) -> pa.Array:
        return function(data)

    result = T.StructType([T.StructField("value", kind), T.StructField("error", T.StringType())])
    made = arrow_udf(run, returnType=result)(column)  # type: ignore[call-overload]
    return Coded(made.getField("value"), F.concat(F.lit(f"{what}: "), made.getField("error")))


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
    try:
        array = pa.array(values, arrow)
    except ARROW_ERRORS:  # row by row, to fail those that do not fit
        for index, value in enumerate(values):
            try:
                pa.array([value], arrow)
            except ARROW_ERRORS as unfit:
                values[index], errors[index] = None, str(unfit)[:MESSAGE_MAX]
        array = pa.array(values, arrow)
    return pa.StructArray.from_arrays([array, pa.array(errors, pa.string())], names=["value", "error"])


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


def as_float(value: float) -> float:
    """Return a number that a float of 32 bits holds. Raises Unfit if it would be rounded."""
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        found = math.nan
    if found != value and not math.isnan(value):
        raise Unfit(f"{shown(value)} is not a float of 32 bits")
    return value


def fitted(kind: T.DecimalType, number: Decimal) -> Decimal:
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
