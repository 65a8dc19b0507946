"""Errors of authentication."""


class AuthenticationError(Exception):
    """The peer did not authenticate.

    `str(error)` is the reason for the log and never contains a secret. `response_message` is returned to the client in
    SaslAuthenticate; None: the general message of the mechanism (a client must not learn which part was wrong).
    """

    def __init__(self, reason: str, response_message: str | None = None) -> None:
        """Store the reason for the log and the message for the client."""
        super().__init__(reason)
        self.response_message = response_message


class SecurityConfigError(Exception):
    """A security configuration cannot work. One line: the key, the file, the reason, what to do."""

    def __init__(self, key: str, reason: str) -> None:
        """Store the key of the configuration without its listener prefix."""
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason
