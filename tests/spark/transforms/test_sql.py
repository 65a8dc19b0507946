"""The transform `sql`: which columns of a record a statement changes, and how its errors read."""

from typing import TYPE_CHECKING, Any

import pytest

from kvorum.pipelines import frames, spec, transforms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long


def applied(frame: "DataFrame", *statements: str, **more: Any) -> "DataFrame":
    pipeline = spec.from_data(
        {
            "name": "a",
            "source": {"type": "x"},
            "sink": {"type": "y"},
            "transforms": [{"type": "sql", "statements": list(statements), **more}],
            "predicates": {"odd": {"type": "TopicNameMatches", "pattern": "odd"}},
        }
    )
    return transforms.build(pipeline.transforms, pipeline.predicates)(frame)


def rows(frame: "DataFrame") -> dict[int, tuple[Any, ...]]:
    found = frame.select("offset", "topic", "key", "value", "timestamp").collect()
    return {
        row["offset"]: (row["topic"], row["key"], row["value"] and tuple(row["value"]), row["timestamp"].year)
        for row in found
    }


def test_statements_change_what_they_name_and_nothing_else(spark: "SparkSession") -> None:
    source = spark.createDataFrame(
        [("orders", 1, (5, "1.5")), ("odd", 2, (6, None)), ("orders", 3, None)],
        "topic string, offset long, value struct<id bigint, text string>",
    )
    source = source.selectExpr("*", "timestamp '2020-02-29 12:00:00' AS timestamp", "cast('k' AS binary) AS key")
    records = frames.record_frame(source)
    key = b"k"

    fields = applied(records, "SELECT value.id * 2 AS twice, upper(topic) AS origin FROM records")
    assert fields.schema["value"].dataType.simpleString() == "struct<twice:bigint,origin:string>"
    assert rows(fields) == {
        1: ("orders", key, (10, "ORDERS"), 2020),
        2: ("odd", key, (12, "ODD"), 2020),
        3: ("orders", key, None, 2020),
    }, "a tombstone stays one"
    routed = applied(records, "SELECT concat('x-', topic) AS topic FROM records WHERE value.id > 5;")
    assert rows(routed) == {2: ("x-odd", key, (6, None), 2020)}, "a condition that is null is not true"
    assert rows(applied(records, "SELECT * FROM records")) == rows(records)
    several = applied(
        records,
        "SELECT value.*, try_cast(value.text AS DOUBLE) AS number FROM records WHERE value IS NOT NULL",
        "SELECT value.id AS key, struct(value.number AS n) AS value FROM records WHERE value.number > 1",
    )
    assert rows(several) == {1: ("orders", 5, (1.5,), 2020)}
    some = applied(records, "SELECT 0L AS id, value.text FROM records", predicate="odd")
    assert [row[2] for row in rows(some).values()] == [(5, "1.5"), (0, None), None]

    bad = frames.with_failure(
        frames.with_origin(records), records["offset"] == 1, stage=frames.VALUE_CONVERTER, message="unreadable"
    )
    made = applied(bad, "SELECT value.id FROM records WHERE value.id = 6")
    assert [row["offset"] for row in frames.well(made).collect()] == [2]
    (failed,) = frames.failed(made).collect()
    assert failed["offset"] == 1 and failed["_failure"]["message"] == "unreadable" and failed["_origin"]["key"] == key

    computed = applied(
        records,
        "SELECT * FROM records",
        "SELECT cast(value.text AS INT) + cast(value.text AS INT) AS n FROM records WHERE 1 / (value.id - 6) < 9",
    )
    assert {row["offset"]: row["_failure"] and row["_failure"]["message"] for row in computed.collect()} == {
        1: "sql: statement 2: column n cannot be computed",
        2: "sql: statement 2: the condition cannot be computed",
    }, "a record fails, not the pipeline"

    form = "; write SELECT ... FROM records [WHERE ...]"
    for statement, reason in (
        ("SELEC x", "Syntax error at or near 'SELEC' (line 1, pos 0)"),
        ("SELECT value.nam FROM records", "No such struct field `nam` in `id`, `text` line 1 pos 7"),
        ("SELECT 1 AS a FROM records WHERE topic", "the condition is of type string, not boolean"),
        ("SELECT count(*) AS n FROM records", "The query does not include a GROUP BY clause"),
        ("SELECT key FROM records GROUP BY key", f"Aggregate is not supported{form}"),
        ("SELECT key FROM others", f"it reads something else than records{form}"),
        ("SELECT value.id, 1 AS id FROM records", "two columns are named 'id'; name one of them with AS"),
        ("SELECT value, 1 AS n FROM records", "the result has the column value; n cannot be fields of it"),
    ):
        with pytest.raises(ValueError, match="statement 2") as caught:
            applied(records, "SELECT * FROM records", statement)
        said = str(caught.value)
        assert said.startswith(f"transforms[0] sql: statement 2 ({statement}): {reason}"), said
        assert "\n" not in said and "SQLSTATE" not in said
