"""Consecutive JSON objects, separated as their bytes arrive.

Sans-IO.

    {"value": ...}{"value": ...}
    {"value": ...}                 with or without white space in between

Each byte is read once, however small the pieces are. The content of an object is not validated here: only its strings
are recognised, so that a brace in a string ends nothing.
"""

import re
from typing import Final

OUTSIDE: Final = re.compile(rb'["{}]')
INSIDE: Final = re.compile(rb'["\\]')
WHITE: Final = re.compile(rb"[ \t\r\n]*")
QUOTE, BACKSLASH, OPEN = b'"', b"\\", b"{"


class MalformedStream(Exception):
    """The remainder is not a JSON object, or too long; the body cannot be read further."""


class Splitter:
    """Objects of one body."""

    def __init__(self, size_max: int) -> None:
        """Take objects of at most this number of bytes."""
        self._size_max = size_max
        self._data = bytearray()
        self._position = 0
        self._depth = 0
        self._in_string = False

    def feed(self, data: bytes) -> None:
        """Process more bytes."""
        self._data += data

    def next(self) -> bytes | None:
        """Return the next whole object, None where it has not all come. Raises MalformedStream."""
        if not self._depth:
            white = WHITE.match(self._data)
            assert white is not None, "white space may be nothing"
            del self._data[: white.end()]
            self._position = 0
            if self._data and not self._data.startswith(OPEN):
                raise MalformedStream(f"a JSON object was expected, not {bytes(self._data[:20])!r}")
        while (end := self._step()) is None:
            if self._position >= len(self._data):
                if len(self._data) > self._size_max:
                    raise MalformedStream(f"an object is longer than {self._size_max} bytes")
                return None
        if end > self._size_max:
            raise MalformedStream(f"an object is longer than {self._size_max} bytes")
        found = bytes(self._data[:end])
        del self._data[:end]
        self._position = 0
        return found

    def finish(self) -> None:
        """End the input. Raises MalformedStream where an object has only begun."""
        if self._depth:
            raise MalformedStream("the body ended in the middle of an object")

    def _step(self) -> int | None:
        """Go to the next byte that matters; return where the object ends if it is that one."""
        found = (INSIDE if self._in_string else OUTSIDE).search(self._data, self._position)
        if found is None:
            self._position = max(self._position, len(self._data))
            return None
        byte, self._position = found.group(), found.end()
        if byte == BACKSLASH:
            self._position += 1  # whatever it is, it ends no string; it may not have come yet
        elif byte == QUOTE:
            self._in_string = not self._in_string
        else:
            self._depth += 1 if byte == OPEN else -1
            if not self._depth:
                return found.end()
        return None
