"""Roles of tokens. A separate module, because the API's modules are expensive to import."""

from enum import IntEnum


class Role(IntEnum):
    """Roles in ascending order: each includes those below it."""

    READ = 0
    """Read everything, records included."""
    OPERATE = 1
    """Change running state but not resources: records, leaders, group offsets, transactions."""
    ADMIN = 2
