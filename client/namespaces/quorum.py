"""The metadata quorum."""

from collections.abc import Iterable

from kvorum.client import voters
from kvorum.client.values.quorum import Listener, Quorum, quorum_value
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.uuids import Uuid


class MetadataQuorum:
    """The metadata quorum of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def describe(self) -> Quorum:
        """Return the leader, voters and observers. Raises KafkaError REQUEST_TIMED_OUT: there is no leader."""
        return quorum_value(await self._client.describe_quorum())

    async def add_voter(self, node_id: int, directory_id: Uuid, listeners: Iterable[Listener]) -> None:
        """Make an observing controller a voter; `listeners` include the quorum's first controller listener.

        Raises KafkaError DUPLICATE_VOTER, INVALID_REQUEST, UNSUPPORTED_VERSION (a static quorum), REQUEST_TIMED_OUT: it
        lags, another change is in progress, or the commit took too long (describe the quorum before a retry).
        """
        endpoints = [(each.name, each.host, each.port) for each in listeners]
        await voters.add_voter(self._client, node_id, directory_id, endpoints)

    async def remove_voter(self, node_id: int, directory_id: Uuid) -> None:
        """Make a voter an observer. Raises KafkaError VOTER_NOT_FOUND, and as `add_voter`."""
        await voters.remove_voter(self._client, node_id, directory_id)
