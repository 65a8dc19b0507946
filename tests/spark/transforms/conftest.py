"""Our answers to the cases of tests/spark/transforms/cases.py, worked out together: a job a few dozen cases."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.transforms.cases import CASES, Case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES_A_JOB = 24
"""A plan of more takes the planner longer than the job it saves."""

INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
"""Each case is a plan of its own for a handful of rows: to compile them all takes six times as long as to run them."""


@pytest.fixture(scope="session")
def our_answers(spark: "SparkSession") -> Mapping[str, Mapping[str, Any]]:
    """Return {case: {"records": [...]}}, or {"refused": why}, as Connect's answers are recorded."""
    answers: dict[str, dict[str, Any]] = {}
    raw = raw_frame(spark, CASES)
    read: dict[str, DataFrame] = {}
    frames: dict[str, DataFrame] = {}
    for case in CASES:
        schemas = json.dumps([case.key_schema, case.value_schema])
        if schemas not in read:
            read[schemas] = decoded(raw, case)
        try:
            frames[case.name] = transformed(read[schemas], case)
        except ValueError as error:
            answers[case.name] = {"refused": f"{type(error).__name__}: {error}"}
        else:
            answers[case.name] = {"records": [{"dropped": True} for _ in case.values]}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    for batch in batches(frames.values(), CASES_A_JOB):
        for row in reduce(lambda one, other: one.unionByName(other), batch).collect():
            answers[row["case"]]["records"][row["offset"] - 100] = (
                {"failed": row["failed"]}
                if row["failed"] is not None
                else {
                    "topic": row["topic"],
                    "key": row["key"],
                    "value": row["value"],
                    "headers": [
                        [name, None if value is None else bytes(value).decode()] for name, value in row["headers"]
                    ],
                }
            )
    for name in INTERPRETED:
        spark.conf.unset(name)
    raw.unpersist()
    return answers


def batches(items: Iterable["DataFrame"], size: int) -> Iterator[list["DataFrame"]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def raw_frame(spark: "SparkSession", cases: Sequence[Case]) -> "DataFrame":
    """Return all cases' records as they would come from a topic, with the case's name."""
    rows = [
        (
            case.name,
            None if record["key"] is None else bytearray(record["key"].encode()),
            None if record["value"] is None else bytearray(record["value"].encode()),
            record["topic"],
            record["partition"],
            record["offset"],
            moment(record["timestamp"]),
            0,
            [(name, None if value is None else bytearray(value.encode())) for name, value in record["headers"]],
        )
        for case in cases
        for record in case.records()
    ]
    schema = (
        "case string, key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
        "timestampType int, headers array<struct<key string, value binary>>"
    )
    return spark.createDataFrame(rows, schema).coalesce(1).cache()


def moment(millis: int | None) -> datetime | None:
    return None if millis is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def decoded(raw: "DataFrame", case: Case) -> "DataFrame":
    """Return all cases' records, read by one case's schemas: what is not of them fails, and is nobody's."""
    from kvorum.pipelines import formats, frames

    frame = raw
    for part, schema in (("key", case.key_schema), ("value", case.value_schema)):
        options: dict[str, Any] = {} if schema is None else {"schemas.enable": True, "schema": dict(schema)}
        frame = formats.converter("json", options).decode(frame, part)  # type: ignore[arg-type]
    assert frames.FAILURE in frame.columns
    return frame


def transformed(read: "DataFrame", case: Case) -> "DataFrame":
    """Return a case's records, transformed, and written again as JSON."""
    from pyspark.sql import functions as F

    from kvorum.pipelines import formats, frames

    frame = steps(case)(read.where(F.col("case") == case.name))
    for part in ("key", "value"):
        schemas = frame.schema[part].dataType.typeName() not in ("variant", "map")
        options = {"schemas.enable": schemas, "decimal.format": "NUMERIC"}
        frame = formats.converter("json", options).encode(frame, part)  # type: ignore[arg-type]
    texts = (F.col(name).cast("string").alias(name) for name in ("key", "value", "topic"))
    failed = F.col(f"{frames.FAILURE}.message").alias("failed")
    return frame.select("case", "offset", *texts, "headers", failed)


def steps(case: Case) -> Any:
    from kvorum.pipelines import spec, transforms

    said = {
        "name": "a",
        "source": {"type": "x"},
        "sink": {"type": "y"},
        "transforms": [dict(transform) for transform in case.transforms],
        "predicates": {name: dict(predicate) for name, predicate in case.predicates.items()},
    }
    made = spec.from_data(json.loads(json.dumps(said)))
    return transforms.build(made.transforms, made.predicates)
