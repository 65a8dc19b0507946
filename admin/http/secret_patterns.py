"""Patterns of values that may be secret."""

import re
from typing import Final

SECRET: Final = re.compile(
    r"password|passphrase|secret|token|credential|jaas|(api|access|private)[._-]?key", re.IGNORECASE
)
"""In names of configs, of any plug-in: their types are unknown here."""
LOGIN: Final = re.compile(r"(://[^/@:\s]*:)[^/@\s]*@")
"""A name and a password in an address."""
