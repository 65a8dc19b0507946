"""Names of types in schemas in Spark's DDL."""

import pytest

from kvorum.pipelines.formats.schemas import unknown_types

RIGHT = (
    "id BIGINT",
    "a INT, b STRING, c ARRAY<INT>, d STRUCT<e: BOOLEAN>",
    "a int,b string",
    "id BIGINT NOT NULL, name STRING COMMENT 'it''s', other STRING COMMENT \"two\"",
    "a DECIMAL, b DECIMAL(10), c DECIMAL(38, 38), d DEC(5,2), e NUMERIC(9, 0)",
    "a TINYINT, b BYTE, c SMALLINT, d SHORT, e INTEGER, f LONG, g FLOAT, h REAL, i DOUBLE",
    "a DATE, b TIMESTAMP, c TIMESTAMP_NTZ, d TIMESTAMP_LTZ, e BINARY, f VARIANT, g BOOLEAN, h VOID",
    "a TIMESTAMP WITHOUT TIME ZONE",
    "a CHAR(3), b VARCHAR(10), c CHARACTER(2)",
    "m MAP<STRING, ARRAY<STRUCT<a: INT, b STRING NOT NULL COMMENT 'x'>>>, n MAP<INT,MAP<INT,INT>>",
    "a: int, b: string",
    "a: array<short>, b map<string , string >",
    "`a b` INT, `c``d` STRING, _x INT, `\u00e9t\u00e9` INT, a1 INT",
    "timestamp TIMESTAMP, date DATE, interval INT, string STRING, map MAP<INT, INT>, array INT, struct INT, time INT",
    "select INT, from INT, comment STRING COMMENT 'c', not INT, null INT, decimal INT",
    "INT",
    "string",
    " array< array<int> > ",
    "map<int, string>",
    "struct<>",
    "struct<a:int,b:string>",
    "a STRUCT<>, b ARRAY<STRUCT<>>",
    "decimal(10, 2)",
    "a INTERVAL, b INTERVAL DAY, c INTERVAL DAY TO SECOND, d INTERVAL YEAR TO MONTH, e INTERVAL HOUR TO MINUTE",
    "interval day to second",
    "a STRING COLLATE UTF8_LCASE",
    "-- the id\nid BIGINT, /* and\nthe name */ name STRING",
    "id BIGINT,\n  name STRING\n",
    "a TIME, b TIME(3)",
    "timestamp without time zone",
    "time without time zone",
)


@pytest.mark.parametrize("text", RIGHT)
def test_a_schema_with_known_types_is_accepted(text: str) -> None:
    assert unknown_types(text) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id INTT, amount DUBBLE, ok INT", ["INTT", "DUBBLE"]),
        ("a ARRAY<STRUCT<b: MAP<STRING, STRNG>>>", ["STRNG"]),
        ("amount DEZIMAL(10, 2) COMMENT 'a, b TEXT', b INT", ["DEZIMAL"]),
        ("`a b` TEXT -- a TEXT", ["TEXT"]),
        ("INTT", ["INTT"]),
    ],
)
def test_a_misspelt_type_is_found(text: str, words: list[str]) -> None:
    assert unknown_types(text) == words
