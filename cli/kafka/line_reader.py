"""Lines to records as kafka-console-producer reads them. Sans-IO. Source: Kafka's LineMessageReader."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kvorum.cli.records.record_sender import Header


class Line(NamedTuple):
    """A parsed line."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LineError(ValueError):
    """A line that has no key or headers where it should, or properties that cannot be; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReader:
    """Format of lines: headers, key, value. `headers_separator` is a regular expression, the others are texts."""

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: str = "\t"
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    null_marker: str | None = None
    ignore_error: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "LineReader":
        """Read properties as `parse.key=true`; others are left aside. Raises LineError for marks that are the same."""
        found = cls(
            parse_key=is_true(properties, "parse.key"),
            parse_headers=is_true(properties, "parse.headers"),
            key_separator=properties.get("key.separator", "\t"),
            headers_delimiter=properties.get("headers.delimiter", "\t"),
            headers_separator=properties.get("headers.separator", ","),
            headers_key_separator=properties.get("headers.key.separator", ":"),
            null_marker=properties.get("null.marker"),
            ignore_error=is_true(properties, "ignore.error"),
        )
        try:
            re.compile(found.headers_separator)
        except re.error as error:
            raise LineError(f"headers.separator={found.headers_separator}: {error}") from None
        marks = {
            "headers.delimiter": found.headers_delimiter,
            "headers.separator": found.headers_separator,
            "headers.key.separator": found.headers_key_separator,
        }
        names = list(marks)
        for first, second in ((0, 1), (0, 2), (1, 2)):
            if marks[names[first]] == marks[names[second]]:
                raise LineError(f"{names[first]} and {names[second]} may not be equal")
        for name in ("key.separator", "headers.separator", "headers.delimiter", "headers.key.separator"):
            if found.null_marker == {"key.separator": found.key_separator, **marks}[name]:
                raise LineError(f"null.marker and {name} may not be equal")
        return found

    def read(self, line: str, number: int) -> Line:
        """Split a line. Raises LineError."""
        headers = self._part(self.parse_headers, line, 0, self.headers_delimiter, "headers delimiter", number)
        start = 0 if headers is None else len(headers) + len(self.headers_delimiter)
        key = self._part(self.parse_key, line, start, self.key_separator, "key separator", number)
        start += 0 if key is None else len(key) + len(self.key_separator)
        found = [] if headers is None or headers == self.null_marker else self._headers(headers, number)
        return Line(self._bytes(key), self._bytes(line[start:]), found)

    def _part(self, wanted: bool, line: str, start: int, mark: str, name: str, number: int) -> str | None:
        if not wanted:
            return None
        end = line.find(mark, start)
        if end >= 0:
            return line[start:end]
        if self.ignore_error:
            return None
        raise LineError(f"No {name} found on line number {number}: '{line}'")

    def _headers(self, text: str, number: int) -> list[Header]:
        found: list[Header] = []
        for pair in java_split(self.headers_separator, text):
            key, mark, value = pair.partition(self.headers_key_separator)
            if not mark and not self.ignore_error:
                raise LineError(f"No header key separator found in pair '{pair}' on line number {number}")
            if mark and key == self.null_marker:
                raise LineError(f"Header keys should not be equal to the null marker '{key}' as they can't be null")
            found.append((key, self._bytes(value) if mark else None))
        return found

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self.null_marker else text.encode()


def java_split(pattern: str, text: str) -> list[str]:
    """Return the parts of a text as Java's Pattern.split does: empty ones at its end are left out."""
    parts, place = [], 0
    for match in re.finditer(pattern, text):
        if match.end() > 0:  # what matches nothing at the beginning cuts nothing off
            parts.append(text[place : match.start()])
            place = match.end()
    if not parts:
        return [text]
    parts.append(text[place:])
    while parts and not parts[-1]:
        parts.pop()
    return parts


def is_true(properties: Mapping[str, str], key: str) -> bool:
    """Return whether a property is true."""
    return properties.get(key, "").strip().lower() == "true"
