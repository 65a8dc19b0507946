"""The types a config value can have, how its text is read, and the rules that narrow it.

Sans-IO; behaviour of Kafka's ConfigDef.Type and ConfigDef.Validator. A rule is written in `kafka-configs.tsv` in a
small notation and read by `rule_of`:

    >=1              a number of at least 1                    in:a|b        one of these words
    0..1             a number between, both ends included      in-any:a|b    the same, whatever the case
    -1,1..9          one of these numbers or in this range     list:a|b      a list of these words, none twice
    nonempty         a text or list that is not empty          list          a list, none twice
    voters           ID@HOST:PORT, ...                         host-ports    HOST:PORT, ...
    throttled        PARTITION:BROKER, ... or *                trace         whose requests (trace_wish)
    endpoints        NAME://HOST:PORT, ..., none twice         listener-map  NAME:PROTOCOL, ...
    per-host         HOST:COUNT, ...                           classes:a|b   names of Java classes that exist here
    nonempty-list    `list`, not empty; also with words        roles         TYPE:NAME=ROLE; ...
    (empty)          anything its type allows

No DOUBLE is NaN and no item of a list is empty, whatever the rule.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from kvorum.runtime.trace_wish import MEANING, trace_problem

Value = bool | int | float | str | tuple[str, ...] | None

INTEGER_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
INTEGER = re.compile(r"[+-]?[0-9]+")
DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")
HOST_PORT = re.compile(r"\[?([0-9a-zA-Z\-%._:]+?)\]?:([0-9]{1,5})")
ENDPOINT = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*?)\]?:(-?[0-9]{1,10})")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
THROTTLED = re.compile(r"[0-9]+:[0-9]+")
ROLE_NAMES = ("read", "operate", "admin")
ROLES_FORM = f"TYPE:NAME=ROLE with a role of {', '.join(ROLE_NAMES)}"
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
    """An invalid value of a config: name, text, and valid values. Clients get it as INVALID_CONFIG."""

    def __init__(self, name: str, text: str | None, reason: str) -> None:
        """Store the three fields; a secret's text is HIDDEN."""
        super().__init__(f"Invalid value {'null' if text is None else text} for configuration {name}: {reason}")
        self.name = name
        self.text = text
        self.reason = reason


class UnknownConfig(InvalidValue):
    """A name that no config has; the reason is the whole message."""

    def __str__(self) -> str:
        """Report only that it is unknown: its value is not the fault."""
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Constraint of a value beyond its type: `problem` returns the violation or None, `meaning` is for people."""

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
            if not DOUBLE.fullmatch(word):
                raise InvalidValue(name, text, "Not a number of type DOUBLE")
            number = float(word.rstrip("fFdD"))
            if math.isnan(number):
                raise InvalidValue(name, text, "NaN is not a valid value")
            return number
        case ConfigType.LIST:
            items = tuple(item.strip() for item in word.split(",")) if word else ()
            if not all(items):
                raise InvalidValue(name, text, f"Configuration '{name}' values must not be empty.")
            return items
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
        case "list" | "nonempty-list":
            return list_of(choice if words else (), nonempty=kind == "nonempty-list")
        case "nonempty":
            return Rule(problem=lambda value: None if value else "it must not be empty", meaning="not empty")
        case "voters":
            return each_item(is_voter, "comma-separated ID@HOST:PORT")
        case "host-ports":
            return each_item(is_host_port, "comma-separated HOST:PORT")
        case "endpoints":
            return each_item(is_endpoint, "comma-separated NAME://HOST:PORT", distinct=True)
        case "listener-map":
            return Rule(problem=parsing_problem(parse_protocol_map), meaning="comma-separated NAME:PROTOCOL")
        case "per-host":
            return Rule(problem=parsing_problem(parse_counts_per_host), meaning="comma-separated HOST:COUNT")
        case "classes":
            return classes(choice if words else ())
        case "throttled":
            return Rule(problem=throttled_problem, meaning="* or comma-separated PARTITION:BROKER")
        case "trace":
            return Rule(problem=trace_problem, meaning=MEANING)
        case "roles":
            return Rule(problem=parsing_problem(parse_roles), meaning=f"{ROLES_FORM}, separated by semicolons")
        case _:
            return numbers(notation)


def one_of(words: tuple[str, ...], any_case: bool = False) -> Rule:
    """One word of several (Kafka's ValidString)."""
    valid = {word.lower() for word in words} if any_case else set(words)

    def problem(value: Value) -> str | None:
        word = value.lower() if any_case and isinstance(value, str) else value
        return None if word in valid else f"String must be one of: {', '.join(words)}"

    return Rule(problem=problem, meaning=f"one of: {', '.join(words)}", words=words)


def list_of(words: tuple[str, ...], *, nonempty: bool = False) -> Rule:
    """A list without doubles, of these words when any are given (Kafka's ValidList)."""

    def problem(value: Value) -> str | None:
        assert isinstance(value, tuple), "the type was checked first"
        if nonempty and not value:
            return "it must not be empty"
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


def each_item(good: Callable[[str], bool], meaning: str, *, distinct: bool = False) -> Rule:
    """A list whose items all have one shape; `distinct`: it is not empty, and no item is in it twice."""

    def problem(value: Value) -> str | None:
        assert isinstance(value, tuple), "the type was checked first"
        wrong = [item for item in value if not good(item)]
        if wrong:
            return f"{wrong[0]!r} is not of the form {meaning.removeprefix('comma-separated ')}"
        if distinct and not value:
            return "it must not be empty"
        return "values must not be duplicated" if distinct and len(set(value)) != len(value) else None

    return Rule(problem=problem, meaning=meaning)


def classes(names: tuple[str, ...]) -> Rule:
    """Available Java class names; no other can be loaded, and ignoring one would hide its effect."""
    meaning = f"one of: {', '.join(names)}" if names else "unset"

    def problem(value: Value) -> str | None:
        wrong = [item for item in (value if isinstance(value, tuple) else (value,)) if item not in names]
        return f"Java classes are not supported: it must be {meaning}" if wrong else None

    return Rule(problem=problem, meaning=meaning, words=names)


def parsing_problem(read: Callable[[str], object]) -> Callable[[Value], str | None]:
    """Return a check that parses a text with a function: its ValueError is the problem."""

    def problem(value: Value) -> str | None:
        assert isinstance(value, str), "the type was checked first"
        try:
            read(value)
        except ValueError as error:
            return str(error)
        return None

    return problem


def parse_counts_per_host(text: str) -> dict[str, int]:
    """Read HOST:COUNT, ... (max.connections.per.ip.overrides). An IPv6 address has no brackets. Raises ValueError."""
    counts: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = (part.strip() for part in item.rpartition(":"))
        if not colon or not HOST.fullmatch(host):
            raise ValueError(f"{item!r} is not HOST:COUNT")
        try:
            counts[host] = parse_integer("count", ConfigType.INT, count)
        except InvalidValue:
            raise ValueError(f"{count!r} in {item!r} is not a count") from None
    return counts


def parse_protocol_map(text: str) -> dict[str, str]:
    """Read NAME:PROTOCOL, ... as {NAME in upper case: protocol}. Raises ValueError."""
    protocols: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = (part.strip() for part in item.rpartition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            valid = ", ".join(SECURITY_PROTOCOLS)
            raise ValueError(f"{item!r} is not LISTENER:PROTOCOL with a protocol of {valid}")
        if name.upper() in protocols:
            raise ValueError(f"listener {name.upper()} has two protocols")
        protocols[name.upper()] = protocol
    return protocols


def parse_roles(text: str) -> dict[str, str]:
    """Read TYPE:NAME=ROLE; ... as {TYPE:NAME: role}; the name of a certificate has commas and =. Raises ValueError."""
    roles: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        principal, _, role = (part.strip() for part in item.rpartition("="))
        kind, _, name = principal.partition(":")
        if not kind or not name or role not in ROLE_NAMES:
            raise ValueError(f"{item!r} is not {ROLES_FORM}")
        if principal in roles:
            raise ValueError(f"{principal} has two roles")
        roles[principal] = role
    if not roles:
        raise ValueError("it must not be empty")
    return roles


def is_endpoint(text: str) -> bool:
    """Return whether the text is NAME://HOST:PORT; without HOST: every address."""
    match = ENDPOINT.fullmatch(text)
    return match is not None and 0 <= int(match[3]) <= PORT_MAX


def is_host_port(text: str) -> bool:
    """Return whether the text is HOST:PORT (an IPv6 host in brackets)."""
    match = HOST_PORT.fullmatch(text)
    return match is not None and int(match[2]) <= PORT_MAX


def is_voter(text: str) -> bool:
    """Return whether the text is ID@HOST:PORT."""
    voter, at, address = text.partition("@")
    return bool(at) and voter.isdecimal() and is_host_port(address)


def throttled_problem(value: Value) -> str | None:
    """KIP-73: `*` alone, or PARTITION:BROKER pairs."""
    assert isinstance(value, tuple), "the type was checked first"
    if value == ("*",) or all(THROTTLED.fullmatch(item) for item in value):
        return None
    return "must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId],..."
