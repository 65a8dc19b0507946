"""The error that ends one run while the others continue."""


class StalledError(Exception):
    """A cluster or a client has stopped making progress; the message is the reason."""
