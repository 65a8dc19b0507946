"""A small language to select records: parsed here, run against one record at a time.

Sans-IO, and nothing is executed.

    value.amount > 100 && headers.source == "web"          key ~ "^order-" || partition in [0, 2]
    !(value.items[0].sku contains "x")                     size(value.tags) >= 2 and timestamp < 1700000000000

Fields of a record: key, value, headers, partition, offset and timestamp (ms). `key` and `value` are their JSON, their
text without JSON, null if null; `.name` and `[0]` or `["name"]` select parts. A missing part is null. `text(value)` is
the original text. Comparisons of different kinds are false, except !=. `~` matches an RE2 pattern, `contains` a part of
a text, an element of a list or a name of an object. Functions: text, size, lower, upper, starts_with, ends_with,
exists.

Limits: EXPRESSION_CHARS_MAX, NODES_MAX, DEPTH_MAX; RE2 matches in linear time, so a record costs what its size allows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import re2  # type: ignore[import-untyped]  # the wheel has no stubs

EXPRESSION_CHARS_MAX: Final = 2_000
NODES_MAX: Final = 200
DEPTH_MAX: Final = 30
NUMBER_CHARS_MAX: Final = 40
PATTERN_MEMORY_BYTES_MAX: Final = 1 << 20
"""Size of a compiled pattern; a larger one is rejected."""
ROOTS: Final = ("key", "value", "headers", "partition", "offset", "timestamp")
TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    | (?P<sign>==|!=|<=|>=|&&|\|\||[<>~!().,\[\]])
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
WORDS: Final = {"and": "&&", "or": "||", "not": "!"}
HINTS: Final = {
    "=": "'=' is not an operator; use == to compare",
    "&": "'&' is not an operator; use && (or the word and)",
    "|": "'|' is not an operator; use || (or the word or)",
}
COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=", "~", "contains", "in")
CONSTANTS: Final[Mapping[str, object]] = {"true": True, "false": False, "null": None}


class BadExpression(Exception):
    """An invalid expression; the message has the position."""


class Subject(Protocol):
    """The record that an expression is evaluated on, decoded on demand."""

    def root(self, name: str) -> object:
        """Return key, value, headers, partition, offset or timestamp: of JSON's kinds."""
        ...

    def text(self, name: str) -> str | None:
        """Return the original text of key or value."""
        ...


Node = Callable[[Subject], object]
"""An expression that was read: a record in, a value of JSON's kinds out. It raises nothing."""


class Token(NamedTuple):
    """A token of the expression with its position."""

    kind: str
    text: str
    place: int


@dataclass(frozen=True, slots=True)
class Expression:
    """One that was read."""

    source: str
    _root: Node

    def matches(self, subject: Subject) -> bool:
        """Return whether a record matches."""
        return truth(self._root(subject))


def parse(source: str) -> Expression:
    """Read an expression. Raises BadExpression."""
    if len(source) > EXPRESSION_CHARS_MAX:
        raise BadExpression(f"the expression is longer than {EXPRESSION_CHARS_MAX} characters")
    parser = Parser(tokens(source))
    root = parser.any(0)
    parser.end()
    return Expression(source, root)


def tokens(source: str) -> list[Token]:
    """Return the words, an empty one at the end. Raises BadExpression."""
    found, place = [], 0
    while source[place:].strip():
        match = TOKEN.match(source, place)
        if match is None:
            at = place + len(source[place:]) - len(source[place:].lstrip())
            raise BadExpression(f"character {at + 1}: {HINTS.get(source[at], 'unexpected ' + repr(source[at]))}")
        kind = match.lastgroup or ""
        text = match.group(kind)
        if kind == "name" and text in WORDS:
            kind, text = "sign", WORDS[text]
        found.append(Token(kind, text, match.start(kind) + 1))
        place = match.end()
    return [*found, Token("end", "", len(source) + 1)]


def truth(value: object) -> bool:
    """Return whether a value counts as true: null, false, 0 and empty values do not."""
    return bool(value)


def comparable(left: object, right: object) -> bool:
    """Return whether two values are comparable: two texts, or two numbers."""
    if isinstance(left, str):
        return isinstance(right, str)
    return is_number(left) and is_number(right)


def is_number(value: object) -> bool:
    """Return whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: object, right: object) -> bool:
    """Return whether two values are equal; 1 equals 1.0, and true does not equal 1."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def contains(whole: object, part: object) -> bool:
    """Return whether a text contains a part, a list an element, an object a name."""
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    if isinstance(whole, dict):
        return isinstance(part, str) and part in whole
    return isinstance(whole, list) and any(equal(each, part) for each in whole)


def size(value: object) -> object:
    """Return how long a text, list or object is; null of anything else."""
    return len(value) if isinstance(value, str | list | dict) else None


def step(value: object, name: str | int) -> object:
    """Return the value at a name or an index, null if there is none; -1 is the last of a list."""
    if isinstance(value, dict) and isinstance(name, str):
        return value.get(name)
    if isinstance(value, list) and isinstance(name, int) and -len(value) <= name < len(value):
        return value[name]
    return None


COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": lambda left, right: comparable(left, right) and left < right,
    "<=": lambda left, right: comparable(left, right) and left <= right,
    ">": lambda left, right: comparable(left, right) and left > right,
    ">=": lambda left, right: comparable(left, right) and left >= right,
    "contains": contains,
    "in": lambda left, right: contains(right, left),
}
ONE: Final[Mapping[str, Callable[[Any], object]]] = {
    "size": size,
    "lower": lambda value: value.lower() if isinstance(value, str) else None,
    "upper": lambda value: value.upper() if isinstance(value, str) else None,
    "exists": lambda value: value is not None,
}
TWO: Final[Mapping[str, Callable[[Any, Any], object]]] = {
    "starts_with": lambda value, part: isinstance(value, str) and isinstance(part, str) and value.startswith(part),
    "ends_with": lambda value, part: isinstance(value, str) and isinstance(part, str) and value.endswith(part),
}


class Parser:
    """Parses tokens into nodes: or, and, not, comparison, operand."""

    def __init__(self, words: Sequence[Token]) -> None:
        """Begin at the first."""
        self._words = words
        self._next = 0
        self._nodes = 0

    def _peek(self) -> Token:
        return self._words[self._next]

    def _take(self) -> Token:
        word = self._words[self._next]
        if word.kind != "end":
            self._next += 1
        return word

    def _took(self, sign: str) -> bool:
        word = self._peek()
        if word.kind in ("sign", "name") and word.text == sign:
            self._next += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._took(sign):
            raise self._wrong(f"expected {sign!r}")

    def _wrong(self, what: str) -> BadExpression:
        word = self._peek()
        return BadExpression(
            f"character {word.place}: {what}, found {word.text[:20]!r}"
            if word.text
            else f"character {word.place}: {what}, found the end"
        )

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise BadExpression(f"the expression has more than {NODES_MAX} parts")
        if depth > DEPTH_MAX:
            raise BadExpression(f"the expression is nested deeper than {DEPTH_MAX}")

    def end(self) -> None:
        """Require the end of the expression. Raises BadExpression."""
        if self._peek().kind != "end":
            raise self._wrong("expected && or || or the end")

    def any(self, depth: int) -> Node:
        """Read alternatives. Raises BadExpression."""
        parts = [self._all(depth)]
        while self._took("||"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else lambda subject: any(truth(part(subject)) for part in parts)

    def _all(self, depth: int) -> Node:
        parts = [self._not(depth)]
        while self._took("&&"):
            parts.append(self._not(depth))
        return parts[0] if len(parts) == 1 else lambda subject: all(truth(part(subject)) for part in parts)

    def _not(self, depth: int) -> Node:
        self._count(depth)
        if self._took("!"):
            denied = self._not(depth + 1)
            return lambda subject: not truth(denied(subject))
        return self._comparison(depth)

    def _comparison(self, depth: int) -> Node:
        left = self._operand(depth)
        word = self._peek()
        if word.kind not in ("sign", "name") or word.text not in COMPARISONS:
            return left
        self._take()
        if word.text == "~":
            return matcher(left, self._pattern())
        right, compare = self._operand(depth), COMPARE[word.text]
        return lambda subject: compare(left(subject), right(subject))

    def _pattern(self) -> Callable[[str], object]:
        word = self._take()
        if word.kind != "text":
            raise BadExpression(f"character {word.place}: ~ needs a pattern in quotes")
        options = re2.Options()
        options.max_mem, options.log_errors = PATTERN_MEMORY_BYTES_MAX, False
        try:
            search: Callable[[str], object] = re2.compile(strip_quotes(word.text, is_pattern=True), options).search
        except (re2.error, UnicodeEncodeError) as error:
            raise BadExpression(f"character {word.place}: not an RE2 pattern: {error}") from error
        return search

    def _operand(self, depth: int) -> Node:
        self._count(depth)
        word = self._take()
        if word.kind == "number":
            if len(word.text) > NUMBER_CHARS_MAX:
                raise BadExpression(f"character {word.place}: a number of more than {NUMBER_CHARS_MAX} characters")
            return constant(int(word.text) if word.text.lstrip("-").isdecimal() else float(word.text))
        if word.kind == "text":
            return constant(strip_quotes(word.text))
        if word.kind == "sign" and word.text == "(":
            inner = self.any(depth + 1)
            self._expect(")")
            return inner
        if word.kind == "sign" and word.text == "[":
            return self._list(depth)
        if word.kind == "name" and word.text in CONSTANTS:
            return constant(CONSTANTS[word.text])
        if word.kind == "name" and word.text in ROOTS:
            return self._path(word.text)
        if word.kind == "name" and (word.text in ONE or word.text in TWO or word.text == "text"):
            return self._call(word.text, depth)
        self._next -= word.kind != "end"
        raise self._wrong(f"expected a value, one of {', '.join(ROOTS)}, or a function")

    def _list(self, depth: int) -> Node:
        parts: list[Node] = []
        while not self._took("]"):
            if parts:
                self._expect(",")
            parts.append(self._operand(depth + 1))
        return lambda subject: [part(subject) for part in parts]

    def _call(self, name: str, depth: int) -> Node:
        self._expect("(")
        if name == "text":
            root = self._take()
            if root.text not in ("key", "value"):
                raise BadExpression(f"character {root.place}: text() requires key or value")
            self._expect(")")
            return lambda subject: subject.text(root.text)
        first = self.any(depth + 1)
        if name in ONE:
            self._expect(")")
            one = ONE[name]
            return lambda subject: one(first(subject))
        self._expect(",")
        second, two = self.any(depth + 1), TWO[name]
        self._expect(")")
        return lambda subject: two(first(subject), second(subject))

    def _path(self, root: str) -> Node:
        steps: list[str | int] = []
        while True:
            if self._took("."):
                word = self._take()
                if word.kind != "name":
                    raise BadExpression(
                        f'character {word.place}: expected a name after the dot; write other keys as ["..."]'
                    )
                steps.append(word.text)
            elif self._took("["):
                word = self._take()
                if word.kind == "text":
                    steps.append(strip_quotes(word.text))
                elif word.kind == "number" and word.text.lstrip("-").isdecimal():
                    steps.append(int(word.text[:NUMBER_CHARS_MAX]))
                else:
                    raise BadExpression(f"character {word.place}: expected a number or a quoted name in [ ]")
                self._expect("]")
            else:
                return path(root, steps)
            self._count(0)


def constant(value: object) -> Node:
    """Return a node that is always the same."""
    return lambda subject: value


def path(root: str, steps: Sequence[str | int]) -> Node:
    """Return a node that reads a field of a record."""

    def read_path(subject: Subject) -> object:
        value = subject.root(root)
        for each in steps:
            value = step(value, each)
        return value

    return read_path


def matcher(left: Node, search: Callable[[str], object]) -> Node:
    """Return a node that searches a pattern in a text."""

    def read_path(subject: Subject) -> bool:
        value = left(subject)
        return isinstance(value, str) and search(value.encode(errors="replace").decode()) is not None

    return read_path


def strip_quotes(text: str, *, is_pattern: bool = False) -> str:
    """Return the text between quotes; a pattern keeps its backslashes, except before its quotes."""
    inner, quote = text[1:-1], text[0]
    if is_pattern:
        return inner.replace(f"\\{quote}", quote)
    return ESCAPE.sub(lambda match: ESCAPES.get(match.group(1), match.group(1)), inner)
