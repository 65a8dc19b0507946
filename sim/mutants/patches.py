"""Applies a mistake to production code and removes it: replaces attributes in this process, and restores them.

No production module knows of mutants, so a mutant names its target; if the target does not exist, it raises PatchError
instead of changing nothing and being "not caught".
"""

import sys
from types import ModuleType, TracebackType
from typing import Final, Self

from kvorum.runtime.compiled import is_compiled


class PatchError(Exception):
    """The code that a mutant replaces no longer exists: adapt the mutant to the present code."""


class Patches:
    """Replaced attributes; leaving the context puts all of them back, in reverse."""

    def __init__(self) -> None:
        """Create it without replacements."""
        self._before: Final[list[tuple[object, str, object]]] = []

    def replace(self, owner: object, name: str, value: object) -> None:
        """Replace an attribute that a class or a module itself defines. Raises PatchError where it has none.

        Neither has a compiled one: what calls it knows it already.
        """
        module = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", "")
        if module in sys.modules and is_compiled(module):
            raise PatchError(f"{module} is compiled, and no part of it can be replaced: run mutants on Python alone")
        if name not in vars(owner):
            raise PatchError(f"{getattr(owner, '__name__', owner)} has no {name}: the mutant changes nothing")
        self._before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore everything."""
        while self._before:
            owner, name, value = self._before.pop()
            setattr(owner, name, value)
