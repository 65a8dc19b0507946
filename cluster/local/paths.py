"""Layout of a node's files: DIR/NODE/ holds its configuration, pid files, logs of its processes, and data.

That is the layout of `dev` and `up`. A node of `kvorum node` has its data where its configuration says, and the rest in
a hidden folder there (formatting.node_folder).
"""

import os
from dataclasses import dataclass

OWN_FOLDER = ".kvorum"
"""In a log directory: no partition's folder can have this name."""
ROLES = ("broker", "controller")
PROCESSES = ("node", *ROLES, "admin")


@dataclass(frozen=True, slots=True)
class NodePaths:
    """The folder of one node."""

    folder: str

    @property
    def name(self) -> str:
        """The node's name: that of its folder, or of the directory that its hidden folder is in."""
        folder, name = os.path.split(self.folder)
        return os.path.basename(folder) if name == OWN_FOLDER else name

    @property
    def config(self) -> str:
        """The node's whole configuration, with every port resolved."""
        return os.path.join(self.folder, "node.properties")

    @property
    def ports(self) -> str:
        """Ports that `format` chose for ports given as 0: overrides of the configuration, kept over restarts."""
        return os.path.join(self.folder, "ports.properties")

    @property
    def lock(self) -> str:
        """Held by the node process: a second one on the same folder is refused."""
        return os.path.join(self.folder, ".lock")

    @property
    def data(self) -> str:
        """The node's log.dirs unless its configuration says otherwise."""
        return os.path.join(self.folder, "data")

    def pid(self, process: str) -> str:
        """The pid file of `node` (the supervisor), `broker`, `controller` or `admin`."""
        assert process in PROCESSES, process
        return os.path.join(self.folder, f"{process}.pid")

    def log(self, process: str) -> str:
        """The log of one process."""
        assert process in PROCESSES, process
        return os.path.join(self.folder, f"{process}.log")


@dataclass(frozen=True, slots=True)
class ClusterPaths:
    """The folder of a cluster on this machine."""

    folder: str

    @property
    def cluster(self) -> str:
        """The cluster's id, name and nodes, written when it was formatted."""
        return os.path.join(self.folder, "cluster.json")

    @property
    def never_started_file(self) -> str:
        """Exists from the format until a node of the cluster was ready for the first time."""
        return os.path.join(self.folder, "never-started")

    @property
    def control(self) -> str:
        """The Unix socket on which a foreground `up` or `dev` takes orders: nodes it starts stay its children."""
        return os.path.join(self.folder, "control.sock")

    @property
    def lock(self) -> str:
        """Lock of the process that starts or runs the cluster."""
        return os.path.join(self.folder, ".lock")

    def node(self, name: str) -> NodePaths:
        """The folder of a node."""
        return NodePaths(os.path.join(self.folder, name))
