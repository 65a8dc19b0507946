"""Schemas in Spark's DDL without Spark: the same are taken and refused as by Spark's own parser."""

from typing import TYPE_CHECKING

import pytest

from kvorum.pipelines.formats import ddl
from tests.unit.pipelines.formats.ddl_texts import RIGHT, SPARKS_OWN, WRONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("text", RIGHT)
def test_a_schema_that_is_right_is_taken(text: str) -> None:
    assert ddl.faults(text) == []


@pytest.mark.parametrize(("text", "messages"), WRONG.items())
def test_a_schema_that_is_not_right_is_refused_with_what_was_meant(text: str, messages: list[str]) -> None:
    found = ddl.faults(text)
    assert [fault.message for fault in found] == messages
    assert all(text[fault.position :].startswith(fault.word) for fault in found)


def test_one_type_alone_is_no_columns() -> None:
    (fault,) = ddl.faults("INT", columns=True)
    assert fault.message == "columns are needed, `name TYPE, name TYPE`, not 'INT' alone"
    assert ddl.faults("STRUCT<a: INT>", columns=True) == ddl.faults("string INT", columns=True) == []


def test_an_empty_schema_is_refused_although_spark_takes_it() -> None:
    assert [fault.message for fault in (*ddl.faults(""), *ddl.faults(" -- nothing"))] == ["the schema is empty"] * 2


def test_nesting_ends_somewhere() -> None:
    assert "more than 100 deep" in ddl.faults("a " + "ARRAY<" * 10_000)[0].message


@pytest.mark.long
def test_sparks_own_parser_says_the_same(spark: "SparkSession") -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType

    def takes(text: str) -> bool:
        try:
            DataType.fromDDL(text)
        except (PySparkException, Py4JJavaError):  # the latter for TIME(9): that one is not translated
            return False
        return True

    assert [text for text in RIGHT if not takes(text)] == []
    assert [text for text in (*WRONG, *SPARKS_OWN) if takes(text)] == []
