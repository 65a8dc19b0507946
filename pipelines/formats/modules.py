"""Which of Spark's optional modules are there, and the Arrow functions that stand in for those that are not."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, StringType, StructField, StructType

from kvorum.pipelines.formats.base import Coded

Arrays = Callable[["pa.Array[Any]"], "pa.Array[Any]"]


def has(spark: SparkSession, name: str) -> bool:
    """Tell whether a Java class is there. A session without a JVM of its own has none."""
    jvm = getattr(spark, "_jvm", None)
    return jvm is not None and type(getattr(jvm, name)).__name__ == "JavaClass"


def by_rows(function: Arrays, kind: DataType, column: Column, what: str) -> Coded:
    """Return a column converted by a function of Arrow arrays, which answers structs of value and error."""

    def run(data: pa.Array) -> pa.Array:
        return function(data)

    result = StructType([StructField("value", kind), StructField("error", StringType())])
    made = arrow_udf(run, returnType=result)(column)  # type: ignore[call-overload]
    message = made.getField("error")
    wrong = column.isNotNull() & message.isNotNull()
    return Coded(column=made.getField("value"), wrong=wrong, message=F.concat(F.lit(f"{what}: "), message))
