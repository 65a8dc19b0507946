"""Regular expressions and replacements with Java's syntax. RE2: linear in time, whatever the text."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import re2  # type: ignore[import-untyped]  # the wheel has no stubs

Pattern: TypeAlias = Any
"""A compiled one of re2, which has no types."""
Replacement: TypeAlias = tuple[str | int, ...]
"""Literal texts and numbers of groups."""
MEMORY_MAX: Final = 512 * 1024
"""Limit of a compiled pattern."""
REFERENCE: Final = re.compile(r"\\(?P<escaped>.?)|\$\{(?P<name>[A-Za-z0-9]+)\}|\$(?P<number>[0-9]*)", re.DOTALL)


def compile_pattern(text: str) -> Pattern:
    """Return a compiled pattern. Raises ValueError with the reason."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"pattern `{text}`: {shown}") from error


def parse_replacement(text: str, pattern: Pattern) -> Replacement:
    """Return the parts of a replacement: \\x is x, and $12 is group 1 and a 2 if there are fewer groups.

    Raises ValueError with the reason.
    """
    return tuple(_parts(text, pattern.groups, pattern.groupindex))


def replace_matches(pattern: Pattern, replacement: Replacement, text: str, count: int | None = None) -> str:
    """Replace the first matches (None: all) as Java does: `.*` matches twice, the second time nothing."""
    parts, position = [], 0
    for index, match in enumerate(pattern.finditer(text)):
        if index == count:
            break
        parts.append(text[position : match.start()])
        parts += [part if isinstance(part, str) else match.group(part) or "" for part in replacement]
        position = match.end()
    return "".join((*parts, text[position:]))


def _parts(text: str, groups: int, names: Mapping[str, int]) -> Iterator[str | int]:
    position = 0
    for match in REFERENCE.finditer(text):
        yield text[position : match.start()]
        position = match.end()
        digits = match["number"]
        if match["name"] is not None:
            if match["name"] not in names:
                raise ValueError(f"replacement `{text}`: the pattern has no group {match['name']}")
            yield names[match["name"]]
            continue
        if digits is None:
            if not match["escaped"]:
                raise ValueError(f"replacement `{text}` ends with a backslash")
            yield match["escaped"]
            continue
        if not digits:
            raise ValueError(f"replacement `{text}`: $ needs the number of a group; write \\$ for the character")
        count = len(digits)
        while count > 1 and int(digits[:count]) > groups:
            count -= 1
        if int(digits[:count]) <= groups:
            yield int(digits[:count])
            yield digits[count:]
        elif groups:
            yield f"${digits}"  # Kafka: a literal text
        else:
            raise ValueError(f"replacement `{text}`: the pattern has no group ${digits}")
    yield text[position:]
