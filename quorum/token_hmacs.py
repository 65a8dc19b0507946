"""HMACs of delegation tokens, computed once, and tokens by HMAC. One per node, on its event loop."""

from typing import Final

from kvorum.quorum.image.delegation_tokens import DelegationTokensImage, TokenImage
from kvorum.quorum.steps import Steps, pieces
from kvorum.security.delegation_tokens import token_hmac

TOKENS_MAX: Final = 100_000
"""Limit of tokens. Up to twice as many HMACs are stored (40 MB): then those of removed tokens are dropped, with all."""


class TokenHmacs:
    """HMACs by token id, and the reverse. Without a secret key: disabled."""

    __slots__ = ("_by_id", "_ids", "_searched", "_secret_key")

    def __init__(self, secret_key: str | None) -> None:
        """Start empty. `secret_key` is delegation.token.secret.key; an empty one disables tokens as none does."""
        self._secret_key = secret_key or None
        self._by_id: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._searched: DelegationTokensImage | None = None
        """Image all of whose tokens are known here."""

    @property
    def enabled(self) -> bool:
        """Whether delegation tokens are in use."""
        return self._secret_key is not None

    def of(self, token_id: str) -> bytes:
        """Return a token's HMAC. Delegation tokens must be enabled."""
        found = self._by_id.get(token_id)
        if found is None:
            assert self._secret_key is not None, "callers check that delegation tokens are enabled"
            if len(self._by_id) >= 2 * TOKENS_MAX:
                self._drop()
            found = self._by_id[token_id] = token_hmac(self._secret_key, token_id)
            self._ids[found] = token_id
        return found

    def find(self, image: DelegationTokensImage, hmac: bytes) -> Steps[TokenImage | None]:
        """Return the token with this HMAC. Cost: constant for a known one, else all tokens once after each change."""
        if hmac not in self._ids and image is not self._searched:
            if len(self._by_id) >= TOKENS_MAX:
                self._drop()
            for piece in pieces(image.tokens):
                for token_id in piece:
                    self.of(token_id)
                yield
            self._searched = image
        found = self._ids.get(hmac)
        return None if found is None else image.tokens.get(found)

    def _drop(self) -> None:
        self._by_id.clear()
        self._ids.clear()
        self._searched = None
