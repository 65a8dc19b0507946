"""`kvorum quorum add-controller` and `remove-controller`, and what Kafka's script shares with them."""

import os
from typing import TYPE_CHECKING, NamedTuple

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, tell

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.uuids import Uuid
    from kvorum.runtime.config import Settings

EndpointText = tuple[str, str, int]


class Candidate(NamedTuple):
    """A controller according to its configuration and its directory."""

    node_id: int
    directory_id: "Uuid"
    endpoints: list[EndpointText]

    def description(self) -> str:
        """Return it in the words of Kafka's script."""
        places = ", ".join(
            f"{name}://{f'[{host}]' if ':' in host else host}:{port}" for name, host, port in self.endpoints
        )
        return f"controller {self.node_id} with directory id {self.directory_id} and endpoints: {places}"


class NoCandidate(Exception):
    """The file does not describe a formatted controller: why."""


def candidate(settings: "Settings") -> Candidate:
    """Read the identity of a formatted controller. Raises NoCandidate."""
    from kvorum.cluster.local.formatting import controller_directory, node_folder, own_endpoints
    from kvorum.cluster.local.paths import NodePaths
    from kvorum.cluster.local.ports import read_ports, still_open
    from kvorum.runtime.disk import OsDisk
    from kvorum.storage.checkpoints import CheckpointError, read_meta_properties

    chosen = still_open(read_ports(NodePaths(os.path.abspath(node_folder(settings)))), settings)
    settings = settings.with_overrides(dict(line.split("=", 1) for line in chosen))
    folder = controller_directory(settings)
    try:
        identity = read_meta_properties(OsDisk(), folder)
    except (CheckpointError, OSError) as error:
        raise NoCandidate(f"Unable to read meta.properties from {folder}: {error}") from error
    if identity is None:
        raise NoCandidate(f"Unable to read meta.properties from {folder}")
    endpoints = own_endpoints(settings)
    if not endpoints:
        raise NoCandidate("Cannot find information about the controller's listener in the configuration file")
    return Candidate(settings.int("node.id"), identity.directory_id, endpoints)


@click.command("add-controller")
@bootstrap_option
@click.option(
    "-c",
    "--config",
    "config",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Properties file of the controller to add; its directory is on this machine.",
)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Override a config. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@output_option
def add_controller(bootstrap: str, config: str, override: tuple[str, ...], dry_run: bool, output: str) -> None:
    """Make a running, caught-up observer a voter.

    \b
    kvorum format node-4.properties --cluster-id ID --no-initial-controllers
    kvorum node node-4.properties &
    kvorum quorum add-controller --config node-4.properties
    """
    from kvorum.runtime.config import ConfigError
    from kvorum.runtime.config_files import load_node

    try:
        settings = load_node(config, overrides=override, check=False).settings
        if "controller" not in settings.list("process.roles"):
            raise NoCandidate("process.roles did not contain 'controller' in configuration file")
        found = candidate(settings)
    except ConfigError as error:
        fail(str(error), Exit.USAGE)
    except NoCandidate as error:
        fail(str(error))

    async def work(cluster: "ClusterClient") -> None:
        from kvorum.client.voters import add_voter

        await add_voter(cluster, found.node_id, found.directory_id, found.endpoints)

    if not dry_run:
        with_cluster(bootstrap, work)
    places = [{"name": name, "host": host, "port": port} for name, host, port in found.endpoints]
    row = {"node": found.node_id, "directory_id": str(found.directory_id), "endpoints": places, "added": not dry_run}
    tell(row, output, f"{'DRY RUN of adding' if dry_run else 'Added'} {found.description()}")


@click.command("remove-controller")
@bootstrap_option
@click.argument("node", type=click.IntRange(min=0), metavar="NODE_ID")
@click.argument("directory", metavar="DIRECTORY_ID")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@output_option
def remove_controller(bootstrap: str, node: int, directory: str, dry_run: bool, output: str) -> None:
    """Remove a controller from the voters. It continues as an observer until it is stopped.

    `kvorum quorum status` shows the directory ids. A majority of the remaining voters must run.

    \b
    kvorum quorum remove-controller 4 G7J-FlU9TnmJpUE6QGqYnw
    """
    from kvorum.protocol.uuids import Uuid

    try:
        directory_id = Uuid.parse(directory)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="DIRECTORY_ID") from None

    async def work(cluster: "ClusterClient") -> None:
        from kvorum.client.voters import remove_voter

        await remove_voter(cluster, node, directory_id)

    if not dry_run:
        with_cluster(bootstrap, work)
    text = f"{'DRY RUN of removing' if dry_run else 'Removed'} controller {node} with directory id {directory_id}"
    tell({"node": node, "directory_id": str(directory_id), "removed": not dry_run}, output, text)
