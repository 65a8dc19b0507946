"""The metadata of a cluster: its brokers, and the metadata log."""

from kvorum.client.metadata_log.metadata_reader import MetadataReader
from kvorum.client.metadata_log.metadata_tree import Tree, at_path
from kvorum.client.values.cluster import ClusterDescription, cluster_value
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError


class Metadata:
    """The metadata of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client
        self._reader = MetadataReader()

    async def cluster(self, *, fenced: bool = True) -> ClusterDescription:
        """Return the cluster's id, controller and brokers; `fenced`: also brokers that are fenced (KIP-1073)."""
        return cluster_value(await self._client.describe_cluster(fenced=fenced))

    async def log_end_offset(self) -> int:
        """Return the high watermark of the metadata log: the next offset after its last committed record."""
        return (await self._client.describe_quorum()).topics[0].partitions[0].high_watermark

    async def tree(self, path: str = "/", *, at: int | None = None) -> Tree | str:
        """Return the metadata below a path, such as /image/topics/byName, as of now or behind the record at an offset.

        A folder is a dict, a value is a text. Secrets are hidden. Raises LookupError: there is no such path; KafkaError
        OFFSET_OUT_OF_RANGE; KafkaError UNSUPPORTED_VERSION: the cluster is not Kvorum; MetadataProblem: the log is not
        readable, or larger than 64 MiB.
        """
        first, last = await self._reader.span(self._client)
        if at is not None and not first <= at <= last:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the metadata is available at offsets {first} to {last}")
        return at_path(await self._reader.tree(self._client, last if at is None else at), path)
