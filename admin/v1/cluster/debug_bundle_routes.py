"""The debug bundle over HTTP; its contents are in admin/v1/cluster/debug_bundle."""

from datetime import UTC, datetime

from kvorum.admin.http.operations import Call, NoBody, Operation, Stream
from kvorum.admin.v1.cluster.debug_bundle import Bundles, file_name
from kvorum.client.metadata_log.metadata_reader import MetadataReader

ZIP = "application/zip"


class DebugBundleRoutes:
    """The path of one server."""

    def __init__(self, reader: MetadataReader) -> None:
        """Read the metadata through this reader, which others share."""
        self._bundles = Bundles(reader)

    async def get_debug_bundle(self, call: Call[NoBody]) -> Stream:
        """Return diagnostics of the cluster and its processes as a ZIP, without records.

        Its manifest.json lists missing parts with the reason. A bundle of an unreachable cluster is valid too.
        """
        made_at = datetime.fromtimestamp(call.clock.wall_ms() / 1000, UTC)
        return Stream(media=ZIP, chunks=self._bundles.pieces(call), file=file_name(made_at))

    def operations(self) -> list[Operation]:
        """Return the path."""
        return [
            Operation(
                method="GET",
                path="/v1/debug-bundle",
                summary="Get a debug bundle",
                handle=self.get_debug_bundle,
                media=(ZIP,),
            )
        ]
