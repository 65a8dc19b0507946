"""The generator's options for Spark's reader."""

from types import SimpleNamespace
from typing import Any, cast

from kvorum.pipelines.sources.generator import GeneratorOptions, reader_of


class Reader:
    """Notes the format and the options that it is given."""

    def __init__(self) -> None:
        self.given: dict[str, object] = {}

    def format(self, name: str) -> "Reader":
        self.given["format"] = name
        return self

    def option(self, key: str, value: object) -> "Reader":
        self.given[key] = value
        return self


def given(**options: Any) -> dict[str, object]:
    spark = cast(Any, SimpleNamespace(readStream=Reader()))
    reader: Reader = cast(Any, reader_of(spark, GeneratorOptions(**options), 1234))
    return reader.given


def test_timestamps_of_micro_batches_begin_at_the_start_of_the_pipeline() -> None:
    assert given(rate=10, per_batch=True) == {
        "format": "rate-micro-batch",
        "rowsPerBatch": 10,
        "startTimestamp": 1234,
    }
    assert given(rate=10) == {"format": "rate", "rowsPerSecond": 10}
