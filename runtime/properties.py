"""Java's .properties text: reading it with line numbers, and writing it (java.util.Properties).

Sans-IO. Comments begin with # or !; a key ends at the first unescaped =, : or blank; a line that ends in an odd number
of backslashes continues in the next, whose leading blanks are ignored; `\\t \\n \\r \\f \\uXXXX` are escapes, any other
escaped character is itself. A key may occur twice: the caller decides (and can report the lines).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

BLANKS = " \t\f"
SEPARATORS = "=:"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
UNICODE_DIGITS = 4


class PropertiesError(Exception):
    """An invalid line: its number (from 1) and the error."""

    def __init__(self, line: int, reason: str) -> None:
        """Hold both."""
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Property:
    """One key and its text, and the number (from 1) of the line it begins on."""

    key: str
    text: str
    line: int


def parse_properties(text: str) -> list[Property]:
    """Return the properties in the order they are written. Raises PropertiesError."""
    return [split_property(logical, number) for number, logical in logical_lines(text)]


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each property's line with its continuations joined, and the number of its first line."""
    whole, first = "", 0
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        stripped = line.lstrip(BLANKS)
        if not first and (not stripped or stripped[0] in "#!"):
            continue
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        first = first or number
        if backslashes % 2:
            whole += stripped[:-1]
            continue
        if whole + stripped:
            yield first, whole + stripped
        whole, first = "", 0
    if whole:
        yield first, whole


def split_property(line: str, number: int) -> Property:
    """Cut one logical line into key and text."""
    end = 0
    while end < len(line) and line[end] not in SEPARATORS and line[end] not in BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(BLANKS)
    if rest and rest[0] in SEPARATORS:
        rest = rest[1:].lstrip(BLANKS)
    return Property(unescape(line[:end], number), unescape(rest, number), number)


def unescape(text: str, number: int) -> str:
    """Replace escapes. Raises PropertiesError for a \\u without four hexadecimal digits."""
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            parts.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped != "u":
            parts.append(ESCAPES.get(escaped, escaped))
            continue
        digits = text[position : position + UNICODE_DIGITS]
        position += UNICODE_DIGITS
        if len(digits) < UNICODE_DIGITS or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise PropertiesError(number, f"\\u{digits} is not \\u and four hexadecimal digits")
        parts.append(chr(int(digits, 16)))
    # Java writes a character beyond the basic plane as two escapes (UTF-16).
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def format_properties(mapping: Mapping[str, str]) -> str:
    """Write properties so that `parse_properties` (and Java) reads them back."""
    return "".join(f"{escape(key, key=True)}={escape(text)}\n" for key, text in mapping.items())


def escape(text: str, *, key: bool = False) -> str:
    """Escape characters that would end a key or a line, and leading blanks."""
    names = {value: f"\\{name}" for name, value in ESCAPES.items()} | {"\\": "\\\\"}
    parts: list[str] = []
    for position, character in enumerate(text):
        if character in names:
            parts.append(names[character])
        elif (character == " " and (key or position == 0)) or (key and character in "=:#!"):
            parts.append("\\" + character)
        else:
            parts.append(character)
    return "".join(parts)
