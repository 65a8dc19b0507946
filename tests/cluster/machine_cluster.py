"""The cluster of configs/three-machines.yaml on machines, without typed commands: each would start an interpreter."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kvorum.client.sync import SyncCluster
from kvorum.cluster.local.formatting import (
    InitialController,
    controller_directory,
    format_node,
    new_cluster_id,
)
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.cluster_file import ClusterSpec, load_cluster
from kvorum.runtime.config import Settings
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import OsDisk
from kvorum.security.certificate_folder import CertificateFolder
from kvorum.security.certificates import Kind
from kvorum.storage.checkpoints import read_meta_properties
from tests.cluster.clients import eventually
from tests.cluster.machines import Machines

EXAMPLE: Final = Path(__file__).parent.parent.parent / "configs" / "three-machines.yaml"
ALICE, PASSWORD = "alice", "alice-secret"
MECHANISM: Final = "SCRAM-SHA-512"
CLIENT_PORT, INTERNAL_PORT = 9092, 9094

T = TypeVar("T")


class MachineCluster:
    """A cluster on machines; `defaults` are those of its cluster file."""

    def __init__(self, machines: Machines, defaults: Mapping[str, Any] | None = None) -> None:
        """Make certificates and the cluster file; nothing is installed yet."""
        self.machines, self.cluster_id = machines, new_cluster_id()
        self.numbers = range(1, machines.count + 1)
        self.certificates = CertificateFolder(machines.folder / "certificates")
        self.certificates.init("test-ca")
        self.certificates.issue(Kind.CLIENT, "admin")
        example = yaml.safe_load(EXAMPLE.read_text())
        self.defaults: dict[str, Any] = example["defaults"] if defaults is None else dict(defaults)
        self.defaults["kvorum.ssl.reload.interval.ms"] = 200
        self.use_certificate_of_admin(INTERNAL_PORT)

    def use_certificate_of_admin(self, port: int) -> None:
        """Let the administrator connect to the INTERNAL listener at this port."""
        self.admin_port, trust_store, key_store = (
            port,
            str(self.certificates.trust_store),
            str(self.certificates.key_store("admin")),
        )
        self.admin_security: dict[str, str] = {
            "security.protocol": "SSL",
            "ssl.ca.location": trust_store,
            "ssl.certificate.location": key_store,
            "ssl.key.location": key_store,
        }

    def use_no_security(self, port: int) -> None:
        """Let the administrator connect to a plaintext listener."""
        self.admin_port, self.admin_security = port, {}

    def key_store(self, number: int) -> Path:
        """Return the key store of a node."""
        return self.machines.root(number) / "etc" / "kvorum" / "node.pem"

    def copy_key_store(self, number: int) -> None:
        """Copy the certificate of a node to its machine: the file is replaced at once."""
        name = f"node-{number}"
        if name not in self.certificates.names():
            self.certificates.issue(Kind.NODE, name, (self.machines.address(number),))
        part = self.key_store(number).with_suffix(".new")
        part.write_bytes(self.certificates.key_store(name).read_bytes())
        part.replace(self.key_store(number))

    def spec(self) -> ClusterSpec:
        """Write the cluster file and load it."""
        nodes = [
            {
                "name": f"node-{number}",
                "node.id": number,
                "host": self.machines.address(number),
                "log.dirs": str(self.machines.root(number) / "var" / "lib" / "kvorum" / "data"),
                "ssl.keystore.location": str(self.key_store(number)),
                "ssl.truststore.location": str(self.certificates.trust_store),
            }
            for number in self.numbers
        ]
        file = self.machines.folder / "cluster.yaml"
        defaults = {key: value for key, value in self.defaults.items() if key not in nodes[0]}
        file.write_text(yaml.safe_dump({"cluster": {"name": "machines"}, "defaults": defaults, "nodes": nodes}))
        return load_cluster(str(file), "/var/lib/kvorum")

    def file(self, number: int) -> Path:
        """Return the properties file of a node."""
        return self.machines.root(number) / "etc" / "kvorum" / "node.properties"

    def install(self, *numbers: int) -> None:
        """Write the files of nodes, of all if none is named."""
        spec = self.spec()
        for number in numbers or self.numbers:
            self.file(number).write_text(spec.nodes[number - 1].properties())
            if not self.key_store(number).exists():
                self.copy_key_store(number)

    def settings(self, number: int) -> Settings:
        """Return the installed configuration of a node."""
        return load_node(str(self.file(number))).settings

    def format(self, *numbers: int, initial: Mapping[int, InitialController] | None = None) -> None:
        """Format nodes, all if none is named."""
        for number in numbers or self.numbers:
            format_node(OsDisk(), self.settings(number), self.cluster_id, initial=initial)

    def directory_id(self, number: int) -> Uuid:
        """Return the id of the directory of a controller."""
        found = read_meta_properties(OsDisk(), controller_directory(self.settings(number)))
        assert found is not None and found.directory_id is not None
        return found.directory_id

    def start(self, *numbers: int) -> None:
        """Start nodes, all if none is named, and wait until they are ready."""
        for number in numbers or self.numbers:
            self.machines.systemctl(number, "start")
        self.machines.wait_until_ready(*numbers)

    def restart_one_by_one(self) -> None:
        """Restart each node when all replicas of the one before are in sync."""
        for number in self.numbers:
            self.machines.systemctl(number, "restart")
            self.machines.wait_until_ready(number)
            self.wait_until_in_sync()

    def form(self) -> "MachineCluster":
        """Install, format and start all nodes, and make the user ALICE."""
        self.install()
        self.format()
        self.start()
        self.make_user()
        return self

    def call(self, function: Callable[[SyncCluster], T]) -> T:
        """Call a function on the workstation with an administrator's client."""

        def inside() -> T:
            bootstrap = self.machines.bootstrap(self.admin_port)
            with SyncCluster.connect(bootstrap, request_timeout_ms=60_000, **self.admin_security) as cluster:
                return function(cluster)

        return self.machines.call(inside)

    def make_user(self, name: str = ALICE, password: str = PASSWORD) -> None:
        """Make a user, as the client `admin` at INTERNAL."""
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(name, scram, password.encode())

        def make() -> None:
            admin = self.admin()
            admin.alter_user_scram_credentials([wanted])[name].result(60)

        self.machines.call(make)

    def admin(self) -> AdminClient:
        """Return an administrator's client; to be called on the workstation."""
        return AdminClient({"bootstrap.servers": self.machines.bootstrap(self.admin_port), **self.admin_security})

    @property
    def bootstrap(self) -> str:
        """Return the addresses for clients."""
        return self.machines.bootstrap(CLIENT_PORT)

    def client(self, user: str = ALICE, password: str = PASSWORD) -> dict[str, Any]:
        """Return the properties of a client with a password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.certificates.trust_store),
        }

    def out_of_sync(self) -> list[str]:
        """Return the partitions that lack replicas in sync; to be called on the workstation."""
        topics = self.admin().list_topics(timeout=30).topics
        return [
            f"{name}-{number}"
            for name, topic in topics.items()
            for number, each in topic.partitions.items()
            if len(each.isrs) < len(each.replicas) or each.leader < 0
        ]

    def wait_until_in_sync(self) -> None:
        """Wait until all partitions have all their replicas in sync."""
        found: list[str] = []

        def is_in_sync() -> bool:
            found[:] = self.out_of_sync()
            return not found

        self.machines.call(lambda: eventually(is_in_sync, lambda: f"in sync: {found}", 110))
