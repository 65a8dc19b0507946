"""A second Kafka-compatible broker beside Apache Kafka: Tansu 0.6.0, in Rust, which keeps its records in SQLite.

cargo builds it once by name and version, with the dependencies that its own lock file names, into a folder of
KVORUM_PEERS, else of build/peers. It is one process, listens on 127.0.0.1 on a free port, keeps all it has in one file
of its folder, and is ended by its pid only.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench.apache_kafka import free_ports
from kvorum.runtime.process import die_with_parent

NAME, VERSION = "Tansu", "0.6.0"
CRATE, PROGRAM = "tansu", "tansu"
STORAGE = "libsql"
"""The one of its storage engines that keeps records on this machine's disk without another server."""
TITLE = f"{NAME} {VERSION}"
FOLDER_VARIABLE = "KVORUM_PEERS"
DEFAULT_FOLDER = Path(__file__).parent.parent / "build/peers"
READY_SECONDS = 60.0
LOOK_SECONDS = 0.05
SHOWN_CHARACTERS = 2000
MEASURES = frozenset(("produce", "consume", "requests", "memory", "start"))
"""Its measures: of one node, and only with features that it has."""


class PeerUnavailableError(Exception):
    """The peer is not available or cannot be started here; the message is the reason."""


def root() -> Path:
    """Return the folder that it is built into."""
    return Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER).absolute() / f"{CRATE}-{VERSION}"


def build_command(cargo: str) -> list[str]:
    """Return the command line that builds it."""
    named = ["install", CRATE, "--version", VERSION, "--locked", "--features", STORAGE]
    return [cargo, *named, "--root", str(root())]


def build() -> Path:
    """Return the program, built at the first call. Raises PeerUnavailableError."""
    wanted = root() / "bin" / PROGRAM
    if wanted.exists():
        return wanted
    cargo = shutil.which("cargo")
    if cargo is None:
        raise PeerUnavailableError(f"cargo is not on the PATH; it builds {TITLE} into {root()}")
    print(f"{TITLE} is built into {root()}; that takes a while", flush=True)
    done = subprocess.run(build_command(cargo), capture_output=True, text=True, check=False)
    if done.returncode or not wanted.exists():
        raise PeerUnavailableError(f"cargo did not build {TITLE}:\n{done.stderr[-SHOWN_CHARACTERS:]}")
    return wanted


def start_command(found: Path, port: int) -> list[str]:
    """Return the command line that starts it in the folder where its file is to be."""
    address = f"tcp://127.0.0.1:{port}"
    where = ["--listener-url", address, "--advertised-listener-url", address]
    return [str(found), "broker", *where, "--storage-engine", f"sqlite://{PROGRAM}.db"]


class Peer:
    """One node of it, as a bench.systems.System. A measure's settings are Kafka's, and ignored."""

    name = NAME
    client: Mapping[str, str] = MappingProxyType({})

    def __init__(self, folder: Path, count: int, settings: Mapping[str, str]) -> None:
        assert count == 1, "it is measured as one node"
        self._home = folder / "peer"
        self._data = self._home / "data"
        self._data.mkdir(parents=True)
        self._program = build()
        [self._port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, if it does not run; return at once."""
        if self._process is not None:
            return
        parent = os.getpid()
        with (self._home / "console.log").open("ab") as output:
            self._process = subprocess.Popen(
                start_command(self._program, self._port),
                cwd=self._data,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent),
            )

    def wait_ready(self) -> None:
        """Wait until it answers. Raises PeerUnavailableError."""
        deadline = time.monotonic() + READY_SECONDS
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while True:
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=5).brokers:
                    return
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise PeerUnavailableError(f"{TITLE} is not ready: {self._home}")
            time.sleep(LOOK_SECONDS)

    def address(self, node: int) -> tuple[str, int]:
        """Return host and port of its client listener."""
        return "127.0.0.1", self._port

    def controller(self, node: int) -> tuple[str, int]:
        """Return the same: it has no other listener."""
        return self.address(node)

    @property
    def bootstrap(self) -> str:
        """The clients' bootstrap.servers."""
        return f"127.0.0.1:{self._port}"

    def pids(self) -> list[int]:
        """Return its pid, if it runs."""
        return [] if self._process is None else [self._process.pid]

    def data(self, node: int) -> Path:
        """Return the folder of its file."""
        return self._data

    def metrics_urls(self, role: str = "broker") -> list[str]:
        """Return nothing: its figures go elsewhere."""
        return []

    def kill(self, node: int) -> None:
        """kill -9 it, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """kill -9 it."""
        self.kill(1)
