"""What somebody who has a token may do. Apart from what the API is made of, whose modules are dear to import."""

from enum import IntEnum


class Role(IntEnum):
    """Who may do what: each may do what those below it may."""

    READ = 0
    """Look at everything, records too."""
    OPERATE = 1
    """Change what runs, not what there is: records, leaders, places of groups, transactions."""
    ADMIN = 2
