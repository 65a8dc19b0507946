"""The transform `sql`: Spark SQL statements over the records of a batch.

A statement is `SELECT ... FROM records [WHERE ...]`. It is split into its columns and its condition, so that a record
keeps what the statement does not name, and a record that failed before stays a failed record.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, StringConstraints
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvorum.pipelines import frames
from kvorum.pipelines.faults import shown
from kvorum.pipelines.transforms.values import Change, TransformError, Value

TABLE: Final = "records"
FORM: Final = f"write SELECT ... FROM {TABLE} [WHERE ...]"
KEEP: Final = "keep"
CLASS: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")
"""Of a Spark error's text, not shown; nor is:"""
SQLSTATE: Final = re.compile(r"\.? SQLSTATE: \w{5};?")


def _statements(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Statement = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Statements = Annotated[list[Statement], Field(min_length=1), BeforeValidator(_statements)]


def sql(*, statements: Statements) -> list[Callable[[DataFrame], Change]]:
    """Return a change per statement, each over the result of the one before.

    Columns with a record's names replace the record's, others become fields of a new value. A tombstone stays one
    unless the statement selects `value` itself.
    """
    return [partial(_applied, number, statement) for number, statement in enumerate(statements, 1)]


def _applied(number: int, statement: str, frame: DataFrame) -> Change:
    try:
        return _change(frame, number, statement)
    except (PySparkException, TransformError) as error:
        short = shown(" ".join(statement.split()))
        line = str(error).strip().partition("\n")[0]
        raise TransformError(f"statement {number} ({short}): {SQLSTATE.sub('', CLASS.sub('', line))}") from error


def _change(frame: DataFrame, number: int, statement: str) -> Change:
    selected, condition = _parsed(frame.sparkSession, statement)
    found: dict[str, tuple[Column, T.DataType]] = {}
    (where,) = _fields(frame, condition)
    if not isinstance(where.dataType, T.BooleanType):
        raise TransformError(f"the condition is of type {where.dataType.simpleString()}, not boolean")
    errors = [_error(number, "the condition", condition)]
    for item in selected:
        made = _fields(frame, item)
        errors.append(_error(number, f"column {made.names[0]}", item))
        for field in made:
            if field.name in found:
                raise TransformError(f"two columns are named {field.name!r}; name one of them with AS")
            if not field.name.startswith("_"):  # _origin and _failure, which * selects
                found[field.name] = item.getField(field.name), field.dataType
    columns = {}
    for name in found.keys() & frames.COLUMNS.keys():
        column, kind = found.pop(name)
        kind = kind if name in frames.FREE else frames.COLUMNS[name]
        columns[name] = Value(column=column.cast(kind), type=kind)
    if found and "value" in columns:
        raise TransformError(f"the result has the column value; {', '.join(found)} cannot be fields of it")
    if found:
        value = F.struct(*(column.alias(name) for name, (column, _) in found.items()))
        kind = T.StructType([T.StructField(name, kind) for name, (_, kind) in found.items()])
        columns["value"] = Value(column=F.when(F.col("value").isNotNull(), value), type=kind)
    keep = F.coalesce(condition.getField(KEEP), condition.isNull())
    # Spark rejects here what a column alone does not show, as an aggregate function.
    frame.where(keep).select("*", *(value.column for value in columns.values()))
    return Change(columns=columns, keep=keep, errors=errors)


def _fields(frame: DataFrame, tried: Column) -> T.StructType:
    """Return the fields of a struct column; a `*` is several of them."""
    made = frame.select(tried.alias("item")).schema["item"].dataType
    assert isinstance(made, T.StructType), "a struct was selected"
    return made


def _error(number: int, what: str, tried: Column) -> Column:
    return F.when(tried.isNull(), f"sql: statement {number}: {what} cannot be computed")


def _parsed(spark: SparkSession, statement: str) -> tuple[list[Column], Column]:
    """Return the columns and the condition of a statement, each in a struct that is null if computing it fails.

    Raises TransformError, ParseException.
    """
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    convert = jvm.org.apache.spark.sql.classic.ExpressionUtils

    def tried(expression: Any, name: str | None = None) -> Column:
        column = Column(convert.column(expression))
        wrapped = F.struct(column if name is None else column.alias(name))
        return Column(
            convert.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(convert.expression(wrapped._jc)))
        )

    plan = session.sessionState().sqlParser().parsePlan(statement)
    if _node(plan) != "Project":
        raise TransformError(f"{_node(plan)} is not supported; {FORM}")
    items, source = plan.projectList(), plan.child()
    condition = convert.expression(F.lit(True)._jc)
    if _node(source) == "Filter":
        condition, source = source.condition(), source.child()
    if _node(source) != "UnresolvedRelation" or str(source.name()) != TABLE:
        raise TransformError(f"it reads something else than {TABLE}; {FORM}")
    return [tried(items.apply(index)) for index in range(items.size())], tried(condition, KEEP)


def _node(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())
