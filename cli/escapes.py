r"""Escapes in marks and formats of the command line: \n, \t, \x00 and the like mean the byte. Sans-IO."""

import re

from kvorum.cli.text_values import encode_text

ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
LETTERS = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


class EscapeError(ValueError):
    """A backslash before an unknown character; the message has it."""


def unescape(text: str) -> bytes:
    """Return the bytes of a text with escapes. Raises EscapeError."""
    parts: list[bytes] = []
    place = 0
    for match in ESCAPE.finditer(text):
        parts.append(encode_text(text[place : match.start()]))
        if match[1] is not None:
            parts.append(bytes.fromhex(match[1]))
        elif match[2] in LETTERS:
            parts.append(LETTERS[match[2]])
        else:
            raise EscapeError(rf"\{match[2]} is not an escape sequence; use \n \r \t \0 \\ and \x00 to \xff")
        place = match.end()
    if text.endswith("\\") and place < len(text):
        raise EscapeError("trailing backslash")
    return b"".join((*parts, encode_text(text[place:])))
