"""Columns converted by Python functions of Arrow arrays."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from kvorum.pipelines.formats.base import Coded

Arrays = Callable[["pa.Array[Any]"], "pa.Array[Any]"]


def by_rows(function: Arrays, kind: T.DataType, column: Column, what: str) -> Coded:
    """Return a column converted by a function that returns structs of value and error; `what` begins the messages."""

    def run(data: pa.Array) -> pa.Array:
        return function(data)

    result = T.StructType([T.StructField("value", kind), T.StructField("error", T.StringType())])
    made = arrow_udf(run, returnType=result)(column)  # type: ignore[call-overload]
    message = made.getField("error")
    wrong = column.isNotNull() & message.isNotNull()
    return Coded(column=made.getField("value"), wrong=wrong, message=F.concat(F.lit(f"{what}: "), message))
