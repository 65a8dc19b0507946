"""HMACs of delegation tokens, computed once, and tokens by HMAC. One per node, on its event loop."""

from typing import Final

from kvorum.quorum.image.delegation_tokens import DelegationTokensImage, TokenImage
from kvorum.security.delegation_tokens import token_hmac

TOKENS_MAX: Final = 100_000
"""Limit of tokens, and of their HMACs here (20 MB): those of removed tokens are dropped with all others."""


class TokenHmacs:
    """HMACs by token id, and the reverse for the tokens of the latest image. Without a secret key: disabled."""

    __slots__ = ("_by_hmac", "_by_id", "_secret_key", "_seen")

    def __init__(self, secret_key: str | None) -> None:
        """Start empty. `secret_key` is delegation.token.secret.key; an empty one disables tokens as none does."""
        self._secret_key = secret_key or None
        self._by_id: dict[str, bytes] = {}
        self._by_hmac: dict[bytes, str] = {}
        self._seen: DelegationTokensImage | None = None

    @property
    def enabled(self) -> bool:
        """Whether delegation tokens are in use."""
        return self._secret_key is not None

    def of(self, token_id: str) -> bytes:
        """Return a token's HMAC. Delegation tokens must be enabled."""
        found = self._by_id.get(token_id)
        if found is None:
            assert self._secret_key is not None, "callers check that delegation tokens are enabled"
            if len(self._by_id) >= TOKENS_MAX:
                self._by_id.clear()
            found = self._by_id[token_id] = token_hmac(self._secret_key, token_id)
        return found

    def find(self, image: DelegationTokensImage, hmac: bytes) -> TokenImage | None:
        """Return the token with this HMAC. Cost: all tokens after a change of any, else constant."""
        if image is not self._seen:
            self._by_hmac = {self.of(token_id): token_id for token_id in image.tokens}
            self._seen = image
        token_id = self._by_hmac.get(bytes(hmac))
        return None if token_id is None else image.tokens.get(token_id)
