"""Client of the processes' pages, `/v1/node...` on their `metrics.listener`.

Kafka's protocol has nothing of their content. A process reports their address itself: in its static configuration, by
DescribeConfigs at its own address. Dynamic configs are ignored: the caller's token is sent there, and a user who may
set a config must not get it. The answering process must be the intended one: with loopback addresses, or two nodes with
one configuration, it may be another one.
"""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout
from pydantic import BaseModel, ValidationError

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.node_login import NodeLogin
from kvorum.admin.v1.cluster.node_models import NodeProcess
from kvorum.client.config_sources import Source
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, Unreachable, refuse
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kvorum.runtime.listeners import (
    ANY_ADDRESS,
    CONTROLLER_METRICS_PORT_OFFSET,
    HttpEndpoint,
    parse_http_endpoint,
)
from kvorum.security.passwords import CredentialsUnavailable

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
ROLES_KEY: Final = "process.roles"
LISTENER_KEY: Final = "metrics.listener"
CONTROLLER_KEY: Final = "kvorum.controller.metrics.listener"
KEYS: Final = [ROLES_KEY, LISTENER_KEY, CONTROLLER_KEY]
ASK_SECONDS: Final = 10.0
"""For a page, of a process that may be busy; a dead one refuses at once."""
SNAPSHOT_SECONDS: Final = 120.0
"""For a snapshot of all metadata to be written."""
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
UNSURE: Final = "; the operation may or may not have been executed"
"""Maximum size of a page; metrics of about 100,000 partitions have this size."""
REASON_CHARS_MAX: Final = 500
"""Maximum length of a passed-on error."""
NODE: Final = "/v1/node"

M = TypeVar("M", bound=BaseModel)


class RoleProcess(NamedTuple):
    """A process of the cluster."""

    role: str
    node_id: int

    def __str__(self) -> str:
        """Return it as in a sentence."""
        return f"{self.role} {self.node_id}"


class NodeProblem(HttpError):
    """A process whose pages are not available: status, error name, process and reason."""


class ErrorBody(BaseModel):
    """Error response of a process."""

    error: str
    message: str


@dataclass(frozen=True, slots=True)
class NodePages:
    """The pages of one process, for one caller."""

    who: RoleProcess
    url: str
    session: ClientSession
    headers: Mapping[str, str]
    tls: ssl.SSLContext | bool = True
    process: NodeProcess | None = None
    """The process's own description, once it was queried."""

    async def get(self, path: str, model: type[M], params: Mapping[str, str] | None = None) -> M:
        """Request a page. Raises NodeProblem."""
        return self._read(path, model, await self.text("GET", path, params))

    async def post(self, path: str, model: type[M], *, seconds: float = ASK_SECONDS) -> M:
        """Have something done. Raises NodeProblem; after NODE_UNREACHABLE it may have been done, or not."""
        return self._read(path, model, await self.text("POST", path, seconds=seconds))

    async def text(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, seconds: float = ASK_SECONDS
    ) -> bytes:
        """Return a page unchanged. Raises NodeProblem."""
        try:
            async with self.session.request(
                method,
                f"{self.url}{path}",
                params=params,
                headers=self.headers,
                ssl=self.tls,
                allow_redirects=False,
                timeout=ClientTimeout(total=seconds),
            ) as answer:
                data = bytearray()
                async for piece in answer.content.iter_any():
                    data += piece
                    if len(data) > ANSWER_BYTES_MAX:
                        raise self.response_error(path, f"response larger than {ANSWER_BYTES_MAX} bytes")
                status = answer.status
        except (ClientError, TimeoutError, OSError) as error:
            why = str(error) or f"no response within {seconds:g} s"
            unsure = method != "GET" and not isinstance(error, ClientConnectorError)
            raise NodeProblem(
                503,
                "NODE_UNREACHABLE",
                f"{self.who} does not respond at {self.url}: {why}{UNSURE * unsure}",
            ) from error
        if 200 <= status < 300:
            return bytes(data)
        raise self._refusal(path, status, bytes(data))

    def _refusal(self, path: str, status: int, data: bytes) -> NodeProblem:
        """Return a process's error as an error of this API: a 404 there is not one of this path."""
        try:
            said = ErrorBody.model_validate_json(data)
        except ValidationError:
            said = ErrorBody(error="", message=data[:REASON_CHARS_MAX].decode(errors="replace").strip())
        message = said.message[:REASON_CHARS_MAX]
        match status:
            case 401 | 403:
                return NodeProblem(403, "NODE_REFUSED", f"{self.who} at {self.url} refuses: {message}")
            case 404:
                return NodeProblem(422, "NO_NODE_PAGES", f"{self.who} at {self.url} has no {path}: {message}")
            case 409:
                return NodeProblem(409, said.error[:REASON_CHARS_MAX] or "CONFLICT", f"{self.who}: {message}")
            case _:
                return self.response_error(path, f"{status} {message}")

    def response_error(self, path: str, what: str) -> NodeProblem:
        """Return the error of an unusable response."""
        return NodeProblem(503, "NODE_FAILED", f"{self.who} answers {self.url}{path} with {what}")

    def _read(self, path: str, model: type[M], data: bytes) -> M:
        try:
            return model.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise self.response_error(path, f"unexpected response: {first['loc']}: {first['msg']}") from error


@asynccontextmanager
async def pages_of(
    cluster: ClusterClient, who: RoleProcess, login: NodeLogin, address: Address | None = None
) -> AsyncIterator[NodePages]:
    """Return the pages of a process, after it has confirmed its identity.

    `address`: its address for Kafka's protocol, if known. Raises NodeProblem, KafkaError, Unreachable.
    """
    endpoint = await listener_of(cluster, who, address)
    try:
        headers = await login.headers(str(who))
    except CredentialsUnavailable as error:
        raise NodeProblem(503, "USERS_UNAVAILABLE", str(error)) from error
    async with ClientSession() as session:
        asking = NodePages(who, endpoint.url, session, headers, login.tls)
        process = await asking.get(NODE, NodeProcess)
        if (process.role, process.node_id) != who:
            other = RoleProcess(process.role, process.node_id)
            raise NodeProblem(422, "ANOTHER_NODE", f"{other} responds at {endpoint.url}, the address of {who}")
        ours = (await cluster.describe_cluster()).cluster_id
        if process.cluster_id not in (None, ours):
            there = f"{who} at {endpoint.url} belongs to cluster {process.cluster_id}"
            raise NodeProblem(422, "ANOTHER_NODE", f"{there}, this cluster is {ours}")
        yield NodePages(who, endpoint.url, session, headers, login.tls, process)


async def listener_of(cluster: ClusterClient, who: RoleProcess, address: Address | None = None) -> HttpEndpoint:
    """Return where a process serves its pages. Raises NodeProblem, KafkaError, Unreachable."""
    if address is None and who.role == BROKER:
        address = await cluster.broker_address(who.node_id)
    elif address is None:
        address = await controller_address(cluster, who.node_id)
    return endpoint_in(await static_configs(cluster, who, address), who, address[0])


async def controller_address(cluster: ClusterClient, node_id: int) -> Address:
    """Return the address of a controller, or of the broker of the same node.

    Raises NodeProblem, KafkaError, Unreachable.

    The quorum has listeners of voters, but not of observers.
    """
    answer = await cluster.describe_quorum()
    for node in answer.nodes:
        if node.node_id == node_id and node.listeners:
            return node.listeners[0].host, node.listeners[0].port
    for broker in (await cluster.describe_cluster()).brokers:
        if broker.broker_id == node_id:
            return broker.host, broker.port
    partition = answer.topics[0].partitions[0]
    if node_id in {each.replica_id for each in (*partition.current_voters, *partition.observers)}:
        raise NodeProblem(422, "NO_CONTROLLER_ADDRESS", f"the address of controller {node_id} is unknown")
    raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"there is no controller {node_id}")


async def static_configs(cluster: ClusterClient, who: RoleProcess, address: Address) -> dict[str, str]:
    """Return those of KEYS that a process's own configuration has. Raises NodeProblem, KafkaError."""
    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=str(who.node_id), configuration_keys=KEYS
    )
    request = DescribeConfigsRequest(resources=[resource])
    try:
        (result,) = (await cluster.ask(request, DescribeConfigsResponse, address)).results
    except Unreachable as error:
        raise NodeProblem(503, "NODE_UNREACHABLE", f"{who} does not respond at {error}") from error
    refuse(result.error_code, result.error_message or str(who))
    if LISTENER_KEY not in {row.name for row in result.configs}:
        raise NodeProblem(
            422,
            "NOT_KVORUM",
            f"{who} has no config {LISTENER_KEY}: it is not a Kvorum process and serves no such pages",
        )
    return {
        row.name: row.value
        for row in result.configs
        if row.config_source == Source.STATIC_BROKER_CONFIG and row.value is not None
    }


def endpoint_in(configs: Mapping[str, str], who: RoleProcess, host: str) -> HttpEndpoint:
    """Return the address of a process's pages, by its configuration (runtime.listeners.metrics_listener).

    `host` replaces a wildcard address. Raises NodeProblem.
    """
    roles = {each.strip() for each in configs.get(ROLES_KEY, "").split(",")}
    if who.role not in roles:
        raise NodeProblem(422, "NO_SUCH_ROLE", f"node {who.node_id} is not a {who.role}")
    key, moved = LISTENER_KEY, 0
    if who.role == CONTROLLER and BROKER in roles:
        if CONTROLLER_KEY in configs:
            key = CONTROLLER_KEY
        else:
            moved = CONTROLLER_METRICS_PORT_OFFSET
    text = configs.get(key)
    if not text:
        raise NodeProblem(422, "NO_METRICS_LISTENER", f"{who} serves no HTTP pages: {key} is not set")
    found = parse_http_endpoint(text)
    if found is None or found.port == 0:
        raise NodeProblem(422, "NO_METRICS_LISTENER", f"the HTTP address of {who} is unknown: {key} is {text!r}")
    return replace(found, host=host if found.host in ANY_ADDRESS else found.host, port=found.port + moved)
