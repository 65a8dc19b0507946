"""Passwords checked against SCRAM credentials, for protocols that send the password: HTTP Basic, a login page.

The salted password takes milliseconds to compute: it is done in a thread, and a success is remembered for a short time,
as a keyed hash. Unknown users and wrong passwords cannot be distinguished by the answer, nor by its time as long as the
computation takes less than the delay of failures.
"""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from kvorum.runtime import blocking
from kvorum.runtime.logs import get_logger
from kvorum.security.credentials import ITERATIONS_MIN, CredentialStore, ScramCredential, ScramMechanism
from kvorum.security.errors import AuthenticationError
from kvorum.security.scram_keys import SALT_BYTES, derive_credential

CHECKS_MAX: Final = 4
"""Passwords that are checked at a time, each in a thread."""
WAITING_MAX: Final = 64
"""Further ones that wait for their turn."""
ACCEPTED_MAX: Final = 1_000
ACCEPTED_SECONDS: Final = 60.0
"""Time for which an accepted password needs no computation."""
PASSWORD_CHARS_MAX: Final = 1_024
REJECTED: Final = "wrong user name or password"
"""The message for clients."""

UserCredentials: TypeAlias = Mapping[ScramMechanism, ScramCredential]
FindCredentials: TypeAlias = Callable[[str], Awaitable[UserCredentials]]
"""Returns a user's credentials, empty for an unknown user. Raises CredentialsUnavailable."""

log = get_logger("security")


class CredentialsUnavailable(Exception):
    """Users cannot be checked now; the message is the reason."""


class TooManyChecks(CredentialsUnavailable):
    """WAITING_MAX passwords wait to be checked."""


class _Accepted(NamedTuple):
    credential: ScramCredential
    digest: bytes
    until_s: float


def find_in(store: Callable[[], CredentialStore]) -> FindCredentials:
    """Return what finds the credentials of the present store, which is in memory."""

    async def find(user: str) -> UserCredentials:
        found = {mechanism: store().scram_credential(mechanism, user) for mechanism in ScramMechanism}
        return {mechanism: credential for mechanism, credential in found.items() if credential is not None}

    return find


def strongest(credentials: UserCredentials) -> ScramCredential | None:
    """Return the credential that identifies a user's password; None without credentials."""
    return credentials[max(credentials)] if credentials else None


@dataclass(slots=True)
class PasswordChecker:
    """Checks passwords on one event loop."""

    find: FindCredentials
    secret: bytes = field(repr=False)
    """Random; keys the remembered hashes, and the salts of unknown users."""
    failure_delay_ms: int
    """Time after which a failure is answered (connection.failed.authentication.delay.ms)."""
    _accepted: OrderedDict[str, _Accepted] = field(default_factory=OrderedDict, repr=False)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CHECKS_MAX))
    _waiting: int = 0

    async def check(self, user: str, password: str) -> None:
        """Return if the password is the user's. Raises AuthenticationError after the delay, CredentialsUnavailable."""
        loop = asyncio.get_running_loop()
        answer_at_s = loop.time() + self.failure_delay_ms / 1000
        credentials = await self.find(user)
        digest = hmac.digest(self.secret, password.encode(errors="surrogateescape"), "sha256")
        known = self._accepted.get(user)
        if (
            known is not None
            and loop.time() < known.until_s
            and known.credential in credentials.values()
            and hmac.compare_digest(known.digest, digest)
        ):
            return
        found = await self._verify(user, password, credentials)
        if found is None or not credentials:
            await asyncio.sleep(answer_at_s - loop.time())
            raise AuthenticationError(f"{'wrong password of' if credentials else 'unknown'} user {user!r}", REJECTED)
        self._accepted[user] = _Accepted(found, digest, loop.time() + ACCEPTED_SECONDS)
        self._accepted.move_to_end(user)
        while len(self._accepted) > ACCEPTED_MAX:
            self._accepted.popitem(last=False)

    async def _verify(self, user: str, password: str, credentials: UserCredentials) -> ScramCredential | None:
        """Return the credential that the password fits."""
        if len(password) > PASSWORD_CHARS_MAX:
            return None
        if self._waiting >= WAITING_MAX:
            raise TooManyChecks(f"{WAITING_MAX} passwords are being checked; try again")
        self._waiting += 1
        try:
            async with self._turns:
                candidates = credentials or {ScramMechanism.SCRAM_SHA_512: self._fake(user)}
                data = password.encode(errors="surrogateescape")
                return await blocking.run(asyncio.get_running_loop(), fitting_credential, data, candidates)
        finally:
            self._waiting -= 1

    def _fake(self, user: str) -> ScramCredential:
        """Return the credential of an unknown user: no password fits it."""
        data = hmac.digest(self.secret, b"unknown\0" + user.encode(errors="surrogateescape"), "sha512")
        return ScramCredential(data[:SALT_BYTES], data, data, ITERATIONS_MIN)


def fitting_credential(password: bytes, credentials: UserCredentials) -> ScramCredential | None:
    """Return the credential of a password among those of a user. Takes milliseconds: call it in a thread."""
    found = None
    for mechanism, credential in credentials.items():
        derived = derive_credential(mechanism, password, credential.salt, credential.iterations)
        if hmac.compare_digest(derived.stored_key, credential.stored_key):
            found = credential
    return found
