"""SCRAM credentials of users in `kafka-configs`. Source: Kafka's ConfigCommand (alterUserScramCredentialConfigs).

Kafka's tool fails with two mechanisms in one call, which a cluster takes in two requests; here these are two requests.
No error shows a part of a password.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvorum.cli.kafka.entity_options import EntityError
from kvorum.client.namespaces.users import Users
from kvorum.client.values.user import User
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.security.credentials import ITERATIONS_MIN, ScramMechanism

MECHANISMS: Mapping[str, ScramMechanism] = {each.mechanism_name: each for each in ScramMechanism}
CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]{1,9}),)?password=(.+)", re.DOTALL)
SERVERS_DEFAULT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramChange:
    """A credential to set for a mechanism."""

    mechanism: ScramMechanism
    iterations: int
    password: str = field(repr=False)


def scram_names(names: Sequence[str]) -> list[str]:
    """Return the config names that are SCRAM mechanisms."""
    return [name for name in names if name in MECHANISMS]


def scram_change(name: str, text: str) -> ScramChange:
    """Read [iterations=N,]password=P, in brackets or not. Raises EntityError."""
    mechanism = MECHANISMS[name]
    found = CREDENTIAL.fullmatch(text.removeprefix("[").removesuffix("]"))
    if found is None:
        raise EntityError(
            f"Invalid credential property {mechanism.name}=[hidden]: give [iterations=N,]password=PASSWORD"
        )
    iterations = SERVERS_DEFAULT if found[1] is None else int(found[1])
    if iterations == SERVERS_DEFAULT:
        iterations = ITERATIONS_MIN
    if iterations < ITERATIONS_MIN:
        raise EntityError(f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {name}")
    return ScramChange(mechanism=mechanism, iterations=iterations, password=found[2])


def check_scram_entity(entity: Mapping[str, str], values: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Raise EntityError if credentials cannot be changed together with this entity or these configs."""
    for verb, names in (("added", list(values)), ("deleted", list(deleted))):
        scram = scram_names(names)
        if scram and entity.keys() != {"users"}:
            raise EntityError(
                f"Only quota configs can be {verb} for 'clients' using --bootstrap-server. "
                f"Unexpected config names: {', '.join(scram)}"
            )
    if "" in entity.values():
        raise EntityError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    names = [*values, *deleted]
    if len(scram_names(names)) < len(names):
        raise EntityError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )


async def alter_user(cluster: ClusterClient, user: str, changes: Sequence[ScramChange], deleted: Sequence[str]) -> None:
    """Delete and set credentials of a user. Raises KafkaError."""
    users = Users(cluster)
    for name in deleted:
        await users.delete(user, MECHANISMS[name])
    for change in changes:
        await users.upsert(user, change.password, mechanism=change.mechanism, iterations=change.iterations)


async def described_users(cluster: ClusterClient, name: str | None) -> Sequence[User]:
    """Return a user, or all; none if it does not exist, and from controllers, which do not describe users."""
    try:
        return await Users(cluster).list(None if name is None else [name])
    except KafkaError as error:
        if error.code not in (ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise
        return []


def user_line(user: User) -> str:
    """Return the line of a user's credentials."""
    credentials = ", ".join(
        f"{each.mechanism.mechanism_name}=iterations={each.iterations}" for each in user.credentials
    )
    return f"SCRAM credential configs for user-principal '{user.name}' are {credentials}"
