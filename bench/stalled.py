"""The error that ends one run and lets the others go on."""


class StalledError(Exception):
    """A cluster or a client no longer does what is asked, and why one thinks so."""
