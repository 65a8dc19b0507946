"""Users with SCRAM credentials over HTTP (KIP-554): list, create, change passwords, delete.

A password is in the body of one request, and nowhere else: it is salted in the admin process.
"""

from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation, Rows
from kvorum.admin.http.paging import behind, next_query
from kvorum.admin.http.parameters import ROWS, check_word, optional_text, text
from kvorum.admin.v1.models import Strict
from kvorum.client.namespaces.users import Users
from kvorum.client.values.user import User
from kvorum.protocol.errors import ErrorCode
from kvorum.security.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism

MECHANISMS = {each.mechanism_name: each for each in ScramMechanism}
PASSWORD_CHARS_MAX = 10_000
"""No limit of Kafka's; a longer text is no password."""
USER_NAME = text("user", "name of the user")
MECHANISM = optional_text("mechanism", "SASL mechanism; default: all", enum=list(MECHANISMS))
AFTER = optional_text("after", "name of the last user of the previous page")


class CredentialEntry(BaseModel):
    """A credential of a user, without its salt and keys."""

    mechanism: str = Field(examples=list(MECHANISMS))
    iterations: int


class UserEntry(BaseModel):
    """A user with its SCRAM credentials."""

    name: str
    credentials: list[CredentialEntry]


class UserUpsert(Strict):
    """A password of a user for one mechanism. The credential of another mechanism is unchanged."""

    password: SecretStr = Field(min_length=1, max_length=PASSWORD_CHARS_MAX)
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="SASL mechanism that the password is for"
    )
    iterations: int = Field(
        ITERATIONS_MIN,
        ge=ITERATIONS_MIN,
        le=ITERATIONS_MAX,
        description="Iterations of the salted hash: cost of each guess of a password, and of each login",
    )


def shown(user: User) -> UserEntry:
    """Return a user for HTTP."""
    return UserEntry(
        name=user.name,
        credentials=[
            CredentialEntry(mechanism=each.mechanism.mechanism_name, iterations=each.iterations)
            for each in user.credentials
        ],
    )


async def list_users(call: Call[NoBody]) -> Rows:
    """List the users with SCRAM credentials, by name."""
    users = await Users(call.cluster).list()
    page, more = behind(users, lambda user: user.name, AFTER.of(call), ROWS.of(call))
    return Rows(rows=[shown(each) for each in page], next_query=next_query(call, page[-1].name) if more else None)


async def get_user(call: Call[NoBody]) -> BaseModel:
    """Get a user."""
    (user,) = await Users(call.cluster).list([USER_NAME.of(call)])
    return shown(user)


async def upsert_user(call: Call[UserUpsert]) -> None:
    """Create a user, or replace its password for a mechanism. Open connections remain."""
    body = call.body
    await Users(call.cluster).upsert(
        USER_NAME.of(call),
        body.password.get_secret_value(),
        mechanism=MECHANISMS[body.mechanism],
        iterations=body.iterations,
    )


async def delete_user(call: Call[NoBody]) -> None:
    """Delete a user, or its credential of one mechanism. Open connections remain."""
    name = MECHANISM.of(call)
    if name is not None:
        check_word("mechanism", name, list(MECHANISMS))
    await Users(call.cluster).delete(USER_NAME.of(call), None if name is None else MECHANISMS[name])


USERS = "/v1/users"
USER = "/v1/users/{user}"
OPERATIONS = [
    Operation.get(
        USERS,
        "List users",
        list_users,
        UserEntry,
        many=True,
        parameters=(AFTER, ROWS),
        command=Command(name="users list", examples=("", "-o json"), columns=("name", "credentials")),
    ),
    Operation.get(
        USER,
        "Get a user",
        get_user,
        UserEntry,
        parameters=(USER_NAME,),
        command=Command(name="users describe", examples=("alice",)),
    ),
    Operation(
        method="PUT",
        path=USER,
        summary="Create a user or change its password",
        handle=upsert_user,
        body=UserUpsert,
        status=204,
        parameters=(USER_NAME,),
        fields={ErrorCode.UNACCEPTABLE_CREDENTIAL: "password"},
    ),
    Operation(
        method="DELETE",
        path=USER,
        summary="Delete a user or one of its credentials",
        handle=delete_user,
        status=204,
        parameters=(USER_NAME, MECHANISM),
        command=Command(
            name="users delete",
            examples=("alice", "alice --mechanism SCRAM-SHA-256"),
            each="user",
            done="{user} deleted",
        ),
    ),
]
