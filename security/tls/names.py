"""Names in certificates: the distinguished name as Java prints it (RFC 2253), and ssl.principal.mapping.rules.

Sources: Java's X500Principal.getName, Kafka's SslPrincipalMapper.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvorum.security.errors import AuthenticationError, SecurityConfigError
from kvorum.security.java_patterns import Pattern, Replacement, compile_pattern, parse_replacement, replace_matches

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Attribute types that Java prints with a name; it prints all others as OID and the value in hex."""
TEXT_TAGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8, Printable, T61, IA5, General and BMP strings; a value of another type is printed in hex."""
ESCAPED: Final = ',=+<>#;"\\'
SEQUENCE: Final = 0x30
VERSION: Final = 0xA0
NAME_BYTES_MAX: Final = 16 * 1024
"""A longer name is refused: OpenSSL accepts certificates of 100 KiB."""

RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)|)"
    r"\s*(?:,|$)"
)


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) as Java prints it. Raises AuthenticationError: it is malformed."""
    try:
        _, body, _ = _element(certificate, 0)
        _, position, end = _element(certificate, body)
        fields = list(_elements(certificate, position, end))
        # [version], serial number, signature algorithm, issuer, validity, subject
        _, start, end = fields[5 if fields[0][0] == VERSION else 4]
        if end - start > NAME_BYTES_MAX:
            raise AuthenticationError(f"the subject of the certificate is longer than {NAME_BYTES_MAX} bytes")
        names = [_rdn(certificate, position, end) for _, position, end in _elements(certificate, start, end)]
    except (IndexError, UnicodeDecodeError) as error:
        raise AuthenticationError("the subject of the certificate is malformed") from error
    return ",".join(reversed(names))


def _rdn(data: bytes, start: int, end: int) -> str:
    """Return one relative distinguished name: an attribute, or several joined by a plus."""
    return "+".join(_attribute(data, position, stop) for _, position, stop in _elements(data, start, end))


def _attribute(data: bytes, start: int, end: int) -> str:
    (_, *kind), (tag, *value) = _elements(data, start, end)
    oid = _oid(data[kind[0] : kind[1]])
    keyword = KEYWORDS.get(oid)
    if keyword is None or tag not in TEXT_TAGS:
        header = data[kind[1] : value[0]]
        return f"{keyword or oid}=#{(header + data[value[0] : value[1]]).hex()}"
    return f"{keyword}={_escape(data[value[0] : value[1]].decode(errors='replace'))}"


def _escape(text: str) -> str:
    escaped = "".join(f"\\{char}" if char in ESCAPED else "\\00" if char == "\0" else char for char in text)
    inner = escaped.strip(" \r")
    lead = len(escaped) - len(escaped.lstrip(" \r"))
    trail = escaped[lead + len(inner) :]
    return "".join(f"\\{char}" for char in escaped[:lead]) + inner + "".join(f"\\{char}" for char in trail)


def _oid(data: bytes) -> str:
    numbers, value = [], 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield tag, start and end of the content of each DER element between two positions."""
    while start < end:
        element = _element(data, start)
        if element[2] > end:
            raise IndexError("an element is longer than what contains it")
        yield element
        start = element[2]


def _element(data: bytes, position: int) -> tuple[int, int, int]:
    """Return tag, start and end of the content of the DER element at a position. Raises IndexError."""
    tag, size = data[position], data[position + 1]
    position += 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(data[position : position + count], "big")
        position += count
    if position + size > len(data):
        raise IndexError("an element is longer than the certificate")
    return tag, position, position + size


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of ssl.principal.mapping.rules; without a pattern it is DEFAULT."""

    pattern: Pattern | None = None
    replacement: Replacement = ()
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the mapped name, None if the pattern does not match the whole name."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Java: the whole must match, and then each match is replaced.
        result = replace_matches(self.pattern, self.replacement, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


class PrincipalMapper:
    """ssl.principal.mapping.rules. The first rule that matches counts."""

    __slots__ = ("_rules",)

    def __init__(self, text: str) -> None:
        """Parse the rules. Raises SecurityConfigError."""
        self._rules = tuple(_parse_rules(text))

    def map_name(self, name: str) -> str:
        """Return a principal's name. Raises AuthenticationError: no rule matches."""
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return mapped
        raise AuthenticationError(f"no rule of ssl.principal.mapping.rules matches {name}")


def _parse_rules(text: str) -> Iterator[Rule]:
    text, position = text.strip(), 0
    while position < len(text):
        match = RULE.match(text, position)
        if match is None:
            raise _invalid(f"`{text[position:]}` does not begin with DEFAULT or RULE:pattern/replacement/[LU]")
        if match["default"]:
            yield Rule()
        elif match["pattern"] is not None:
            yield _rule(match["pattern"], match["replacement"], match["case"])
        position = match.end()


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    try:
        compiled = compile_pattern(pattern)
        return Rule(compiled, parse_replacement(replacement, compiled), case)
    except ValueError as error:
        raise _invalid(str(error)) from error


def _invalid(reason: str) -> SecurityConfigError:
    return SecurityConfigError("ssl.principal.mapping.rules", reason)
