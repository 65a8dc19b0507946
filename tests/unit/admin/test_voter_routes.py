"""Voters are added and removed over HTTP in front of a fake cluster."""

import asyncio
from typing import Any

from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kvorum.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kvorum.protocol.schema import Message
from tests.unit.admin.fake import FakeCluster, call, serve

DIRECTORY, OTHER = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
BODY = {"id": 104, "directory_id": DIRECTORY, "listeners": [{"host": "127.0.0.1", "port": 9093}]}


class Quorum(FakeCluster):
    """Has voters by id and directory id."""

    def reset(self) -> None:
        super().reset()
        self.voters = {(101, OTHER)}
        self.listeners: list[tuple[str, str, int]] = []

    async def ask(  # type: ignore[override]  # one class for every answer
        self, request: Message, response: type, address: Address | None = None, *, version_max: int | None = None
    ) -> Any:
        if isinstance(request, AddRaftVoterRequest):
            if any(node_id == request.voter_id for node_id, _ in self.voters):
                return AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="it is one")
            self.voters.add((request.voter_id, str(request.voter_directory_id)))
            self.listeners = [(each.name, each.host, each.port) for each in request.listeners]
            return AddRaftVoterResponse(error_message=None)
        assert isinstance(request, RemoveRaftVoterRequest)
        voter = (request.voter_id, str(request.voter_directory_id))
        if voter not in self.voters:
            return RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND, error_message="nobody")
        self.voters.remove(voter)
        return RemoveRaftVoterResponse(error_message=None)


def test_voters_come_and_go() -> None:
    async def run() -> None:
        cluster = Quorum()
        async with serve(cluster) as client:
            status, added = await call(client, "POST", "/v1/quorum/voters", BODY)
            assert (status, added) == (201, {"id": 104, "directory_id": DIRECTORY})
            assert (104, DIRECTORY) in cluster.voters
            assert cluster.listeners == [("CONTROLLER", "127.0.0.1", 9093)]
            status, problem = await call(client, "POST", "/v1/quorum/voters", BODY)
            assert (status, problem["error"]) == (409, "DUPLICATE_VOTER")
            path = "/v1/quorum/voters/104"
            assert (await call(client, "DELETE", f"{path}/{OTHER}"))[0] == 404
            assert (await call(client, "DELETE", f"{path}/{DIRECTORY}"))[0] == 204
            assert cluster.voters == {(101, OTHER)}
            assert (await call(client, "DELETE", f"{path}/{DIRECTORY}"))[1]["error"] == "VOTER_NOT_FOUND"

    asyncio.run(run())


def test_an_unknown_voter_is_reported() -> None:
    async def run() -> None:
        async with serve(Quorum()) as client:
            for wrong in ({"directory_id": "short"}, {"id": -1}, {"listeners": []}, {"more": 1}):
                assert (await call(client, "POST", "/v1/quorum/voters", BODY | wrong))[0] == 400, wrong
            for path in ("x/" + DIRECTORY, "1/short"):
                status, problem = await call(client, "DELETE", f"/v1/quorum/voters/{path}")
                assert (status, problem["field"]) == (400, "voter" if path.startswith("x") else "directory")

    asyncio.run(run())
