"""What the metadata copies of stopped nodes say: each node's snapshot and log, replayed and compared."""

from pathlib import Path

from kvorum.chaos.workload.metadata_copies import StoredMetadata, read_metadata
from kvorum.cluster.local.local import LocalCluster
from kvorum.quorum.image import MetadataImage


def image_near(name: str, copy: StoredMetadata, wanted: int) -> MetadataImage:
    """Return the image at an end offset, or at the end of the oldest snapshot where the copy begins later."""
    if copy.snapshots and min(copy.snapshots) > wanted:
        wanted = min(copy.snapshots)
    image = copy.image_at(wanted)
    assert image is not None, f"{name}: something is missing before offset {wanted}"
    return image


def assert_copies_are_equal(cluster: LocalCluster, *names: str) -> dict[str, StoredMetadata]:
    """The nodes' stored batches are equal where they overlap, and so are their images at the common end.

    A copy that begins behind the common end with its snapshot is compared there: nothing but signs of life may lie
    between the two, as after a pause. Returns the copies by node.
    """
    copies = {name: read_metadata(Path(cluster.node(name).data)) for name in names}
    known: dict[int, tuple[str, bytes]] = {}
    for name, copy in copies.items():
        for offset, (_, data) in copy.log.items():
            other, before = known.setdefault(offset, (name, data))
            assert before == data, f"the batches at {offset} of {other} and {name} differ"
    common = min(copy.end_offset for copy in copies.values())
    assert common > 0
    digests = {name: image_near(name, copy, common).digest() for name, copy in copies.items()}
    reach = {
        name: (sorted(copy.snapshots), min(copy.log, default=None), copy.end_offset) for name, copy in copies.items()
    }
    assert len(set(digests.values())) == 1, f"images at {common}: {digests}; snapshots, log start and end: {reach}"
    return copies
