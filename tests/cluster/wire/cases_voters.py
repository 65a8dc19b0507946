"""Voters of a quorum whose voters are fixed (kraft.version 0): what is refused, and in which order it is looked at."""

from collections.abc import Callable

from kvorum.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kvorum.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from tests.cluster.wire.case import Case
from tests.cluster.wire.world import Json, World

DIRECTORY = Uuid(bytes(range(1, 17)))
Run = Callable[[World], Json]


def added(
    voter_id: int = 77,
    directory: Uuid = DIRECTORY,
    listener: str | None = "CONTROLLER",
    cluster: str | None = None,
    version: int = 1,
) -> Run:
    """Ask for a voter; its listener is one that nobody listens at."""
    listeners = [] if listener is None else [Listener(name=listener, host="127.0.0.1", port=1)]
    request = AddRaftVoterRequest(
        cluster_id=cluster, timeout=5000, voter_id=voter_id, voter_directory_id=directory, listeners=listeners
    )
    return lambda world: world.ask(request, version)


def removed(voter_id: int = 77, directory: Uuid = DIRECTORY, cluster: str | None = None) -> Run:
    """Ask for one voter less."""
    request = RemoveRaftVoterRequest(cluster_id=cluster, voter_id=voter_id, voter_directory_id=directory)
    return lambda world: world.ask(request, 0)


CASES = (
    Case("voter-add-static", "AddRaftVoter v1 in a static quorum", added()),
    Case("voter-add-static-v0", "AddRaftVoter v0 in a static quorum", added(version=0)),
    Case("voter-add-other-cluster", "AddRaftVoter with another cluster's id", added(cluster="another")),
    Case("voter-add-negative", "AddRaftVoter of voter -1", added(-1)),
    Case("voter-add-no-directory", "AddRaftVoter without a directory id", added(directory=ZERO_UUID)),
    Case("voter-add-no-listener", "AddRaftVoter without a listener", added(listener=None)),
    Case("voter-add-other-listener", "AddRaftVoter with a listener that is not the controllers'", added(listener="X")),
    Case("voter-remove-static", "RemoveRaftVoter in a static quorum", removed()),
    Case("voter-remove-other-cluster", "RemoveRaftVoter with another cluster's id", removed(cluster="another")),
    Case("voter-remove-negative", "RemoveRaftVoter of voter -1", removed(-1)),
    Case("voter-remove-no-directory", "RemoveRaftVoter without a directory id", removed(directory=ZERO_UUID)),
)
