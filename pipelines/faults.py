"""Texts of options and messages; and which value of a record its type cannot hold.

Imports nothing, since it is also used where rows are read: in Spark's executors.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

ALIKE: Final = 0.6
"""From which likeness on (difflib's ratio) a name is offered as what was meant."""


def meant(name: str, names: Iterable[str], *, said: str = "did you mean {}?") -> str:
    """Return `; did you mean ...?`, or nothing when no name is like it."""
    folded = {re.sub(r"[._]", "-", other).lower(): other for other in names}
    close = difflib.get_close_matches(re.sub(r"[._]", "-", name).lower(), list(folded), n=1, cutoff=ALIKE)
    return "; " + said.format(repr(folded[close[0]])) if close else ""


SHOWN_MAX: Final = 60
"""Characters of a value in a message."""


def shown(value: object, characters_max: int = SHOWN_MAX) -> str:
    """Return a value as a message has it."""
    text = str(value)
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."


def as_text(value: object) -> str:
    """Return an option's value as Spark and Kafka Connect write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as Spark and Kafka Connect write them."""
    return {key: as_text(value) for key, value in options.items()}


def separated(value: object) -> Any:
    """Return the items of `a, b`; other values as they are."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


class Unfit(ValueError):
    """A value of a record that its type cannot hold: which field, and why.

    No later attempt can read it; run/failures recognises the class's name in Spark's texts.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        """Keep the reason; `within` adds the fields around it."""
        super().__init__(f"field {path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def within(self, name: str) -> "Unfit":
        """Return the error as one of a field (or `[index]`) of a surrounding value."""
        separator = "." if self.path and not self.path.startswith("[") else ""
        return Unfit(self.reason, f"{name}{separator}{self.path}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by reason and path."""
        return type(self), (self.reason, self.path)
