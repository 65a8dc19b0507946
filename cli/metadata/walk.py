"""Output of `ls` for the metadata, in `kvorum metadata` and in the shell. Sans-IO."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvorum.client.metadata_log.metadata_tree import ordered

if TYPE_CHECKING:
    from kvorum.client.metadata_log.metadata_tree import Tree

    Match = tuple[str, Tree | str]


def ls_lines(found: "Sequence[Match]") -> Iterator[str]:
    """Yield the names in folders, below their own where there are several."""
    for where, node in found:
        if isinstance(node, str):
            yield where
            continue
        if len(found) > 1:
            yield f"{where}:"
        for name, _ in ordered(node):
            yield name


def ls_rows(found: "Sequence[Match]") -> list[dict[str, object]]:
    """Return the same as rows: path, and whether it is a folder."""
    rows: list[dict[str, object]] = []
    for where, node in found:
        if isinstance(node, str):
            rows.append({"path": where, "folder": False})
            continue
        for name, child in ordered(node):
            rows.append({"path": f"{where.rstrip('/')}/{name}", "folder": not isinstance(child, str)})
    return rows
