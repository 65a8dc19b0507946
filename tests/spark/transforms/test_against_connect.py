"""Our transforms' answers are Connect's own, which were recorded (tests/spark/transforms/connect/record.py)."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.transforms.cases import CASES, Case

pytestmark = pytest.mark.long

EXPECTED: Mapping[str, Any] = json.loads(Path(__file__, "../connect/expected.json").resolve().read_text())["answers"]

LENIENT = "SimpleDateFormat is lenient"
DIFFERENT: Mapping[str, str] = {
    "Flatten: with a map": "Connect refuses records with maps; here a map stays as it is",
    "Cast$Value spec=string of Timestamp": "Connect leaves the schema a Timestamp's, which no converter can write",
    "TimestampConverter$Value target.type=unix format=yyyyMMddHHmmss of string": LENIENT,
    "TimestampConverter$Value target.type=unix format=dd MMM yyyy of string": LENIENT,
    "TimestampConverter$Value target.type=unix format=yyyy-MM-dd of string": LENIENT,
}
"""{case: why}: each stands in docs/pipelines/transforms.md. A case that is not different any more has to go."""


def read(text: str | None) -> Any:
    """Return JSON that compares: an envelope as (types, payload), numbers exactly, no value as None."""
    if text is None:
        return None, None
    data = json.loads(text, parse_float=lambda number: Decimal(number).normalize() + 0)
    if isinstance(data, dict) and set(data) == {"schema", "payload"}:
        return (types(data["schema"]), data["payload"]) if data["payload"] is not None else (None, None)
    return None, data


def types(schema: Mapping[str, Any] | None) -> Any:
    """Return a schema's types, names and order; whether something may be null is not Spark's to say."""
    if schema is None:
        return None
    inner = [(one["field"], types(one)) for one in schema.get("fields", ())]
    more = [types(schema[part]) for part in ("items", "keys", "values") if part in schema]
    named = schema.get("name"), schema.get("version") if schema.get("name") else None
    return schema["type"], named, inner, more


def comparable(record: Mapping[str, Any], other: Mapping[str, Any]) -> Any:
    """Return a record that compares. What has no schema at one side is compared without it at the other."""
    if "failed" in record or "dropped" in record:
        return "failed" if "failed" in record else "dropped"
    parts = []
    for part in ("key", "value"):
        kind, payload = read(record[part])
        parts.append((kind if part in other and read(other[part])[0] is not None else None, payload))
    return record["topic"], parts, record["headers"]


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[tuple[int, Any, Any]]:
    """Return (index of the record, ours, theirs). What is refused as a whole is as good as all records failing."""
    if "refused" in ours or "refused" in theirs:
        failing = [all("failed" in one for one in side.get("records", ())) for side in (ours, theirs)]
        return [] if all(failing) else [(-1, ours, theirs)]
    found = []
    for index, (one, other) in enumerate(zip(ours["records"], theirs["records"], strict=True)):
        if comparable(one, other) != comparable(other, one):
            found.append((index, one, other))
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_our_answer_is_connects(case: Case, our_answers: Mapping[str, Any]) -> None:
    found = differences(our_answers[case.name], EXPECTED[case.name])
    if case.name in DIFFERENT:
        assert found, "not different any more: it should leave DIFFERENT and the docs"
    else:
        assert not found, found


def test_differences_are_of_cases_there_are() -> None:
    assert set(DIFFERENT) <= {case.name for case in CASES}
