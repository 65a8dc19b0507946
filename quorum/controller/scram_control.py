"""AlterUserScramCredentials (51): v0 (KIP-554, ScramControlManager).

Each user succeeds or fails alone; the successful ones are one change. A user may be named once in a request, for one
mechanism. Order of the checks per entry, deletions first: named before, name, mechanism, then iterations or existence.
Added by Kvorum: limits of the sizes that a record takes. Errors never contain a salt or a password.
"""

from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.scram import ScramImage, credential_record
from kvorum.quorum.records import MetadataRecord, RemoveUserScramCredential
from kvorum.security.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
from kvorum.security.scram_keys import credential_from

RECORDS_MAX: Final = 10_000
"""Credentials that one request may change, as in Kafka's other controls (MAX_RECORDS_PER_USER_OP)."""
NAME_BYTES_MAX: Final = 32_767
"""Size of a user's name: Kafka's longest string."""
SALT_BYTES_MAX: Final = 1_024
"""Clients make salts of some 30 bytes."""


def alter_user_scram_credentials(
    context: Context, request: AlterUserScramCredentialsRequest
) -> Result[AlterUserScramCredentialsResponse]:
    """Set and delete credentials. Raises KafkaError POLICY_VIOLATION: more than RECORDS_MAX changes."""
    if len(request.deletions) + len(request.upsertions) > RECORDS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    outcomes: dict[str, MetadataRecord | KafkaError] = {}
    for deletion in request.deletions:
        outcomes[deletion.name] = _outcome(outcomes, deletion, context.image.scram)
    for upsertion in request.upsertions:
        outcomes[upsertion.name] = _outcome(outcomes, upsertion, context.image.scram)
    return Result(
        records=[outcome for outcome in outcomes.values() if not isinstance(outcome, KafkaError)],
        response=AlterUserScramCredentialsResponse(
            results=[
                result_row(user, outcome if isinstance(outcome, KafkaError) else None)
                for user, outcome in outcomes.items()
            ]
        ),
    )


def result_row(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    """Return the result for one user."""
    if error is None:
        return AlterUserScramCredentialsResult(user=user, error_message=None)
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)


def users_of(request: AlterUserScramCredentialsRequest) -> list[str]:
    """Return the users that a request names, each once."""
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return list(dict.fromkeys(names))


def _outcome(
    earlier: dict[str, MetadataRecord | KafkaError],
    entry: ScramCredentialDeletion | ScramCredentialUpsertion,
    image: ScramImage,
) -> MetadataRecord | KafkaError:
    """Return the record of an entry, or why its user fails: of two errors the first counts."""
    former = earlier.get(entry.name)
    if isinstance(former, KafkaError):
        return former
    try:
        if former is not None:
            message = "A user credential cannot be altered twice in the same request"
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
        mechanism = _checked_mechanism(entry)
        if isinstance(entry, ScramCredentialUpsertion):
            return _upsert(entry, mechanism)
        if mechanism not in image.of(entry.name):
            message = "Attempt to delete a user credential that does not exist"
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
        return RemoveUserScramCredential(name=entry.name, mechanism=mechanism)
    except KafkaError as error:
        return error


def _checked_mechanism(entry: ScramCredentialDeletion | ScramCredentialUpsertion) -> ScramMechanism:
    """Check the name and return the mechanism. Raises KafkaError."""
    if not entry.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(entry.name.encode()) > NAME_BYTES_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Username must not have more than {NAME_BYTES_MAX} bytes")
    try:
        return ScramMechanism(entry.mechanism)
    except ValueError:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None


def _upsert(upsertion: ScramCredentialUpsertion, mechanism: ScramMechanism) -> MetadataRecord:
    """Return the record of a new credential. Raises KafkaError UNACCEPTABLE_CREDENTIAL."""
    if upsertion.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if len(upsertion.salt) > SALT_BYTES_MAX:
        message = f"Salt must not have more than {SALT_BYTES_MAX} bytes"
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    credential = credential_from(mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations)
    return credential_record(upsertion.name, mechanism, credential)
