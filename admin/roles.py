"""Roles of tokens. A separate module, because the API's modules are expensive to import."""

from enum import IntEnum


class Role(IntEnum):
    """Roles in ascending order: each includes those below it."""

    READ = 0
    """Look at everything, records too."""
    OPERATE = 1
    """Change what runs, not what there is: records, leaders, places of groups, transactions."""
    ADMIN = 2
