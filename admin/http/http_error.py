"""The error of an HTTP request."""


class HttpError(Exception):
    """A request that is rejected: the status, the name of the error, and why."""

    def __init__(self, status: int, error: str, message: str) -> None:
        """Keep the three values."""
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message
