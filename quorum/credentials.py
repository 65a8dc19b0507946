"""Credentials of a node's metadata: what SASL mechanisms look up (security.credentials.CredentialStore).

A controller must authenticate its peers before Raft has applied anything: until then it uses the credentials that it
knew when it stopped (EarlyCredentials), so that neither a password that was changed nor a user that was deleted comes
back with a restart. At the first start these are the ones of `kvorum format --add-scram`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kvorum.protocol.records import batches
from kvorum.quorum.batches import decode_batch
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.scram import ScramDelta, ScramImage
from kvorum.quorum.metadata_log_file import joined
from kvorum.quorum.records import MetadataRecord, RemoveUserScramCredential, UserScramCredential
from kvorum.quorum.token_hmacs import TokenHmacs
from kvorum.security.credentials import ScramCredential, ScramMechanism, TokenCredential
from kvorum.security.delegation_tokens import token_scram_credential
from kvorum.security.principal import Principal
from kvorum.storage.log import Log

DERIVED_MAX: Final = 10_000
"""Limit of stored credentials of tokens. Each takes milliseconds to derive and some 500 bytes."""
READ_BYTES: Final = 1024 * 1024
SCRAM_RECORD: Final = b"UserScramCredential"
"""Part of the name of both types of records: batches without it are not decoded."""


@dataclass(frozen=True, slots=True)
class EarlyCredentials:
    """Credentials before the metadata is applied up to `end_offset`, as changes of what is applied already."""

    end_offset: int
    changes: ScramDelta

    def precede(self, image: MetadataImage) -> bool:
        """Return whether they are newer than the image."""
        return image.offset + 1 < self.end_offset or image.features.metadata_version == 0


NONE_EARLIER: Final = EarlyCredentials(0, ScramDelta(ScramImage()))


def bootstrap_credentials(records: Iterable[MetadataRecord]) -> EarlyCredentials:
    """Return the credentials with which a node was formatted."""
    changes = ScramDelta(ScramImage())
    for record in records:
        if isinstance(record, UserScramCredential):
            changes.replay(record)
    return EarlyCredentials(0, changes)


def stored_credentials(stored: Log) -> EarlyCredentials:
    """Read the changes of credentials from a controller's metadata log: off the event loop, it reads all of it.

    A change in several batches counts also if it was aborted: until the node has caught up, and no longer.
    Raises KafkaError, UnknownRecord, OSError.
    """
    changes = ScramDelta(ScramImage())
    offset, end_offset = stored.log_start_offset, stored.log_end_offset
    while offset < end_offset:
        view = memoryview(joined(stored.read(offset, READ_BYTES, upper_bound_offset=end_offset).parts))
        for position, header in batches(view):
            offset = header.next_offset
            if SCRAM_RECORD not in bytes(view[position : position + header.size]):
                continue
            for record in decode_batch(view, position, header):
                if isinstance(record, UserScramCredential | RemoveUserScramCredential):
                    changes.replay(record)
    return EarlyCredentials(end_offset, changes)


class MetadataCredentials:
    """See CredentialStore. One per node, on its event loop."""

    __slots__ = ("_derived", "_early", "_hmacs", "_image")

    def __init__(
        self, image: Callable[[], MetadataImage], hmacs: TokenHmacs, early: EarlyCredentials = NONE_EARLIER
    ) -> None:
        """Look up in the newest image."""
        self._image = image
        self._hmacs = hmacs
        self._early = early
        self._derived: OrderedDict[tuple[ScramMechanism, str], ScramCredential] = OrderedDict()

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the user's credential, None if there is none."""
        image = self._image()
        if self._early.precede(image):
            changed = self._early.changes.changes.get(user, {})
            if mechanism in changed:
                return changed[mechanism]
        return image.scram.of(user).get(mechanism)

    def token_credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """Return a delegation token's credential, None if there is no such token.

        The first use of a token takes milliseconds: its credential is derived then, never for many tokens at once.
        """
        token = self._image().delegation_tokens.tokens.get(token_id)
        if token is None or not self._hmacs.enabled:
            return None
        return TokenCredential(
            owner=Principal(token.owner.type, token.owner.name, token_authenticated=True),
            expires_at_ms=token.expires_at_ms,
            credential=self._derive(mechanism, token_id),
        )

    def _derive(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """Return the credential of a token; of too many the one that was not used for longest is dropped."""
        key = (mechanism, token_id)
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = token_scram_credential(mechanism, self._hmacs.of(token_id))
            if len(self._derived) > DERIVED_MAX:
                self._derived.popitem(last=False)
        else:
            self._derived.move_to_end(key)
        return found
