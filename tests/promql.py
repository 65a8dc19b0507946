"""What a PromQL expression asks for: metrics, their labels, and the labels it groups by. For expressions of our own.

No parser of the language: a tokenizer that knows which words are names of metrics, and refuses whatever it does not
know (a character, a function, a bracket left open) rather than step over it.
"""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""\s+
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<duration>\[(?:\$__rate_interval|\d+[smhd])\])
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/<>=])
    | (?P<mark>[(){},])""",
    re.VERBOSE,
)
FUNCTIONS = {"changes", "clamp_min", "count", "delta", "histogram_quantile", "increase", "max", "min", "rate", "sum"}
FUNCTIONS |= {"topk"}
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "bool"}
MATCHING = {"=", "!=", "=~", "!~"}
CLOSED_BY = {"(": ")", "{": "}"}


@dataclass
class Asked:
    """What an expression asks for."""

    selectors: list[tuple[str, set[str]]] = field(default_factory=list)
    """(metric, labels it is chosen by)"""
    groupings: set[str] = field(default_factory=set)

    @property
    def metrics(self) -> set[str]:
        return {name for name, _ in self.selectors}


def tokens(text: str) -> list[tuple[str, str]]:
    """Return (kind, text) of each token. Raises ValueError."""
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"what is {text[position : position + 20]!r} in {text!r}?")
        if match.lastgroup is not None:
            found.append((match.lastgroup, match[0]))
        position = match.end()
    return found


def asked_by(text: str) -> Asked:
    """Read an expression. Raises ValueError."""
    requested, rest, opened = Asked(), tokens(text), 0
    while rest:
        kind, word = rest.pop(0)
        following = rest[0][1] if rest else ""
        if word in GROUPING:
            if following == "(":
                requested.groupings |= {each for each in inside(rest) if each != ","}
        elif kind == "word" and following in ("(", "by", "without"):
            if word not in FUNCTIONS:
                raise ValueError(f"no function {word} is known: {text!r}")
        elif kind == "word" and word not in WORDS:
            requested.selectors.append((word, labels_of(inside(rest)) if following == "{" else set()))
        elif word in "{}":
            raise ValueError(f"a selector without a name in {text!r}")
        elif word in "()":
            opened += 1 if word == "(" else -1
            if opened < 0:
                raise ValueError(f"a bracket too many in {text!r}")
    if opened:
        raise ValueError(f"a bracket is left open in {text!r}")
    return requested


def inside(rest: list[tuple[str, str]]) -> list[str]:
    """Take the bracket that comes now, and return what is in it. Raises ValueError."""
    end = CLOSED_BY[rest.pop(0)[1]]
    found: list[str] = []
    while rest:
        _, word = rest.pop(0)
        if word == end:
            return found
        found.append(word)
    raise ValueError(f"{end} is missing")


def labels_of(words: list[str]) -> set[str]:
    """Return the labels of `a="b",c=~"d"`. Raises ValueError."""
    found: set[str] = set()
    while words:
        label, operator, value, *words = words
        if operator not in MATCHING or not value.startswith('"'):
            raise ValueError(f"{label}{operator}{value} is no matcher")
        found.add(label)
        if words and words.pop(0) != ",":
            raise ValueError(f"a comma is missing after {label}")
    return found
