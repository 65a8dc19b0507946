"""Checks the identity of the directories before a process uses them."""

from contextlib import ExitStack

from kvorum.cluster.local.formatting import unmounted_hint
from kvorum.cluster.process.exits import Exit
from kvorum.cluster.process.hosting import Refusal
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.storage.checkpoints import LOCK, CheckpointError, MetaProperties, read_meta_properties


def identity_of(disk: Disk, settings: Settings, folder: str) -> MetaProperties:
    """Return a directory's meta.properties. Raises Refusal: not formatted, or of another node."""
    try:
        found = read_meta_properties(disk, folder)
    except (CheckpointError, OSError) as error:
        raise Refusal(Exit.DATA_REFUSED, str(error)) from error
    if found is None:
        raise Refusal(
            Exit.CONFIG,
            f"{folder} has no meta.properties, so this node has no data there; {unmounted_hint(folder)}; "
            "only a new node is formatted (kvorum format)",
        )
    if found.node_id != settings.int("node.id"):
        raise Refusal(
            Exit.DATA_REFUSED,
            f"{folder} belongs to node {found.node_id}, the configuration is for node {settings.int('node.id')}",
        )
    return found


def lock_directory(disk: Disk, folder: str, stack: ExitStack) -> None:
    """Hold the directory's lock until the stack ends. Raises Refusal: another process holds it."""
    path = f"{folder}/{LOCK}"
    if not stack.enter_context(disk.lock(path)):
        raise Refusal(Exit.BUSY, f"another process holds the lock {path}: only one process may use {folder}")
