"""`kvorum format`: assigns a node's directories their identity, once.

It writes meta.properties (cluster id, node id, a directory id each) to every log directory and the metadata
directory. A directory with an identity is rejected: after reformatting, a node that lost its data would appear to
have it.

A node that lost a directory is formatted again after its remains are removed: intact directories are skipped
(`ignore_formatted`), the lost one returns empty *under a new directory id*. By that id the other controllers detect
that it lost entries that it acknowledged: it neither votes nor counts until it is readmitted (quorum/raft/voters.py),
automatically while a majority is alive, else by `kvorum quorum readmit`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypedDict

from kvorum.cluster.local.paths import OWN_FOLDER
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.batches import METADATA_FOLDER
from kvorum.quorum.bootstrap_file import remove_bootstrap, write_bootstrap
from kvorum.quorum.raft.opening import format_raft
from kvorum.quorum.raft.voters import Endpoint as VoterEndpoint
from kvorum.quorum.raft.voters import Endpoints, VoterSet
from kvorum.quorum.records import MetadataRecord
from kvorum.runtime.chance import random_uuid_bytes
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import (
    LOOPBACK,
    advertised_controller_listeners,
    controller_listener_names,
    split_address,
    voters,
)
from kvorum.storage.checkpoints import META_PROPERTIES, MetaProperties, read_meta_properties, write_meta_properties

CONTROLLER_FOLDERS = ("raft", METADATA_FOLDER)
"""Files of a formatted controller directory: it is formatted only if it has none of them."""


class FormatError(Exception):
    """A directory that cannot be formatted, or is not: which, and why."""


def unmounted_hint(folder: str) -> str:
    """Return what to check before a directory without an identity is formatted."""
    return (
        f"check first that its disk is mounted (findmnt -T {folder}) and that the path is right, because formatting an "
        "empty mount point hides the data of this node"
    )


def controller_directory(settings: Settings) -> str:
    """Return the controller's own directory: metadata.log.dir, or in a combined node one beside it.

    There broker and controller are two processes, and the broker keeps its copy of the metadata in metadata.log.dir.
    """
    folder = settings.str("metadata.log.dir")
    return f"{folder.rstrip('/')}-controller" if "broker" in settings.list("process.roles") else folder


def raft_directory(settings: Settings) -> str:
    """Return where the controller's journal and snapshots are."""
    return f"{controller_directory(settings)}/{CONTROLLER_FOLDERS[0]}"


def log_directories(settings: Settings) -> list[str]:
    """Return the node's directories, each once: the controller's own, then the broker's."""
    roles = settings.list("process.roles")
    found = [controller_directory(settings)] if "controller" in roles else []
    if "broker" in roles:
        found += [settings.str("metadata.log.dir"), *settings.list("log.dirs")]
    return list(dict.fromkeys(found))


def node_folder(settings: Settings) -> str:
    """Return where a node keeps its pid files and chosen ports: in metadata.log.dir, by default the first of log.dirs.

    No other node has that directory, and without it this one does not start anyway.
    """
    return f"{settings.str('metadata.log.dir').rstrip('/')}/{OWN_FOLDER}"


def new_cluster_id() -> str:
    """Return a random cluster id as Kafka writes one."""
    return str(Uuid(random_uuid_bytes()))


def is_formatted(disk: Disk, settings: Settings) -> bool:
    """Return whether any of the node's directories has an identity."""
    return any(read_meta_properties(disk, folder) is not None for folder in log_directories(settings))


def new_directory_id() -> Uuid:
    """Return a random directory id."""
    return Uuid(random_uuid_bytes())


@dataclass(frozen=True, slots=True)
class FormattedDirectory:
    """A directory that was given its identity."""

    folder: str
    directory_id: Uuid


@dataclass(frozen=True, slots=True)
class InitialController:
    """A first voter of a dynamic quorum."""

    directory_id: Uuid
    endpoints: list[VoterEndpoint]


class InitialVoters(TypedDict):
    """Initial voters with which a Raft directory is formatted."""

    voter_ids: list[int]
    directories: VoterSet | None
    endpoints: Endpoints | None


def format_node(
    disk: Disk,
    settings: Settings,
    cluster_id: str,
    voter_directories: Mapping[int, Uuid] | None = None,
    *,
    ignore_formatted: bool = False,
    initial: Mapping[int, InitialController] | None = None,
    bootstrap: Sequence[MetadataRecord] = (),
) -> list[FormattedDirectory]:
    """Write meta.properties into each directory, and a controller's empty journal; return the formatted directories.

    `voter_directories` are the directory ids of all controllers, if one command formats the whole cluster: then a
    majority is sufficient for the first start. Otherwise the controllers agree on them, which needs all of them once.
    `initial` are the first voters of a dynamic quorum (KIP-853), none if this node begins as an observer.
    `bootstrap` are records for the first metadata of a new cluster, besides those of its features.
    Raises FormatError if a directory has an identity; with `ignore_formatted` only if it is that of another node.
    """
    folders = [each for each in log_directories(settings) if not _has_identity(disk, settings, each, cluster_id)]
    if len(folders) < len(log_directories(settings)) and not ignore_formatted:
        formatted = next(each for each in log_directories(settings) if each not in folders)
        raise FormatError(f"{formatted} is formatted already (cluster {cluster_id}, node {settings.int('node.id')})")
    done: list[FormattedDirectory] = []
    for folder in folders:
        known = voter_directories if folder == controller_directory(settings) else None
        node_id, own = settings.int("node.id"), folder == controller_directory(settings)
        directory_id = known[node_id] if known is not None else new_directory_id()
        if own and initial is not None and node_id in initial:
            directory_id = initial[node_id].directory_id
        identity = MetaProperties(cluster_id, node_id, directory_id)
        try:
            _format_directory(disk, settings, folder, identity, known, initial if own else None, bootstrap)
        except OSError:
            undo_format(disk, settings, done)
            raise
        done.append(FormattedDirectory(folder, directory_id))
    return done


def undo_format(disk: Disk, settings: Settings, formatted: Sequence[FormattedDirectory]) -> None:
    """Remove the files that the same command wrote before it failed (disk full), so that it can be repeated.

    Only for directories that were not formatted before, and that no process has used since.
    """
    for each in formatted:
        with suppress(OSError):
            if disk.exists(f"{each.folder}/{META_PROPERTIES}"):
                disk.remove(f"{each.folder}/{META_PROPERTIES}")
            if each.folder == controller_directory(settings):
                if disk.exists(raft_directory(settings)):
                    disk.remove_tree(raft_directory(settings))
                remove_bootstrap(disk, each.folder)


def _voters_at_first(
    settings: Settings, directories: Mapping[int, Uuid] | None, initial: Mapping[int, InitialController] | None
) -> InitialVoters:
    if initial is None:
        known: VoterSet | None = dict(directories.items()) if directories is not None else None
        return {"voter_ids": sorted(voters(settings)), "directories": known, "endpoints": None}
    return {
        "voter_ids": sorted(initial),
        "directories": {node_id: bytes(each.directory_id) for node_id, each in initial.items()},
        "endpoints": {node_id: list(each.endpoints) for node_id, each in initial.items()},
    }


def standalone(settings: Settings) -> dict[int, InitialController]:
    """Return this controller as the one voter of a new dynamic quorum, under a new directory id."""
    return {settings.int("node.id"): InitialController(new_directory_id(), own_endpoints(settings))}


def own_endpoints(settings: Settings) -> list[VoterEndpoint]:
    """Return this controller's endpoints for the quorum: those it advertises, the default first.

    A listener on all addresses gets the host that controller.quorum.voters has for this node, if any.
    """
    host, _ = voters(settings).get(settings.int("node.id"), (LOOPBACK, 0))
    found = {each.listener_name: each for each in advertised_controller_listeners(settings, host)}
    names = [name for name in controller_listener_names(settings) if name in found]
    return [(name, found[name].host, found[name].port) for name in names]


def parse_initial_controllers(text: str, listener_name: str) -> dict[int, InitialController]:
    """Read ID@HOST:PORT:DIRECTORY_ID,... (Kafka's DynamicVoters). Raises FormatError."""
    found: dict[int, InitialController] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        node, at, rest = item.partition("@")
        place, _, directory = rest.rpartition(":")
        where = split_address(place)
        if not at or not node.isdecimal() or where is None or not where[1]:
            raise FormatError(f"--initial-controllers: {item!r} is not of the form ID@HOST:PORT:DIRECTORY_ID")
        if int(node) in found:
            raise FormatError(f"--initial-controllers: duplicate node {node}")
        try:
            directory_id = Uuid.parse(directory)
        except ValueError as error:
            raise FormatError(f"--initial-controllers: {item!r}: {error}") from error
        found[int(node)] = InitialController(directory_id, [(listener_name, *where)])
    if not found:
        raise FormatError("--initial-controllers contains no controller")
    return found


def _has_identity(disk: Disk, settings: Settings, folder: str, cluster_id: str) -> bool:
    """Return whether a directory belongs to this node of this cluster. Raises FormatError if it belongs to another."""
    found = read_meta_properties(disk, folder) if disk.exists(folder) else None
    if found is None:
        return False
    if (found.cluster_id, found.node_id) != (cluster_id, settings.int("node.id")):
        raise FormatError(f"{folder} is formatted already (cluster {found.cluster_id}, node {found.node_id})")
    return True


def _make_folder(disk: Disk, folder: str) -> None:
    """Create a folder and its parents so that their names outlive a power cut."""
    missing = []
    path = folder.rstrip("/")
    while path and not disk.exists(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    disk.mkdir(folder)
    for each in reversed(missing):
        parent, slash, _ = each.rpartition("/")
        disk.sync_dir(parent or slash or ".")


def _format_directory(
    disk: Disk,
    settings: Settings,
    folder: str,
    identity: MetaProperties,
    voter_directories: Mapping[int, Uuid] | None,
    initial: Mapping[int, InitialController] | None,
    bootstrap: Sequence[MetadataRecord],
) -> None:
    _make_folder(disk, folder)
    is_controllers = "controller" in settings.list("process.roles") and folder == controller_directory(settings)
    if is_controllers:
        remains = [name for name in CONTROLLER_FOLDERS if disk.exists(f"{folder}/{name}")]
        if remains:
            raise FormatError(
                f"{folder} contains {' and '.join(remains)} but no meta.properties: move {folder} away first"
            )
    try:
        if is_controllers:
            format_raft(
                disk,
                raft_directory(settings),
                cluster_id=identity.cluster_id,
                node_id=identity.node_id,
                directory_id=identity.directory_id,
                **_voters_at_first(settings, voter_directories, initial),
            )
            if bootstrap:
                write_bootstrap(disk, folder, bootstrap)
            else:  # left by a command that did not finish
                remove_bootstrap(disk, folder)
        # Last: a directory has its identity only when it is complete.
        write_meta_properties(disk, folder, identity)
    except FileExistsError:  # not written by this command
        raise
    except OSError:
        undo_format(disk, settings, [FormattedDirectory(folder, identity.directory_id)])
        raise
