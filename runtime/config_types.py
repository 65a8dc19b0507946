"""The types a config value can have, how its text is read, and the rules that narrow it.

Sans-IO; behaviour of Kafka's ConfigDef.Type and ConfigDef.Validator. A rule is written in `kafka-configs.tsv` in a
small notation and read by `rule_of`:

    >=1              a number of at least 1                    in:a|b        one of these words
    0..1             a number between, both ends included      in-any:a|b    the same, whatever the case
    -1,1..9          one of these numbers or in this range     list:a|b      a list of these words, none twice
    nonempty         a text or list that is not empty          list          a list, none twice
    voters           ID@HOST:PORT, ...                         host-ports    HOST:PORT, ...
    throttled        PARTITION:BROKER, ... or *                trace         whose requests (trace_wish)
    (empty)          anything its type allows
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from kvorum.runtime.trace_wish import MEANING, trace_problem

Value = bool | int | float | str | tuple[str, ...] | None

INTEGER_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
INTEGER = re.compile(r"[+-]?[0-9]+")
HOST_PORT = re.compile(r"\[?([0-9a-zA-Z\-%._:]+?)\]?:([0-9]{1,5})")
THROTTLED = re.compile(r"[0-9]+:[0-9]+")
PORT_MAX = 65_535
HIDDEN = "[hidden]"


class ConfigType(IntEnum):
    """A value's type; the number is DescribeConfigs' ConfigType on the wire (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidValue(Exception):
    """A text that is no value of its config: name, text, and what was meant. Clients get it as INVALID_CONFIG."""

    def __init__(self, name: str, text: str | None, reason: str) -> None:
        """Hold the three; a secret's text is given as HIDDEN."""
        super().__init__(f"Invalid value {'null' if text is None else text} for configuration {name}: {reason}")
        self.name = name
        self.text = text
        self.reason = reason


class UnknownConfig(InvalidValue):
    """A name that no config has; the reason is the whole message."""

    def __str__(self) -> str:
        """Say only that it is unknown: its value is not what is wrong."""
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a value must satisfy beyond its type: `problem` answers what is wrong or None, `meaning` is for people."""

    problem: Callable[[Value], str | None]
    meaning: str
    words: tuple[str, ...] = ()
    """The valid words, where the rule is a choice: for help, completion and the admin API."""


def parse(name: str, kind: ConfigType, text: str) -> Value:
    """Read one value as Kafka does (ConfigDef.parseType): blanks around it do not count. Raises InvalidValue."""
    word = text.strip()
    match kind:
        case ConfigType.BOOLEAN:
            if word.lower() not in ("true", "false"):
                raise InvalidValue(name, text, "Expected value to be either true or false")
            return word.lower() == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return parse_integer(name, kind, text)
        case ConfigType.DOUBLE:
            try:
                return float(word)
            except ValueError:
                raise InvalidValue(name, text, "Not a number of type DOUBLE") from None
        case ConfigType.LIST:
            return tuple(item.strip() for item in word.split(",")) if word else ()
        case _:
            return word


def parse_integer(name: str, kind: ConfigType, text: str) -> int:
    """Read an integer that fits Java's type of that name. Raises InvalidValue."""
    word = text.strip()
    if not INTEGER.fullmatch(word) or len(word) > 20:
        raise InvalidValue(name, text, f"Not a number of type {kind.name}")
    number = int(word)
    half = 1 << (INTEGER_BITS[kind.name] - 1)
    if not -half <= number < half:
        raise InvalidValue(name, text, f"Not a number of type {kind.name}: it must be between {-half} and {half - 1}")
    return number


def format_value(value: Value) -> str | None:
    """Write a value the way DescribeConfigs shows it; None stays None."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def rule_of(notation: str) -> Rule | None:
    """Read a rule of the table above. A notation that is none is our own mistake."""
    kind, _, words = notation.partition(":")
    choice = tuple(words.split("|"))
    match kind:
        case "":
            return None
        case "in":
            return one_of(choice)
        case "in-any":
            return one_of(choice, any_case=True)
        case "list":
            return list_of(choice if words else ())
        case "nonempty":
            return Rule(problem=lambda value: None if value else "it must not be empty", meaning="not empty")
        case "voters":
            return each_item(is_voter, "comma-separated ID@HOST:PORT")
        case "host-ports":
            return each_item(is_host_port, "comma-separated HOST:PORT")
        case "throttled":
            return Rule(problem=throttled_problem, meaning="* or comma-separated PARTITION:BROKER")
        case "trace":
            return Rule(problem=trace_problem, meaning=MEANING)
        case _:
            return numbers(notation)


def one_of(words: tuple[str, ...], any_case: bool = False) -> Rule:
    """One word of several (Kafka's ValidString)."""
    valid = {word.lower() for word in words} if any_case else set(words)

    def problem(value: Value) -> str | None:
        word = value.lower() if any_case and isinstance(value, str) else value
        return None if word in valid else f"String must be one of: {', '.join(words)}"

    return Rule(problem=problem, meaning=f"one of: {', '.join(words)}", words=words)


def list_of(words: tuple[str, ...]) -> Rule:
    """A list without doubles, of these words when any are given (Kafka's ValidList)."""

    def problem(value: Value) -> str | None:
        assert isinstance(value, tuple), "the type was checked first"
        if len(set(value)) != len(value):
            return "values must not be duplicated"
        wrong = [item for item in value if item not in words] if words else [item for item in value if not item]
        if not wrong:
            return None
        return f"String must be one of: {', '.join(words)}" if words else "values must not be empty"

    return Rule(problem=problem, meaning=f"any of {', '.join(words)}" if words else "none twice", words=words)


def numbers(notation: str) -> Rule:
    """`>=1`, `0..1` or `-1,1..9`: a number inside one of the ranges (Kafka's Range)."""
    ranges: list[tuple[float, float]] = []
    for part in notation.split(","):
        low, dots, high = part.removeprefix(">=").partition("..")
        ranges.append((float(low), float(high) if dots else float("inf") if part.startswith(">=") else float(low)))
    if notation.startswith(">="):
        meaning = f"at least {notation[2:]}"
    else:
        meaning = " or ".join(part.replace("..", " to ") for part in notation.split(","))

    def problem(value: Value) -> str | None:
        assert isinstance(value, int | float), "the type was checked first"
        if any(low <= value <= high for low, high in ranges):
            return None
        if len(ranges) > 1:
            return f"Value must be {meaning}"
        low, high = notation.removeprefix(">=").partition("..")[::2]
        return f"Value must be at least {low}" if value < ranges[0][0] else f"Value must be no more than {high}"

    return Rule(problem=problem, meaning=meaning)


def each_item(good: Callable[[str], bool], meaning: str) -> Rule:
    """A list whose items all have one shape."""

    def problem(value: Value) -> str | None:
        assert isinstance(value, tuple), "the type was checked first"
        wrong = [item for item in value if not good(item)]
        return f"{wrong[0]!r} is not of the form {meaning.removeprefix('comma-separated ')}" if wrong else None

    return Rule(problem=problem, meaning=meaning)


def is_host_port(text: str) -> bool:
    """Tell whether the text is HOST:PORT (an IPv6 host in brackets)."""
    match = HOST_PORT.fullmatch(text)
    return match is not None and int(match[2]) <= PORT_MAX


def is_voter(text: str) -> bool:
    """Tell whether the text is ID@HOST:PORT."""
    voter, at, address = text.partition("@")
    return bool(at) and voter.isdecimal() and is_host_port(address)


def throttled_problem(value: Value) -> str | None:
    """KIP-73: `*` alone, or PARTITION:BROKER pairs."""
    assert isinstance(value, tuple), "the type was checked first"
    if value == ("*",) or all(THROTTLED.fullmatch(item) for item in value):
        return None
    return "must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId],..."
