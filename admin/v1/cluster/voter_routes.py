"""Voters of the metadata quorum over HTTP: add observers as voters, and remove voters (KIP-853)."""

from typing import Annotated

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import BadInput, Call, NoBody, Operation, number_of
from kvorum.admin.v1.models import INT32_MAX, Strict
from kvorum.client.voters import add_voter, remove_voter
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.uuids import Uuid

LISTENERS_MAX = 16
PORT_MAX = 65_535
EXAMPLE_DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"
Directory = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{22}$", examples=[EXAMPLE_DIRECTORY])]


class VoterListener(Strict):
    """Listener of a controller."""

    name: str = Field("CONTROLLER", min_length=1, max_length=249)
    host: str = Field(min_length=1, max_length=255, examples=["127.0.0.1"])
    port: int = Field(ge=1, le=PORT_MAX, examples=[9093])


class NewVoter(Strict):
    """An observing controller to make a voter. Its directory id is in its meta.properties and in GET /v1/quorum."""

    id: int = Field(ge=0, le=INT32_MAX, examples=[104])
    directory_id: Directory
    listeners: list[VoterListener] = Field(
        min_length=1, max_length=LISTENERS_MAX, description="They include the quorum's first controller listener"
    )


class AddedVoter(BaseModel):
    """The voters after the change."""

    id: int
    directory_id: str


def directory_of(text: str, field: str) -> Uuid:
    """Read a directory id. Raises BadInput."""
    try:
        return Uuid.parse(text)
    except ValueError as error:
        raise BadInput(field, str(error)) from error


async def add_quorum_voter(call: Call[NewVoter]) -> AddedVoter:
    """Make an observing controller without lag a voter. One at a time; responds once the set is committed."""
    body = call.body
    directory_id = directory_of(body.directory_id, "directory_id")
    endpoints = [(each.name, each.host, each.port) for each in body.listeners]
    await add_voter(call.cluster, body.id, directory_id, endpoints)
    return AddedVoter(id=body.id, directory_id=str(directory_id))


async def remove_quorum_voter(call: Call[NoBody]) -> None:
    """Make a voter an observer, so that it can be stopped. A leader hands over first."""
    node_id = number_of("voter", call.path["voter"], 0, INT32_MAX)
    await remove_voter(call.cluster, node_id, directory_of(call.path["directory"], "directory"))


OPERATIONS = [
    Operation(
        method="POST",
        path="/v1/quorum/voters",
        summary="Add a voter",
        handle=add_quorum_voter,
        body=NewVoter,
        answer=AddedVoter,
        status=201,
        fields={ErrorCode.INVALID_REQUEST: "listeners"},
    ),
    Operation(
        method="DELETE",
        path="/v1/quorum/voters/{voter}/{directory}",
        summary="Remove a voter",
        handle=remove_quorum_voter,
        status=204,
    ),
]
