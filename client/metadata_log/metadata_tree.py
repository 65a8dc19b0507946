"""An image of the metadata as a tree of names, like Kafka's metadata shell: folders and values.

    /image/cluster/1/fenced              /image/configs/TOPIC/orders/retention.ms
    /image/topics/byName/orders/0/isr    /image/features/finalizedVersions/metadata.version
    /image/topics/byId/ID                /image/producerIds/nextProducerId        /local/offset, /local/epoch
    /image/scram/SCRAM-SHA-256/ann/iterations            /image/delegationToken/ID/expirationTimestamp

It is built from the image's records, so that it is complete: records of a kind without its own path are in /image/TYPE.
Salts and keys of SCRAM credentials are left out.
Sans-IO. Source: Kafka's MetadataShell, ImageNode.
"""

import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from kvorum.protocol.schema import camel_case
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.records import (
    Config,
    DelegationToken,
    Feature,
    Partition,
    ProducerIds,
    RegisterBroker,
    Topic,
    UserScramCredential,
    encode,
)
from kvorum.runtime.config_types import HIDDEN
from kvorum.security.credentials import ScramMechanism

Tree: TypeAlias = dict[str, "Tree | str"]
DEFAULT_NAME = "<default>"
NUMBER_DIGITS_MAX = 10
"""Fields of a partition or broker."""


class NoSuchPath(LookupError):
    """A path that is not in the tree."""


def tree_of(image: MetadataImage, is_secret: Callable[[int, str], bool] = lambda kind, name: False) -> Tree:
    """Return the tree of an image; the values of configs that are a secret (resource type, name) are hidden."""
    root: Tree = {"image": {}, "local": {"offset": str(image.offset), "epoch": str(image.epoch)}}
    names: dict[object, str] = {}
    for record in image.to_records():
        fields = {camel_case(key): value for key, value in json.loads(encode(record)).items()}
        for key in ("type", "version"):
            fields.pop(key, None)
        match record:
            case Topic():
                names[record.topic_id] = record.name
                put(root, ("image", "topics", "byName", record.name, "id"), str(record.topic_id))
                put(root, ("image", "topics", "byId", str(record.topic_id)), record.name)
            case Partition():
                where = ("image", "topics", "byName", names[record.topic_id], str(record.partition_id))
                put_all(root, where, fields, ("topicId", "partitionId"))
            case RegisterBroker():
                put_all(root, ("image", "cluster", str(record.broker_id)), fields, ("brokerId",))
            case Config():
                kind = kind_name(record.resource_type)
                value = HIDDEN if is_secret(record.resource_type, record.name) else record.value
                put(root, ("image", "configs", kind, record.resource_name or DEFAULT_NAME, record.name), value)
            case Feature():
                put(root, ("image", "features", "finalizedVersions", record.name), str(record.level))
            case ProducerIds():
                put_all(root, ("image", "producerIds"), fields, ())
            case UserScramCredential():
                user = ("image", "scram", mechanism_name(record.mechanism), record.name)
                put(root, (*user, "iterations"), record.iterations)
            case DelegationToken():
                put_all(root, ("image", "delegationToken", record.token_id), fields, ("tokenId",))
            case _:
                kind = type(record).__name__
                number = len(folder(root, ("image", kind)))
                put_all(root, ("image", kind, str(number)), fields, ())
    return root


def kind_name(number: int) -> str:
    """Return the name of a type of resource; a newer one's number."""
    return ResourceType(number).name if number in ResourceType.__members__.values() else str(number)


def mechanism_name(number: int) -> str:
    """Return the name of a SCRAM mechanism; a newer one's number."""
    return ScramMechanism(number).mechanism_name if number in ScramMechanism.__members__.values() else str(number)


def folder(root: Tree, parts: tuple[str, ...]) -> Tree:
    """Return a folder, made if need be."""
    here = root
    for part in parts:
        found = here.setdefault(part, {})
        assert isinstance(found, dict), "a folder, no value"
        here = found
    return here


def put(root: Tree, parts: tuple[str, ...], value: object) -> None:
    """Store a value at a path."""
    folder(root, parts[:-1])[parts[-1]] = text_of(value)


def put_all(root: Tree, parts: tuple[str, ...], fields: Mapping[str, Any], left_out: tuple[str, ...]) -> None:
    """Put fields into a folder."""
    here = folder(root, parts)
    for key, value in fields.items():
        if key not in left_out:
            here[key] = text_of(value)


def text_of(value: object) -> str:
    """Return a value as text: a string unchanged, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def at_path(root: Tree, path: str) -> "Tree | str":
    """Return the entry at a path. Raises NoSuchPath."""
    here: Tree | str = root
    for part in filter(None, path.split("/")):
        if not isinstance(here, dict) or part not in here:
            raise NoSuchPath(path)
        here = here[part]
    return here


def find_matches(root: Tree, pattern: str) -> list[tuple[str, "Tree | str"]]:
    """Return (path, value) of each match; * and ? match parts of one name. Raises NoSuchPath for none."""
    found: list[tuple[str, Tree | str]] = [("", root)]
    for part in filter(None, pattern.split("/")):
        found = [
            (f"{path}/{name}", child)
            for path, node in found
            if isinstance(node, dict)
            for name, child in sort_entries(node)
            if name == part or fnmatch.fnmatchcase(name, part)
        ]
    if not found:
        raise NoSuchPath(pattern)
    return [(path or "/", node) for path, node in found]


def sort_entries(node: Tree) -> list[tuple[str, "Tree | str"]]:
    """Return the entries of a folder: numbers by their value, then names."""
    return sorted(node.items(), key=lambda item: place_of(item[0]))


def place_of(name: str) -> tuple[bool, int, str]:
    """Return the sort key of a name. Only ASCII digits are numbers (² is a valid group name)."""
    is_number = name.isascii() and name.isdecimal() and len(name) <= NUMBER_DIGITS_MAX
    return not is_number, int(name) if is_number else 0, name


def walk(node: "Tree | str", path: str) -> Iterator[tuple[str, str | None]]:
    """Yield (path, value) of all below and this itself; None is a folder's value."""
    if isinstance(node, str):
        yield path, node
        return
    yield path, None
    for name, child in sort_entries(node):
        yield from walk(child, f"{path.rstrip('/')}/{name}")


def difference(before: Tree, after: Tree) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield (path, value before, value after) of each value that is not the same; None where there was, or is, none."""
    old = {path: value for path, value in walk(before, "") if value is not None}
    new = {path: value for path, value in walk(after, "") if value is not None}
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path):
            yield path, old.get(path), new.get(path)
