"""Functions of records as Spark's expressions: what a user writes becomes a Column, never a Python call a record.

A function is either SQL (`"value.amount > 10"`; all columns of the record frame have their names) or a callable that
gets Columns and returns one. A callable of fewer arguments than there are gets the last of them, so that a function of
the value alone and one of key and value look as they do in Kafka: `lambda value: ...`, `lambda key, value: ...`.
"""

import inspect
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

Expression = str | Callable[..., Any]

RECORD = ("key", "value")
JOINED = ("key", "left", "right")


class TopologyError(Exception):
    """The topology cannot be built or run as it was written; the message names the node and the way out."""


def arity(function: Callable[..., Any]) -> int:
    """Return how many positional arguments a callable takes."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return 1
    needed = [each for each in parameters if each.kind in kinds and each.default is inspect.Parameter.empty]
    return len(needed) or sum(each.kind in kinds for each in parameters) or 1


def _result(function: Callable[..., Any], names: tuple[str, ...]) -> Any:
    """Call a function with the last of the columns of these names. Raises TopologyError if it takes more."""
    count = arity(function)
    if count > len(names):
        raise TopologyError(f"{function!r} takes {count} arguments, found {len(names)}")
    return function(*(F.col(name) for name in names[len(names) - count :]))


def column(function: Expression, names: tuple[str, ...] = RECORD) -> Column:
    """Return the Column that a function stands for; what it returns besides Columns is a constant."""
    return F.expr(function) if isinstance(function, str) else F.lit(_result(function, names))


def pair(function: Callable[..., Any]) -> dict[str, Column]:
    """Return the new key and the new value that a function of a record stands for. Raises TopologyError."""
    made = _result(function, RECORD)
    if not isinstance(made, tuple) or len(made) != 2:
        raise TopologyError(f"map's function returns a pair (key, value), not {type(made).__name__}")
    return {name: F.lit(each) for name, each in zip(RECORD, made, strict=True)}


def truth(function: Expression) -> Column:
    """Return a predicate, false where SQL has null."""
    return F.coalesce(column(function), F.lit(False))
