"""`kafka-metadata-quorum`. Source: Kafka's MetadataQuorumCommand."""

import dataclasses
from collections.abc import Mapping

import click

from kvorum.cli.kafka.common import SUPPORTED, Connection, connection_options
from kvorum.cli.kafka.metadata_quorum_describe import describe
from kvorum.cli.output import fail, say


@click.group("kafka-metadata-quorum")
@connection_options(controller=True)
def metadata_quorum(connection: Connection) -> None:
    """Describe the metadata quorum, add and remove voters; the cluster is named before the action.

    \b
    kvorum kafka-metadata-quorum --bootstrap-server localhost:9092 describe --status
    kvorum kafka-metadata-quorum --bootstrap-controller localhost:9093 --command-config new.properties add-controller
    """
    click.get_current_context().obj = connection


metadata_quorum.add_command(describe)


@metadata_quorum.command("add-controller")
@click.option("--dry-run", is_flag=True, help="True if we should print what would be done, but not do it.")
@click.pass_obj
def add_controller(connection: Connection, dry_run: bool) -> None:
    """Make the controller that --command-config describes a voter.

    \b
    kvorum kafka-metadata-quorum --bootstrap-server localhost:9092 --command-config new.properties add-controller
    """
    from kvorum.cli.metadata.quorum_voters import NoCandidate, candidate
    from kvorum.client.namespaces.quorum import MetadataQuorum
    from kvorum.client.values.quorum import Listener
    from kvorum.runtime.config import ConfigError, Settings

    properties = connection.properties
    problem = configuration_problem(properties)
    if problem is not None:
        fail(problem)
    try:
        found = candidate(Settings.of(properties))
    except (ConfigError, NoCandidate) as error:
        fail(str(error))

    if not dry_run:
        listeners = [Listener(name=name, host=host, port=port) for name, host, port in found.endpoints]
        selected = {key: text for key, text in properties.items() if key in SUPPORTED}
        dataclasses.replace(connection, properties=selected).run(
            lambda cluster: MetadataQuorum(cluster).add_voter(found.node_id, found.directory_id, listeners)
        )
    say(f"{'DRY RUN of adding' if dry_run else 'Added'} {found.description()}")


def configuration_problem(properties: Mapping[str, str]) -> str | None:
    """Return why a file does not describe a controller, in the words of Kafka's script."""
    valid = "configuration file. Is this a valid controller configuration file?"
    if not properties:
        return "You must supply the configuration file of the controller you are adding when using add-controller."
    if "node.id" not in properties:
        return f"node.id not found in {valid}"
    if properties["node.id"].startswith("-"):
        return f"node.id was negative in {valid}"
    if "controller" not in properties.get("process.roles", ""):
        return f"process.roles did not contain 'controller' in {valid}"
    if not {"metadata.log.dir", "log.dirs"} & properties.keys():
        return "Neither metadata.log.dir nor log.dirs were found. Is this a valid controller configuration file?"
    if "controller.listener.names" not in properties:
        return "controller.listener.names was not found. Is this a valid controller configuration file?"
    return None


@metadata_quorum.command("remove-controller")
@click.option("-i", "--controller-id", type=int, required=True, help="The id of the controller to remove.")
@click.option("-d", "--controller-directory-id", "directory", required=True, help="Its directory ID.")
@click.option("--dry-run", is_flag=True, help="True if we should print what would be done, but not do it.")
@click.pass_obj
def remove_controller(connection: Connection, controller_id: int, directory: str, dry_run: bool) -> None:
    """Take a controller out of the voters.

    \b
    kvorum kafka-metadata-quorum --bootstrap-server localhost:9092 remove-controller -i 3 -d G7J-FlU9TnmJpUE6QGqYnw
    """
    from kvorum.client.namespaces.quorum import MetadataQuorum
    from kvorum.protocol.uuids import Uuid

    if controller_id < 0:
        fail(f"Invalid negative --controller-id: {controller_id}")
    try:
        directory_id = Uuid.parse(directory)
    except ValueError as error:
        fail(f"Failed to parse --controller-directory-id: {error}")

    if not dry_run:
        connection.run(lambda cluster: MetadataQuorum(cluster).remove_voter(controller_id, directory_id))
    # Two blanks, as Kafka's script prints them.
    done = "DRY RUN of removing " if dry_run else "Removed "
    say(f"{done} KRaft controller {controller_id} with directory id {directory_id}")
