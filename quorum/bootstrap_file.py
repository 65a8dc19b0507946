"""The records with which a controller was formatted: they begin a new cluster's metadata (kafka-storage's bootstrap).

One record per line, as in the metadata log. Read at each start; the active controller writes them into an empty log
only, so later starts have no use for them but the credentials of peers before anything is applied.
"""

from collections.abc import Sequence
from typing import Final

from kvorum.quorum.records import MetadataRecord, UnknownRecord, decode, encode
from kvorum.runtime.disk import Disk

BOOTSTRAP_FILE: Final = "bootstrap.records"
RECORDS_MAX: Final = 10_000
"""Limit of records: those of a format command's options."""


def write_bootstrap(disk: Disk, directory: str, records: Sequence[MetadataRecord]) -> None:
    """Write the records durably. Raises OSError."""
    assert len(records) <= RECORDS_MAX, "the command limits its options"
    disk.write_atomic(f"{directory}/{BOOTSTRAP_FILE}", b"".join(encode(record) + b"\n" for record in records))


def remove_bootstrap(disk: Disk, directory: str) -> None:
    """Remove the records, if there are any. Raises OSError."""
    if disk.exists(f"{directory}/{BOOTSTRAP_FILE}"):
        disk.remove(f"{directory}/{BOOTSTRAP_FILE}")


def read_bootstrap(disk: Disk, directory: str) -> list[MetadataRecord]:
    """Return the records, none without a file. Raises OSError, UnknownRecord with the line."""
    path = f"{directory}/{BOOTSTRAP_FILE}"
    if not disk.exists(path):
        return []
    found: list[MetadataRecord] = []
    for number, line in enumerate(disk.read(path).splitlines(), start=1):
        try:
            found.append(decode(line))
        except UnknownRecord as error:
            raise UnknownRecord(f"{path}, line {number}: {error}") from error
    return found
