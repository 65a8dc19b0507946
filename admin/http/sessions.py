"""Sessions of the console: a random id in a cookie stands for a user that gave its password once. Sans-IO.

The table is in memory: a restart of the process ends all sessions. Neither the password nor the id is stored, only the
hash of the id.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kvorum.security.credentials import ScramCredential

IDLE_MS: Final = 30 * 60_000
"""A session without requests for this time ends."""
LIFETIME_MS: Final = 8 * 3_600_000
SESSIONS_MAX: Final = 1_000
"""The session that was idle for longest ends if there are more."""
SESSIONS_OF_USER_MAX: Final = 10


@dataclass(slots=True)
class Session:
    """One session."""

    user: str
    credential: ScramCredential = field(repr=False)
    """The credential that the password fitted: the session ends when the user has another one, or none."""
    ends_ms: int
    used_ms: int


class Sessions:
    """The sessions of one server."""

    def __init__(self, new_id: Callable[[], str], now_ms: Callable[[], int]) -> None:
        """`new_id` is unpredictable; `now_ms` is monotonic."""
        self._new_id = new_id
        self._now_ms = now_ms
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        """By the hash of the id, the one that was idle for longest first."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._sessions)

    def begin(self, user: str, credential: ScramCredential) -> str:
        """Begin a session and return its id."""
        now_ms, session_id = self._now_ms(), self._new_id()
        own = [key for key, session in self._sessions.items() if session.user == user]
        for key in own[: max(0, len(own) - SESSIONS_OF_USER_MAX + 1)]:
            del self._sessions[key]
        self._sessions[_key(session_id)] = Session(user, credential, now_ms + LIFETIME_MS, now_ms)
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session_id

    def find(self, session_id: str) -> Session | None:
        """Return a session that has not ended, and note its use."""
        key, now_ms = _key(session_id), self._now_ms()
        session = self._sessions.get(key)
        if session is None:
            return None
        if now_ms >= min(session.ends_ms, session.used_ms + IDLE_MS):
            del self._sessions[key]
            return None
        session.used_ms = now_ms
        self._sessions.move_to_end(key)
        return session

    def end(self, session_id: str) -> None:
        """End a session. Idempotent."""
        self._sessions.pop(_key(session_id), None)


def _key(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode(errors="surrogateescape")).digest()
