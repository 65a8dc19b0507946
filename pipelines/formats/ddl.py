"""Schemas in Spark's DDL, checked without Spark: `id BIGINT NOT NULL, tags ARRAY<STRING> COMMENT 'free text'`.

Spark's own parser, in Java, decides when a pipeline starts. This one finds misspelt types, missing commas and brackets
before that, with their position. It accepts all that Spark's accepts (a test compares them) and leaves the limits of
numbers, such as DECIMAL's, to Spark.

    schema   column, column...        or one type alone
    column   name [:] type [NOT NULL] [COMMENT 'text']
    type     INT | DECIMAL(p, s) | ARRAY<type> | MAP<type, type> | STRUCT<column, column...> | ...
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NoReturn

from kvorum.pipelines.faults import Fault, TextError, meant

SPACE: Final = r"(?>(?:\s|--[^\n]*|/\*.*?\*/)*)"
NAME: Final = r"(?![0-9]+\b)[A-Za-z0-9_]+|`(?:[^`]|``)+`"
COMMENT: Final = r"""COMMENT(?:\s*(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))+"""
ZONE: Final = r"WITHOUT\s+TIME\s+ZONE\b"
UNIT: Final = r"(?:YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)\b"
NUMBERS: Final = r"\(\s*\d+\s*(?:,\s*\d+\s*)?\)"
NESTED: Final = {"ARRAY": "ARRAY<TYPE>", "MAP": "MAP<TYPE, TYPE>", "STRUCT": "STRUCT<name: TYPE, ...>"}
PLAIN: Final = (
    "BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL", "DOUBLE",
    "DATE", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "BINARY", "VOID", "VARIANT",
)  # fmt: skip
WITH_MORE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("CHAR", "CHARACTER", "VARCHAR", "DECIMAL", "DEC", "NUMERIC"), NUMBERS),
    **dict.fromkeys(("GEOMETRY", "GEOGRAPHY"), rf"{NUMBERS}|\(\s*ANY\s*\)"),
    "STRING": rf"COLLATE\s+(?:{NAME})",
    "TIMESTAMP": ZONE,
    "TIME": rf"{NUMBERS}\s*(?:{ZONE})?|{ZONE}",
    "INTERVAL": rf"{UNIT}(?:\s+TO\s+{UNIT})?",
}
"""What may follow the type's name."""
ELSEWHERE: Final[Mapping[str, str]] = {
    "TEXT": "STRING", "STR": "STRING", "UUID": "STRING", "BOOL": "BOOLEAN", "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP", "INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT",
    "FLOAT32": "FLOAT", "FLOAT64": "DOUBLE", "NUMBER": "DECIMAL", "BYTES": "BINARY", "BYTEA": "BINARY",
    "BLOB": "BINARY", "JSON": "VARIANT", "JSONB": "VARIANT", "LIST": "ARRAY", "OBJECT": "STRUCT", "RECORD": "STRUCT",
    "ROW": "STRUCT", "NULL": "VOID",
}  # fmt: skip
"""Spark's names for types of databases and languages."""
DEPTH_MAX: Final = 100
"""Of types within types; Spark's own parser ends somewhere beyond, with its stack."""


class _Stop(Exception):
    """The rest cannot be parsed."""


def faults(text: str, *, columns: bool = False) -> list[Fault]:
    """Return what is wrong with a schema. `columns`: a single type, such as INT, is none."""
    as_columns, as_type = _Schema(text), _Schema(text)
    if not as_columns.parsed(is_type=False):
        return []
    is_type = re.fullmatch(rf"{SPACE}(?:{NAME})?{SPACE}([<(].*)?", text, re.DOTALL) is not None
    found = as_type.parsed(is_type=True)
    if found:
        return found if is_type else as_columns.faults
    if columns and re.match(rf"{SPACE}STRUCT\b", text, re.IGNORECASE | re.DOTALL) is None:
        as_type.at = 0
        as_type.note(f"columns are needed, `name TYPE, name TYPE`, not {text.strip()!r} alone")
    return as_type.faults


def checked_columns(text: str) -> str:
    """Return columns, for a validator of a model. Raises TextError with each fault."""
    found = faults(text, columns=True)
    if found:
        raise TextError(text, found)
    return text


@dataclass(slots=True)
class _Schema:
    """A schema being parsed by recursive descent."""

    text: str
    at: int = 0
    faults: list[Fault] = field(default_factory=list)

    def parsed(self, *, is_type: bool) -> list[Fault]:
        """Parse all of it as one type or as columns, and return the faults."""
        with suppress(_Stop):
            if not self.next():
                self.stop("the schema is empty")
            (self.type if is_type else self.columns)("", 0)
            if self.next():
                hint = "; is a comma missing?" if re.fullmatch(NAME, self.next()) else ""
                self.stop(f"{self.shown()} is not expected{hint}")
        return self.faults

    def take(self, pattern: str) -> str:
        """Return what stands here if it matches the pattern, and advance; else an empty string."""
        matched = re.compile(rf"{SPACE}({pattern})", re.IGNORECASE | re.DOTALL).match(self.text, self.at)
        if matched is None:
            return ""
        self.at = matched.end()
        return matched.group(1)

    def next(self) -> str:
        """Return the next word or sign; empty at the end."""
        at, found = self.at, self.take(rf"{NAME}|[0-9]+\b|\S")
        self.at = at
        return found

    def shown(self) -> str:
        """Return the next word or sign as a message has it."""
        return repr(self.next()) if self.next() else "the end"

    def note(self, message: str) -> None:
        """Note a fault of what stands here."""
        self.take("")
        self.faults.append(Fault(message=message, position=self.at, word=self.next()))

    def stop(self, message: str) -> NoReturn:
        """Note a fault after which nothing more can be parsed."""
        self.note(message)
        raise _Stop

    def need(self, sign: str, what: str) -> None:
        """Take a sign."""
        if not self.take(sign):
            self.stop(f"{what}: {sign!r} is needed, not {self.shown()}")

    def columns(self, inside: str, depth: int) -> None:
        """Parse columns, at least one."""
        while True:
            name = self.take(NAME) or self.stop(f"{inside or 'the schema'}: a name is needed, not {self.shown()}")
            self.take(":")
            self.type(f"{inside}.{name}" if inside else name, depth)
            self.take(r"NOT\s+NULL\b")
            self.take(COMMENT)
            if not self.take(","):
                return

    def type(self, name: str, depth: int) -> None:
        """Parse a type. A name that is none is noted, and the rest parsed."""
        where = f"{name}: " if name else ""
        if depth > DEPTH_MAX:
            self.stop(f"{where}types within types, more than {DEPTH_MAX} deep")
        at, given = self.at, self.take(NAME)
        word = given.upper()
        if not given:
            self.stop(f"{where}a type is needed, not {self.shown()}")
        if word in NESTED:
            self.nested(word, name or given, name, depth)
        elif word in WITH_MORE:
            self.take(WITH_MORE[word])
        elif word not in PLAIN:
            after, self.at = self.at, at
            other = ELSEWHERE.get(word)
            hint = f"; did you mean {other!r}?" if other else meant(given, (*PLAIN, *WITH_MORE, *NESTED))
            self.note(f"{where}there is no type {given!r}{hint}")
            self.at = after
            self.take(NUMBERS)
            if self.next() == "<":
                raise _Stop

    def nested(self, word: str, where: str, name: str, depth: int) -> None:
        """Parse what is between the brackets of a type."""
        self.need("<", f"{where}: {NESTED[word]}")
        if word == "STRUCT":
            if self.take(">"):
                return
            self.columns(name, depth + 1)
        else:
            self.type(name, depth + 1)
            if word == "MAP":
                self.need(",", f"{where}: {NESTED[word]}")
                self.type(name, depth + 1)
        self.need(">", f"{where}: the end of {word}<")
