"""Debug bundle of a cluster's state: a ZIP that is sent while it is written.

    manifest.json                     contents, and missing parts with the reason; last in the archive
    cluster.json, health.json, brokers.json, topics.json, groups.json, quorum.json, features.json
    configs.json                      all dynamic configs in the metadata
    brokers/1/configs.json            dynamic and static configs of a broker
    brokers/1/node.json, metrics.txt, log.json      pages of the process; controllers/1/ likewise

Values that may be secret are hidden, as everywhere in the API, and records of topics are not included. The parts are
requested one after the other, so that only one is in memory; parts that fail, are too large or late are left out, with
an entry in the manifest: a bundle is needed most when something is broken.
"""

import asyncio
import json
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Final, TypeVar

from pydantic import BaseModel

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.http.parameters import PAGE_MAX
from kvorum.admin.v1.cluster import cluster_routes, feature_routes
from kvorum.admin.v1.cluster.broker_routes import BrokerRoutes, missing_reason_of
from kvorum.admin.v1.cluster.node_models import RecentLog
from kvorum.admin.v1.cluster.node_pages import BROKER, CONTROLLER, NODE, NodePages, RoleProcess, pages_of
from kvorum.admin.v1.cluster.node_routes import LINES
from kvorum.admin.v1.groups import groups_routes
from kvorum.admin.v1.topics import topic_list
from kvorum.admin.v1.topics.topic_configs import entries
from kvorum.client.metadata_log.metadata_image import MetadataProblem
from kvorum.client.metadata_log.metadata_reader import MetadataReader
from kvorum.client.metadata_log.metadata_tree import NoSuchPath, at_path
from kvorum.client.namespaces.configs import Configs
from kvorum.client.wire.cluster_client import ResourceType, Unreachable
from kvorum.protocol.errors import KafkaError
from kvorum.runtime import blocking
from kvorum.runtime.logs import get_logger

PART_SECONDS: Final = 15.0
"""For one part."""
BUNDLE_SECONDS: Final = 180.0
"""Total time limit; later parts are omitted."""
PART_BYTES_MAX: Final = 16 * 1024 * 1024
BUNDLE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Total size of all parts before compression: about ten times the sent size."""
BUNDLES_MAX: Final = 2
"""Bundles created at a time; others wait."""
CONFIGS_PATH: Final = "/image/configs"
MANIFEST: Final = "manifest.json"

log = get_logger("admin")
Ask = Callable[[], Awaitable[bytes]]
T = TypeVar("T")


class BundlePart(BaseModel):
    """An included part."""

    name: str
    bytes: int


class MissingPart(BaseModel):
    """A part that is not: the name of an error, and the same for people."""

    name: str
    error: str
    message: str


class Manifest(BaseModel):
    """Contents of a bundle."""

    made_at: datetime
    kvorum_version: str
    parts: list[BundlePart]
    missing: list[MissingPart]


class ZipStream:
    """A ZIP whose bytes are taken as they are written."""

    def __init__(self, made_at: datetime) -> None:
        """Begin; `made_at` is the time of each part."""
        self._out = _WriteBuffer()
        self._zip = zipfile.ZipFile(self._out, "w", zipfile.ZIP_DEFLATED)
        self._when = (made_at.year, made_at.month, made_at.day, made_at.hour, made_at.minute, made_at.second)

    def add(self, name: str, data: bytes) -> bytes:
        """Add a part; return the bytes to send. Blocks: call it outside the loop."""
        info = zipfile.ZipInfo(name, self._when)
        info.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(info, data)
        return self._out.take()

    def end(self) -> bytes:
        """Return the rest."""
        self._zip.close()
        return self._out.take()


class _WriteBuffer:
    """A file that can only be written to: its bytes wait here to be taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        """Keep some."""
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """There is nothing behind it."""

    def close(self) -> None:
        """There is nothing behind it."""

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        found, self._pieces = b"".join(self._pieces), []
        return found


@dataclass(slots=True)
class Bundles:
    """The bundles of one server."""

    reader: MetadataReader
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(BUNDLES_MAX))

    async def pieces(self, call: Call[NoBody]) -> AsyncGenerator[bytes]:
        """Yield a bundle's bytes as they are written."""
        async with self._slots:
            made_at = datetime.fromtimestamp(call.clock.wall_ms() / 1000, UTC)
            archive = ZipStream(made_at)
            manifest = Manifest(made_at=made_at, kvorum_version=version("kvorum"), parts=[], missing=[])
            loop = asyncio.get_running_loop()
            async with aclosing(_Parts(call, self.reader, manifest).all()) as parts:
                async for name, data in parts:
                    piece = await blocking.run(loop, archive.add, name, data)
                    if piece:
                        yield piece
            yield await blocking.run(loop, archive.add, MANIFEST, manifest.model_dump_json(indent=1).encode())
            yield archive.end()


class _Parts:
    """The parts of one bundle, got one after the other."""

    def __init__(self, call: Call[NoBody], reader: MetadataReader, manifest: Manifest) -> None:
        """Collect the parts for this call; the manifest has each result."""
        self._call = call
        self._reader = reader
        self._manifest = manifest
        self._bytes = 0
        self._until = asyncio.get_running_loop().time() + BUNDLE_SECONDS

    async def all(self) -> AsyncGenerator[tuple[str, bytes]]:
        """Yield (name, content) of the available parts."""
        for name, ask in self._of_cluster().items():
            if part := await self._part(name, ask):
                yield part
        brokers = await self._list_ids("brokers/", self._broker_ids)
        for broker in brokers:
            if part := await self._part(f"brokers/{broker}/configs.json", partial(self._broker_configs, broker)):
                yield part
        controllers = await self._list_ids("controllers/", self._controller_ids)
        for who in [RoleProcess(BROKER, each) for each in brokers] + [
            RoleProcess(CONTROLLER, each) for each in controllers
        ]:
            folder = f"{who.role}s/{who.node_id}/"
            async with AsyncExitStack() as stack:
                opened = pages_of(self._call.cluster, who, self._call.nodes)
                pages = await self._got(folder, partial(stack.enter_async_context, opened))
                for name, ask in of_process(pages).items() if pages is not None else ():
                    if part := await self._part(folder + name, ask):
                        yield part

    async def _part(self, name: str, ask: Ask) -> tuple[str, bytes] | None:
        """Return a part, if it can be got within the limits."""
        data = await self._got(name, ask)
        if data is None:
            return None
        room = min(PART_BYTES_MAX, BUNDLE_BYTES_MAX - self._bytes)
        if len(data) > room:
            self._add_missing(name, "TOO_LARGE", f"it has {len(data)} bytes, the limit is {room}")
            return None
        self._bytes += len(data)
        self._manifest.parts.append(BundlePart(name=name, bytes=len(data)))
        return name, data

    async def _got(self, name: str, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Return the requested part; None: the manifest has the reason."""
        seconds = min(PART_SECONDS, self._until - asyncio.get_running_loop().time())
        if seconds <= 0:
            self._add_missing(name, "REQUEST_TIMED_OUT", f"not requested: the bundle has taken {BUNDLE_SECONDS:g} s")
            return None
        try:
            async with asyncio.timeout(seconds):
                return await ask()
        except TimeoutError:
            self._add_missing(name, "REQUEST_TIMED_OUT", f"not available within {seconds:.1f} s")
        except (HttpError, KafkaError, Unreachable) as error:
            self._add_missing(name, *missing_reason_of(error))
        except MetadataProblem as error:
            self._add_missing(name, "METADATA_UNREADABLE", str(error))
        except Exception as error:  # one part that we fail at is no reason to have none of the others
            log.unexpected("debug bundle", error, part=name)
            self._add_missing(name, "UNKNOWN_SERVER_ERROR", f"{type(error).__name__}: see the log of the admin process")
        return None

    async def _list_ids(self, name: str, ask: Callable[[], Awaitable[list[int]]]) -> list[int]:
        """Return the ids of brokers or controllers; none if they are not available: the manifest has the reason."""
        return await self._got(name, ask) or []

    def _add_missing(self, name: str, error: str, message: str) -> None:
        self._manifest.missing.append(MissingPart(name=name, error=error, message=message))

    def _of_cluster(self) -> dict[str, Ask]:
        """Return the requests to the cluster as a whole."""
        call = self._call
        page = replace(call, query={"limit": str(PAGE_MAX)})
        topics = replace(call, query={**page.query, "internal": "true"})
        return {
            "cluster.json": as_json_of(partial(cluster_routes.get_cluster, call)),
            "health.json": as_json_of(partial(cluster_routes.get_health, call)),
            "brokers.json": as_json_of(partial(BrokerRoutes(self._reader).list_brokers, call)),
            "topics.json": as_json_of(partial(topic_list.list_topics, topics)),
            "groups.json": as_json_of(partial(groups_routes.list_groups, page)),
            "quorum.json": as_json_of(partial(cluster_routes.get_quorum, call)),
            "features.json": as_json_of(partial(feature_routes.list_features, replace(call, query={}))),
            "configs.json": self._dynamic_configs,
        }

    async def _dynamic_configs(self) -> bytes:
        """Return all configs in the metadata, the values of secrets hidden."""
        _, last = await self._reader.span(self._call.cluster)
        tree = await self._reader.tree(self._call.cluster, last)
        try:
            found = at_path(tree, CONFIGS_PATH)
        except NoSuchPath:
            found = {}
        return await blocking.run(asyncio.get_running_loop(), lambda: json.dumps(found, indent=1).encode())

    async def _broker_configs(self, broker: int) -> bytes:
        found = await Configs(self._call.cluster).describe(ResourceType.BROKER, broker)
        return as_json(entries(found, False))

    async def _broker_ids(self) -> list[int]:
        return sorted(each.broker_id for each in (await self._call.cluster.describe_cluster()).brokers)

    async def _controller_ids(self) -> list[int]:
        answer = await self._call.cluster.describe_quorum()
        voters = {each.replica_id for each in answer.topics[0].partitions[0].current_voters}
        return sorted(voters | {node.node_id for node in answer.nodes})


def of_process(pages: NodePages) -> dict[str, Ask]:
    """Return the requests to a process."""
    lines = {"lines": str(LINES.schema["maximum"]), "level": "debug"}

    async def node() -> bytes:
        assert pages.process is not None, "it has said who it is"
        return as_json(pages.process)

    async def recent() -> bytes:
        return as_json(await pages.get(f"{NODE}/log", RecentLog, lines))

    return {"node.json": node, "metrics.txt": partial(pages.text, "GET", "/metrics"), "log.json": recent}


def as_json_of(ask: Callable[[], Awaitable[BaseModel | list[BaseModel]]]) -> Ask:
    """Return a function that returns the result of `ask` as JSON."""

    async def read() -> bytes:
        return as_json(await ask())

    return read


def as_json(found: BaseModel | list[BaseModel]) -> bytes:
    """Return models as readable JSON."""
    if isinstance(found, list):
        return json.dumps([each.model_dump(mode="json") for each in found], indent=1).encode()
    return found.model_dump_json(indent=1).encode()


def file_name(made_at: datetime) -> str:
    """Return what to call the bundle of a moment."""
    return f"kvorum-debug-{made_at:%Y%m%dT%H%M%SZ}.zip"
