"""The voters of the metadata quorum: adding and removing one (KIP-853). Source: Kafka's Admin.addRaftVoter."""

from collections.abc import Sequence

from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from kvorum.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kvorum.protocol.uuids import Uuid


async def add_voter(
    cluster: ClusterClient, node_id: int, directory_id: Uuid, endpoints: Sequence[tuple[str, str, int]]
) -> None:
    """Make an observing controller a voter; `endpoints`: (listener name, host, port), the default one included.

    Raises Unreachable; KafkaError DUPLICATE_VOTER, INVALID_REQUEST, UNSUPPORTED_VERSION (a static quorum),
    REQUEST_TIMED_OUT: it lags, another change is in progress, or the commit took too long (check before a retry).
    """
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout=cluster.wait_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in endpoints],
    )
    answer = await cluster.ask(request, AddRaftVoterResponse)
    refuse(answer.error_code, answer.error_message)


async def remove_voter(cluster: ClusterClient, node_id: int, directory_id: Uuid) -> None:
    """Make a voter one that only follows. Raises Unreachable; KafkaError as `add_voter`, and VOTER_NOT_FOUND."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    answer = await cluster.ask(request, RemoveRaftVoterResponse)
    refuse(answer.error_code, answer.error_message)
