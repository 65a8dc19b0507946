"""Schemas in Spark's DDL, looked at without Spark: `id BIGINT NOT NULL, tags ARRAY<STRING> COMMENT 'free text'`.

Spark has a parser of its own, in Java; at run time it is that one which counts. This one is for who looks at a file
before anything is started: it takes what Spark's takes (DataTypeAstBuilder in sql/api; a test asks both), makes no
types of it, and says of each name that is no type what was probably meant.

    schema   column, column...        or one type alone
    column   name [:] type [NOT NULL] [COMMENT 'text']
    type     INT | DECIMAL(p, s) | ARRAY<type> | MAP<type, type> | STRUCT<column, column...> | ...
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kvorum.pipelines.faults import Fault, TextError, meant

TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)|(?P<number>[0-9]+\b)|(?P<name>[A-Za-z0-9_]+)"""
    r"""|(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<sign>[<>(),:])|(?P<other>.)""",
    re.DOTALL,
)
PLAIN: Final = (
    "BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL", "DOUBLE",
    "DATE", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "BINARY", "VOID", "VARIANT",
)  # fmt: skip
WITH_MORE: Final = (
    "STRING", "CHAR", "CHARACTER", "VARCHAR", "DECIMAL", "DEC", "NUMERIC", "TIMESTAMP", "TIME", "INTERVAL", "GEOMETRY",
    "GEOGRAPHY",
)  # fmt: skip
LONG: Final = ("INTERVAL", "TIMESTAMP", "TIME", "STRING")
"""Types of more than one word, and names of columns as well."""
NESTED: Final = ("ARRAY", "MAP", "STRUCT")
TYPES: Final = (*PLAIN, *WITH_MORE, *NESTED)
ELSEWHERE: Final[Mapping[str, str]] = {
    "TEXT": "STRING", "STR": "STRING", "UUID": "STRING", "BOOL": "BOOLEAN", "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP", "INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT",
    "FLOAT32": "FLOAT", "FLOAT64": "DOUBLE", "NUMBER": "DECIMAL", "BYTES": "BINARY", "BYTEA": "BINARY",
    "BLOB": "BINARY", "JSON": "VARIANT", "JSONB": "VARIANT", "LIST": "ARRAY", "OBJECT": "STRUCT", "RECORD": "STRUCT",
    "ROW": "STRUCT", "NULL": "VOID",
}  # fmt: skip
"""What the types of databases and languages are called here."""
UNITS: Final = (("YEAR", "MONTH"), ("DAY", "HOUR", "MINUTE", "SECOND"))
DECIMAL_DIGITS_MAX: Final = 38
TIME_DIGITS_MAX: Final = 6
DEPTH_MAX: Final = 100
"""Of types within types; Spark's own parser ends somewhere beyond, with its stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word, a sign, or the end."""

    kind: str
    text: str
    position: int

    @property
    def word(self) -> str:
        """Return the keyword that it may be."""
        return self.text.upper() if self.kind == "name" else self.text

    @property
    def shown(self) -> str:
        """Return how a message calls it."""
        return repr(self.text) if self.kind != "end" else "the end"


class _Stop(Exception):
    """The rest cannot be parsed."""


def faults(text: str, *, columns: bool = False) -> list[Fault]:
    """Return what is wrong with a schema. `columns`: a single type, such as INT, is none."""
    reading = _Reading(tokens=list(_tokens(text)))
    first, second = reading.tokens[0], reading.tokens[min(1, len(reading.tokens) - 1)]
    is_type = second.kind == "end" or second.text in ("<", "(") or first.word in LONG
    try:
        if first.kind == "end":
            reading.stop(first, "the schema is empty")
        elif is_type and not _reads_as_columns(text):
            reading.type("", 0)
            if columns and first.word != "STRUCT":
                reading.note(first, f"columns are needed, `name TYPE, name TYPE`, not {text.strip()!r} alone")
        else:
            reading.columns("", 0)
        reading.end()
    except _Stop:
        pass
    return reading.faults


def checked_columns(text: str) -> str:
    """Return columns, for a validator of a model. Raises TextError with each fault."""
    found = faults(text, columns=True)
    if found:
        raise TextError(text, found)
    return text


def _reads_as_columns(text: str) -> bool:
    """Tell whether a schema that may be one type alone is columns after all: `interval INT`."""
    reading = _Reading(tokens=list(_tokens(text)))
    try:
        reading.columns("", 0)
        reading.end()
    except _Stop:
        return False
    return not reading.faults


def _tokens(text: str) -> "list[Token]":
    found = [
        Token(kind=str(each.lastgroup), text=each.group(), position=each.start())
        for each in TOKEN.finditer(text)
        if each.lastgroup != "space"
    ]
    return [*found, Token(kind="end", text="", position=len(text))]


@dataclass(slots=True, kw_only=True)
class _Reading:
    """A schema being read: by recursive descent, one look ahead."""

    tokens: list[Token]
    at: int = 0
    faults: list[Fault] = field(default_factory=list)

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.next
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def took(self, *words: str) -> bool:
        """Take a row of words or signs if it stands here."""
        here = [token.word for token in self.tokens[self.at : self.at + len(words)]]
        if here != list(words):
            return False
        self.at += len(words)
        return True

    def note(self, token: Token, message: str) -> None:
        self.faults.append(Fault(message=message, position=token.position, word=token.text))

    def stop(self, token: Token, message: str) -> None:
        self.note(token, message)
        raise _Stop

    def need(self, sign: str, what: str) -> None:
        if not self.took(sign):
            self.stop(self.next, f"{what}: {sign!r} is needed, not {self.next.shown}")

    def end(self) -> None:
        if self.next.kind != "end":
            hint = "; is a comma missing?" if self.next.kind in ("name", "quoted") else ""
            self.stop(self.next, f"{self.next.shown} is not expected{hint}")

    def columns(self, inside: str, depth: int) -> None:
        """Read columns, at least one."""
        self.column(inside, depth)
        while self.took(","):
            self.column(inside, depth)

    def column(self, inside: str, depth: int) -> None:
        token = self.take()
        if token.kind not in ("name", "quoted"):
            self.stop(token, f"{inside or 'the schema'}: a name is needed, not {token.shown}")
        name = f"{inside}.{token.text}" if inside else token.text
        self.took(":")
        if self.next.kind not in ("name", "quoted"):
            self.stop(token, f"{name}: a type is needed, not {self.next.shown}")
        self.type(name, depth)
        if self.took("NOT") and not self.took("NULL"):
            self.stop(self.next, f"{name}: NOT NULL is meant, not NOT {self.next.shown}")
        if self.took("COMMENT"):
            text = self.take()
            if text.kind != "text":
                self.stop(text, f"{name}: COMMENT needs a text in quotes, not {text.shown}")
            while self.next.kind == "text":  # 'it''s' is two of them
                self.take()

    def type(self, name: str, depth: int) -> None:
        """Read a type. A name that is none is noted, and the rest read on."""
        token = self.take()
        where = f"{name}: " if name else ""
        if depth > DEPTH_MAX:
            self.stop(token, f"{where}types within types, more than {DEPTH_MAX} deep")
        if token.word in NESTED:
            self.nested(token, name, depth)
        elif token.word in PLAIN:
            if self.next.text == "(":
                self.note(token, f"{where}{token.text} takes no numbers")
                self.numbers(where)
        elif token.word in WITH_MORE:
            self.more(token, where)
        else:
            other = ELSEWHERE.get(token.word)
            hint = f"; did you mean {other!r}?" if other else meant(token.text, TYPES)
            self.note(token, f"{where}there is no type {token.text!r}{hint}")
            if self.next.text == "(":
                self.numbers(where)
            elif self.next.text == "<":
                raise _Stop

    def nested(self, token: Token, name: str, depth: int) -> None:
        where = name or token.text
        if token.word == "STRUCT":
            self.need("<", f"{where}: STRUCT<name: TYPE, ...>")
            if self.took(">"):
                return
            self.columns(name, depth + 1)
        else:
            form = "ARRAY<TYPE>" if token.word == "ARRAY" else "MAP<TYPE, TYPE>"
            self.need("<", f"{where}: {form}")
            self.type(name, depth + 1)
            if token.word == "MAP":
                self.need(",", f"{where}: {form}")
                self.type(name, depth + 1)
        self.need(">", f"{where}: the end of {token.text}<")

    def numbers(self, where: str) -> list[int]:
        """Read `(10, 2)`."""
        self.need("(", where.removesuffix(": ") or "the type")
        found = list[int]()
        while True:
            token = self.take()
            if token.kind != "number":
                self.stop(token, f"{where}a whole number is needed, not {token.shown}")
            found.append(int(token.text))
            if self.took(")"):
                return found
            self.need(",", where.removesuffix(": ") or "the type")

    def more(self, token: Token, where: str) -> None:
        """Read what may or must follow the names that have something to say besides."""
        given = None
        if self.next.text == "(" and token.word not in ("STRING", "TIMESTAMP", "INTERVAL"):
            if token.word in ("GEOMETRY", "GEOGRAPHY") and self.took("(", "ANY", ")"):
                return
            given = self.numbers(where)
        match token.word:
            case "DECIMAL" | "DEC" | "NUMERIC":
                self.decimal(token, where, given)
            case "CHAR" | "CHARACTER" | "VARCHAR" | "GEOMETRY" | "GEOGRAPHY":
                if given is None or len(given) != 1:
                    self.note(token, f"{where}{token.text} needs one number, as in {token.word}(10)")
            case "TIME":
                if given is not None and (len(given) != 1 or given[0] > TIME_DIGITS_MAX):
                    self.note(token, f"{where}TIME takes one number up to {TIME_DIGITS_MAX}")
                self.took("WITHOUT", "TIME", "ZONE")
            case "TIMESTAMP":
                self.took("WITHOUT", "TIME", "ZONE")
            case "STRING":
                if self.took("COLLATE"):
                    name = self.take()
                    if name.kind not in ("name", "quoted"):
                        self.stop(name, f"{where}COLLATE needs a name, not {name.shown}")
            case "INTERVAL":
                self.interval(where)

    def decimal(self, token: Token, where: str, given: list[int] | None) -> None:
        if given is None:
            return
        if len(given) > 2:
            self.note(token, f"{where}{token.text} takes precision and scale, not {len(given)} numbers")
        elif given[0] > DECIMAL_DIGITS_MAX:
            self.note(token, f"{where}{token.text} has {DECIMAL_DIGITS_MAX} digits at most, not {given[0]}")
        elif len(given) == 2 and given[1] > given[0]:
            self.note(token, f"{where}{token.text}({given[0]}, {given[1]}): the scale is larger than the precision")

    def interval(self, where: str) -> None:
        units = next((row for row in UNITS if self.next.word in row), None)
        if units is None:
            return
        first = units.index(self.take().word)
        if self.took("TO"):
            last = self.take()
            if last.word not in units[first + 1 :]:
                self.stop(last, f"{where}INTERVAL {units[first]} TO {last.shown} is none")
