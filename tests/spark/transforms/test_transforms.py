"""What Connect's answers do not tell of our transforms: their plans, failures, predicates over structs, refusals."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

EVERYTHING: list[dict[str, Any]] = [
    {
        "type": "InsertField$Value",
        "topic.field": "from",
        "timestamp.field": "at",
        "static.field": "s",
        "static.value": "x",
    },
    {"type": "Cast$Value", "spec": "id:int32,text:float64"},
    {"type": "MaskField$Value", "fields": "secret"},
    {"type": "ReplaceField$Value", "renames": "s:source", "exclude": "none"},
    {"type": "TimestampConverter$Value", "field": "at", "target.type": "string", "format": "yyyy-MM-dd HH:mm:ss.SSS"},
    {"type": "TimestampConverter$Value", "field": "day", "target.type": "Timestamp", "format": "yyyy/MM/dd"},
    {"type": "HeaderFrom$Value", "fields": "secret", "headers": "h", "operation": "move"},
    {"type": "InsertHeader", "header": "i", "value.literal": "1"},
    {"type": "DropHeaders", "headers": "i"},
    {"type": "ValueToKey", "fields": "id"},
    {"type": "ExtractField$Key", "field": "id"},
    {"type": "HoistField$Key", "field": "key"},
    {"type": "Flatten$Value", "delimiter": "_"},
    {"type": "SetSchemaMetadata$Value", "schema.name": "n"},
    {"type": "RegexRouter", "regex": "(.*)", "replacement": "$1-out"},
    {"type": "TimestampRouter"},
    {"type": "Filter", "predicate": "skipped"},
]
PREDICATES = {
    "skipped": {"type": "HasHeaderKey", "name": "skip"},
    "odd": {"type": "TopicNameMatches", "pattern": "odd"},
}


def build(*steps: dict[str, Any]) -> Any:
    from kvorum.pipelines import spec, transforms

    said = {
        "name": "a",
        "source": {"type": "x"},
        "sink": {"type": "y"},
        "transforms": list(steps),
        "predicates": PREDICATES,
    }
    made = spec.from_data(said)
    return transforms.build(made.transforms, made.predicates)


@pytest.fixture(scope="module")
def records(spark: "SparkSession") -> "DataFrame":
    """Return records with a schema; the third's text is no number, the fourth is a tombstone."""
    from kvorum.pipelines import frames

    rows = [
        ("orders", 1, ("k", 5, "1.5", "s3cret", "2020/02/29", {"a": 1})),
        ("odd", 2, ("k", 6, None, None, None, None)),
        ("orders", 3, ("k", 7, "x", "s", "2020/01/01", {"a": 2})),
        ("orders", 4, None),
    ]
    kind = "struct<name string, id bigint, text string, secret string, day string, inner struct<a int>>"
    frame = spark.createDataFrame(rows, f"topic string, offset long, value {kind}")
    return frames.record_frame(
        frame.selectExpr("*", "timestamp '2020-02-29 23:59:59.123' as timestamp", "cast('k' as binary) as key")
    )


def test_a_chain_of_five_is_a_plan_without_python(records: "DataFrame") -> None:
    frame = build(*EVERYTHING[:5])(records.where("value is not null"))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Project" in plan
    assert not [word for word in ("Python", "Pandas", "ArrowEval", "BatchEval", "UDF") if word in plan], plan
    assert frame.count() > 0


def test_no_row_leaves_the_jvm(records: "DataFrame") -> None:
    """All transforms in one plan, with a schema and without one; run compiled, as pipelines run."""
    from pyspark.sql import functions as F

    with_schema = build(*EVERYTHING)(records.where("value is not null"))
    loose = records.withColumn("value", F.to_variant_object("value"))
    without = build(*(step for step in EVERYTHING if step["type"] not in ("Flatten$Value", "SetSchemaMetadata$Value")))(
        loose
    )
    for frame in (with_schema, without):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "Project" in plan
        assert not [word for word in ("Python", "Pandas", "ArrowEval", "BatchEval", "UDF") if word in plan], plan
    rows = {row["offset"]: row for row in with_schema.collect()}
    assert rows[1]["value"].asDict(recursive=True) == {
        "name": "k",
        "id": 5,
        "text": 1.5,
        "day": rows[1]["value"]["day"],
        "inner_a": 1,
        "from": "orders",
        "at": "2020-02-29 23:59:59.123",
        "source": "x",
    }
    assert rows[1]["topic"] == "orders-out-20200229" and rows[1]["key"].asDict() == {"key": 5}
    assert [(header["key"], bytes(header["value"])) for header in rows[1]["headers"]] == [("h", b"")]
    assert rows[3]["_failure"]["message"] == "Cast: 'text' cannot become double"
    assert with_schema.schema["value"].metadata == {"connect.name": "n"}


def test_a_failure_keeps_where_the_record_came_from(records: "DataFrame") -> None:
    """The first failure stands; topic, key and bytes are what they were before any transform."""
    from pyspark.sql import functions as F

    from kvorum.pipelines import frames

    step = build(
        {"type": "RegexRouter", "regex": ".*", "replacement": "elsewhere"},
        {"type": "Cast$Value", "spec": "text:int8"},
        {"type": "ValueToKey", "fields": "id"},
    )
    frame = step(records)
    failed = {
        row["offset"]: row
        for row in frames.failed(frame).select("*", frames.origin(frame, "topic").alias("was")).collect()
    }
    assert {offset: row["_failure"]["message"] for offset, row in failed.items()} == {
        1: "Cast: 'text' cannot become tinyint",
        3: "Cast: 'text' cannot become tinyint",
        4: "ValueToKey: the value is null",
    }
    assert failed[1]["was"] == "orders" and failed[1]["topic"] == "elsewhere"
    assert failed[1]["_failure"]["stage"] == "TRANSFORMATION" and bytes(failed[1]["_failure"]["key"]) == b"k"
    assert [row["offset"] for row in frames.well(frame).collect()] == [2]
    with pytest.raises(
        Exception, match=r"TRANSFORMATION: .*DataException: Cast: 'text' cannot become tinyint \(record orders"
    ):
        frames.first_failed(frame.where("offset = 1")).select(F.count("*")).collect()


def test_what_a_predicate_leaves_out_has_null_in_new_fields(records: "DataFrame") -> None:
    frame = build(
        {"type": "InsertField$Value", "static.field": "s", "static.value": "x", "predicate": "odd"},
        {"type": "ReplaceField$Value", "exclude": "day,inner", "predicate": "odd", "negate": True},
    )(records.select(*records.columns))
    rows = {row["offset"]: row["value"] for row in frame.collect()}
    assert rows[4] is None and rows[1]["s"] is None and rows[1]["day"] is None and rows[2]["s"] == "x"
    assert frame.schema["value"].dataType.fieldNames() == ["name", "id", "text", "secret", "day", "inner", "s"]


def test_a_packages_transform_goes_by_predicates_too(records: "DataFrame", monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for which the predicate does not hold go past it, even when it makes more records of one."""
    from kvorum.pipelines import plugins

    def make(options: dict[str, Any], part: str | None) -> Any:
        assert options == {"times": 2} and part == "value"
        return lambda frame: frame.unionByName(frame)

    monkeypatch.setattr(plugins, "transform", lambda name: make if name == "Twice" else None)
    frame = build({"type": "Twice$Value", "times": 2, "predicate": "odd"})(records)
    assert sorted(row["offset"] for row in frame.select("offset").collect()) == [1, 2, 2, 3, 4]


def test_nulls_become_defaults_unless_told_otherwise(spark: "SparkSession") -> None:
    from kvorum.pipelines import formats, frames

    schema = {"type": "struct", "fields": [{"field": "a", "type": "int32", "optional": True, "default": 7}]}
    raw = frames.record_frame(spark.createDataFrame([(b'{"schema":{},"payload":{"a":null}}',)], "value binary"))
    options = {"schemas.enable": True, "schema": schema, "replace.null.with.default": False}
    read = formats.converter("json", options).decode(raw, "value")
    kept = build({"type": "ReplaceField$Value", "renames": "a:b", "replace.null.with.default": False})(read)
    filled = build({"type": "ReplaceField$Value", "renames": "a:b"})(read)
    rows = kept.select("value.b").unionByName(filled.select("value.b")).collect()
    assert [row["b"] for row in rows] == [None, 7]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"type": "ExtractField$Value", "field": "nam"}, "there is no field 'nam'; there are name, id"),
        ({"type": "ValueToKey", "fields": "nam"}, "the value has no field 'nam'; it has name, id"),
        ({"type": "MaskField$Value", "fields": "secrte"}, "the value has no field 'secrte'; it has name, id"),
        ({"type": "MaskField$Value", "fields": "inner"}, "cannot mask 'inner' of type struct<a:int>"),
        ({"type": "MaskField$Value", "fields": "id", "replacement": "x"}, "'x' is not of type bigint"),
        ({"type": "InsertField$Value", "topic.field": "id"}, "the field 'id' would exist twice"),
        ({"type": "Cast$Value", "spec": "inner:string"}, "'inner' of type struct<a:int> cannot become string"),
        (
            {"type": "TimestampConverter$Value", "field": "day", "target.type": "unix"},
            "a format is needed to read text",
        ),
        ({"type": "ExtractField$Value", "field": "id", "predicate": "odd"}, "would be both struct"),
        ({"type": "ReplaceField$Value", "include": "none"}, "no field would remain"),
        ({"type": "InsertField$Key", "topic.field": "t"}, "InsertField needs fields; the type is binary"),
    ],
)
def test_what_cannot_work_on_a_type_is_refused_with_the_plan(
    records: "DataFrame", step: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r"transforms\[0\]") as caught:
        build(step)(records)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"type": "InsertField", "topic.field": "t"}, r"write InsertField\$Key or InsertField\$Value"),
        ({"type": "ValueToKey$Value", "fields": "a"}, r"ValueToKey has no \$Key and \$Value"),
        ({"type": "InsertField$Value"}, "no field to insert"),
        ({"type": "InsertField$Value", "static.field": "a"}, "static.field needs static.value"),
        ({"type": "Cast$Value", "spec": "a:int"}, "'int' is not one of int8"),
        ({"type": "TimestampConverter$Value", "target.type": "string"}, "a format is needed to write text"),
        (
            {"type": "TimestampConverter$Value", "target.type": "unix", "format": "YYYY"},
            "depends on the machine's locale",
        ),
        ({"type": "RegexRouter", "regex": "(", "replacement": "x"}, "is not a regular expression"),
        (
            {"type": "HeaderFrom$Value", "fields": "a,b", "headers": "h", "operation": "copy"},
            "2 fields cannot become 1",
        ),
        ({"type": "DropHeaders", "header": "h"}, "header: Extra inputs"),
        ({"type": "Nothing"}, "Nothing"),
    ],
)
def test_options_that_are_not_right_are_refused(spark: "SparkSession", step: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        build(step)
