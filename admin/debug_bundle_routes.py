"""The debug bundle over HTTP: what is in it is in admin/debug_bundle."""

from datetime import UTC, datetime

from kvorum.admin.debug_bundle import Bundles, file_name
from kvorum.admin.metadata_reader import MetadataReader
from kvorum.admin.operations import Call, NoBody, Operation, Stream

ZIP = "application/zip"


class DebugBundleRoutes:
    """The path of one server."""

    def __init__(self, reader: MetadataReader) -> None:
        """Read the metadata through this reader, which others share."""
        self._bundles = Bundles(reader)

    async def get_debug_bundle(self, call: Call[NoBody]) -> Stream:
        """Gather what helps to look into a fault, as a ZIP: what the cluster and its processes tell, and no records.

        Its manifest.json says what could not be got, and why: one that nobody answers is a bundle, too.
        """
        made_at = datetime.fromtimestamp(call.clock.wall_ms() / 1000, UTC)
        return Stream(media=ZIP, chunks=self._bundles.pieces(call), file=file_name(made_at))

    def operations(self) -> list[Operation]:
        """Return the path."""
        return [
            Operation(
                method="GET",
                path="/v1/debug-bundle",
                summary="What helps to look into a fault, as a ZIP",
                handle=self.get_debug_bundle,
                media=(ZIP,),
            )
        ]
