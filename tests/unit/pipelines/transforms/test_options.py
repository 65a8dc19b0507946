"""Options of transforms and predicates have Connect's keys: they are made from the parameters of functions."""

import pytest
from pydantic import ValidationError

from kvorum.pipelines import transforms

NULLS = "replace.null.with.default"
KEYS = {
    "transform.InsertField": [
        "offset.field", "partition.field", NULLS, "static.field", "static.value", "timestamp.field", "topic.field",
    ],
    "transform.ReplaceField": ["exclude", "include", "renames", NULLS],
    "transform.MaskField": ["fields", NULLS, "replacement"],
    "transform.ValueToKey": ["fields", NULLS],
    "transform.HoistField": ["field"],
    "transform.ExtractField": ["field", "field.syntax.version", NULLS],
    "transform.SetSchemaMetadata": [NULLS, "schema.name", "schema.version"],
    "transform.TimestampRouter": ["timestamp.format", "topic.format"],
    "transform.RegexRouter": ["regex", "replacement"],
    "transform.Filter": [],
    "transform.Cast": [NULLS, "spec"],
    "transform.Flatten": ["delimiter", NULLS],
    "transform.TimestampConverter": ["field", "format", NULLS, "target.type", "unix.precision"],
    "transform.DropHeaders": ["headers"],
    "transform.InsertHeader": ["header", "value.literal"],
    "transform.HeaderFrom": ["fields", "headers", "operation", NULLS],
    "transform.sql": ["statements"],
    "predicate.TopicNameMatches": ["pattern"],
    "predicate.HasHeaderKey": ["name"],
    "predicate.RecordIsTombstone": [],
}  # fmt: skip


def test_keys_are_connects() -> None:
    found = {name: sorted(str(one.alias) for one in m.model_fields.values()) for name, m in transforms.models().items()}
    assert found == {name: sorted(keys) for name, keys in KEYS.items()}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("InsertField", {"topic_field": "t"}, "topic_field\n  Extra inputs are not permitted"),
        ("InsertField", {}, "no field to insert; set one of the *.field options"),
        ("InsertField", {"topic.field": ""}, "no field to insert"),
        ("InsertField", {"static.field": "a"}, "static.field needs static.value"),
        ("ReplaceField", {"renames": "a:b,c"}, "'c' is not of the form old:new"),
        ("MaskField", {"fields": " , "}, "List should have at least 1 item"),
        ("MaskField", {"fields": "a", "replacement": ""}, "String should have at least 1 character"),
        ("Cast", {"spec": "a:int"}, "'int' is not one of int8, int16"),
        ("Cast", {"spec": "int8,int16"}, "give one type for the whole value, or field:type for each field"),
        ("TimestampConverter", {"target.type": "string"}, "a format is needed to write text"),
        ("TimestampConverter", {"target.type": "unix", "format": "YYYY"}, "depends on the machine's locale"),
        ("RegexRouter", {"regex": "(", "replacement": ""}, "is not a regular expression"),
        ("HeaderFrom", {"fields": "a,b", "headers": "h", "operation": "copy"}, "2 fields cannot become 1 headers"),
        ("InsertHeader", {"header": "", "value.literal": 1}, "String should have at least 1 character"),
        ("sql", {"statements": " "}, "String should have at least 1 character"),
    ],
)
def test_options_that_are_wrong_are_rejected(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        transforms.models()[f"transform.{name}"].model_validate(options)
    assert message in str(caught.value)


def test_lists_and_texts_are_taken_as_connect_and_yaml_write_them() -> None:
    models = transforms.models()
    cast = models["transform.Cast"].model_validate({"spec": {"a": "int8", "b": "string"}})
    assert dict(cast)["spec"] == ["a:int8", "b:string"]
    assert dict(models["transform.DropHeaders"].model_validate({"headers": "a, b"}))["headers"] == ["a", "b"]
    inserted = models["transform.InsertField"].model_validate({"static.field": "f!", "static.value": True})
    assert (dict(inserted)["static_field"], dict(inserted)["static_value"]) == ("f", "true")
    assert dict(inserted)["replace_null_with_default"] is True
