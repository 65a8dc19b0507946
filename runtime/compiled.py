"""Compiled modules (setup.py): they behave as their sources, but parts of them cannot be replaced."""

import importlib.machinery
import sys

SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def is_compiled(module: str) -> bool:
    """Return whether an imported module is compiled."""
    return (getattr(sys.modules[module], "__file__", None) or "").endswith(SUFFIXES)


def compiled_count() -> int:
    """Return how many of our modules in this process are compiled; 0 where all is Python."""
    return sum(is_compiled(name) for name in sys.modules if name.startswith("kvorum."))
