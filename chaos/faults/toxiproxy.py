"""The Toxiproxy server as a child of this process, and its HTTP API through toxiproxy-python.

toxiproxy-python's own Proxy and Toxic have no timeouts, hide errors above 409, cannot change a toxic, and its consumer
belongs to the class: one server per process. So its APIConsumer is called directly, with a timeout, for one server at a
time, and the result is read back. Server 2.5.0 has no PATCH, and /version is not JSON.
"""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from kvorum.chaos.faults.die_with_parent import die_with_parent_command
from kvorum.chaos.faults.events import FaultError

HOST: Final = "127.0.0.1"
TIMEOUT_SECONDS: Final = 2.0
START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.02
STATUS_ERROR: Final = 400

_ONE_SERVER_AT_A_TIME = threading.Lock()

Stream: TypeAlias = Literal["upstream", "downstream"]
"""From client to server, and back."""


class ToxiproxyError(FaultError):
    """A request that the server rejected or did not answer."""


@dataclass(frozen=True, slots=True)
class Toxic:
    """One disturbance of one stream of a proxy."""

    name: str
    type: str
    stream: Stream
    attributes: Mapping[str, int]
    toxicity: float = 1.0
    """The share of connections that have it."""

    def body(self) -> dict[str, object]:
        """Return it as the API has it."""
        return {
            "name": self.name,
            "type": self.type,
            "stream": self.stream,
            "toxicity": self.toxicity,
            "attributes": dict(self.attributes),
        }


@dataclass(frozen=True, slots=True)
class ProxyState:
    """A proxy as the server has it."""

    enabled: bool
    toxics: frozenset[str]
    """Their names."""


def require_library() -> None:
    """Raise ToxiproxyError where what talks to the server is not installed."""
    try:
        import_module("toxiproxy.api")
    except ImportError as error:
        hint = "pip install '.[chaos]' in the checkout, or 'WHEEL[chaos]'"
        raise ToxiproxyError(f"{error}: faults on links need the extra `chaos`: {hint}") from error


@dataclass(frozen=True, slots=True)
class ToxiproxyApi:
    """Calls to one server. Thread safe."""

    port: int

    def proxies(self) -> dict[str, ProxyState]:
        """Return {name: state} of all proxies. Raises ToxiproxyError."""
        answer = self._call("get", "/proxies")
        return {
            name: ProxyState(bool(found["enabled"]), frozenset(toxic["name"] for toxic in found["toxics"]))
            for name, found in answer.items()
        }

    def populate(self, proxies: Sequence[tuple[str, str, str]]) -> None:
        """Make proxies, each (name, listening HOST:PORT, upstream HOST:PORT). Raises ToxiproxyError."""
        body = [{"name": name, "listen": listen, "upstream": up, "enabled": True} for name, listen, up in proxies]
        self._call("post", "/populate", body)
        missing = {name for name, _, _ in proxies} - self.proxies().keys()
        if missing:
            raise ToxiproxyError(f"the server did not create {', '.join(sorted(missing))}")

    def enable(self, proxy: str, enabled: bool) -> None:
        """Make a proxy listen, or close its listener and connections. Raises ToxiproxyError."""
        self._call("post", f"/proxies/{quote(proxy)}", {"enabled": enabled})

    def add(self, proxy: str, toxic: Toxic) -> None:
        """Add a toxic. Raises ToxiproxyError, also when there is one of that name."""
        self._call("post", f"/proxies/{quote(proxy)}/toxics", toxic.body())

    def remove(self, proxy: str, toxic: str) -> None:
        """Remove a toxic; a missing one is not an error. Raises ToxiproxyError."""
        self._call("delete", f"/proxies/{quote(proxy)}/toxics/{quote(toxic)}", missing_ok=True)

    def destroy(self, proxy: str) -> None:
        """Remove a proxy and its connections. Raises ToxiproxyError."""
        self._call("delete", f"/proxies/{quote(proxy)}", missing_ok=True)

    def answers(self) -> bool:
        """Return whether the server answers."""
        try:
            self.proxies()
        except ToxiproxyError:
            return False
        return True

    def _call(self, method: str, path: str, body: object = None, *, missing_ok: bool = False) -> Any:
        """Send one request; return its response, None without a body. Raises ToxiproxyError."""
        # Imported here: only proxies on links need the extra `kvorum[chaos]`.
        require_library()
        import requests
        from toxiproxy.api import APIConsumer  # type: ignore[import-untyped]
        from toxiproxy.exceptions import (  # type: ignore[import-untyped]
            InvalidToxic,
            NotFound,
            ProxyExists,
        )

        # An environment's HTTP proxy is none for this machine's own server.
        options: dict[str, object] = {"timeout": TIMEOUT_SECONDS, "proxies": {"no_proxy": HOST}}
        if body is not None:
            options["json"] = body
        try:
            with _ONE_SERVER_AT_A_TIME:
                APIConsumer.host, APIConsumer.port = HOST, self.port
                answer = getattr(APIConsumer, method)(path, **options)
        except NotFound as error:
            if missing_ok:
                return None
            raise ToxiproxyError(f"{method.upper()} {path}: {error}") from error
        except (ProxyExists, InvalidToxic, requests.RequestException) as error:
            raise ToxiproxyError(f"{method.upper()} {path}: {error}") from error
        if answer.status_code >= STATUS_ERROR:
            raise ToxiproxyError(f"{method.upper()} {path}: {answer.status_code} {answer.text.strip()}")
        return answer.json() if answer.content else None


@dataclass(slots=True)
class ToxiproxyServer:
    """A server process. It dies with this process, and with the thread that started it."""

    program: str
    port: int
    log_path: str
    api: ToxiproxyApi = field(init=False)
    _process: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        """Prepare; nothing runs yet."""
        self.api = ToxiproxyApi(self.port)

    def start(self) -> None:
        """Start it and wait until it answers. Raises ToxiproxyError."""
        assert self._process is None, "started once"
        require_library()
        output = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._process = subprocess.Popen(
                die_with_parent_command([self.program, "-host", HOST, "-port", str(self.port)]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # By default 2.5.0 logs a line for every chunk.
                env={**os.environ, "LOG_LEVEL": "warn"},
                start_new_session=True,
            )
        finally:
            os.close(output)
        deadline = time.monotonic() + START_SECONDS
        while not self.api.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ToxiproxyError(f"{self.program} did not start on port {self.port}; see {self.log_path}")
            time.sleep(POLL_SECONDS)

    @property
    def pid(self) -> int | None:
        """The server's pid while it runs."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """End it. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
