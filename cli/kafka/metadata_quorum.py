"""`kafka-metadata-quorum`. Source: Kafka's MetadataQuorumCommand."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import SUPPORTED, Connection, connected, pretty_table
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.messages.describe_quorum import DescribeQuorumResponse, ReplicaState

HEADERS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")


@click.group("kafka-metadata-quorum")
@connected(controller=True)
def metadata_quorum(connection: Connection) -> None:
    """Describe the metadata quorum, add and remove voters; the cluster is named before the action.

    \b
    kvorum kafka-metadata-quorum --bootstrap-server localhost:9092 describe --status
    kvorum kafka-metadata-quorum --bootstrap-controller localhost:9093 --command-config new.properties add-controller
    """
    click.get_current_context().obj = connection


@metadata_quorum.command()
@click.option("--status", is_flag=True, help="A short summary.")
@click.option("--replication", is_flag=True, help="Show each voter and observer.")
@click.option("--human-readable", is_flag=True, help="With --replication: times relative to now.")
@click.pass_obj
def describe(connection: Connection, status: bool, replication: bool, human_readable: bool) -> None:
    """Print the quorum's state.

    \b
    kvorum kafka-metadata-quorum --bootstrap-server localhost:9092 describe --replication --human-readable
    """
    if status and replication:
        raise click.UsageError("Only one of --status or --replication should be specified with describe sub-command")
    if not status and not replication:
        raise click.UsageError("One of --status or --replication must be specified with describe sub-command")
    if human_readable and not replication:
        raise click.UsageError("The option --human-readable is only supported along with --replication")

    async def work(cluster: "ClusterClient") -> "tuple[str, DescribeQuorumResponse]":
        cluster_id = (await cluster.describe_cluster(fenced=False)).cluster_id if status else ""
        return cluster_id, await cluster.describe_quorum()

    cluster_id, answer = connection.run(work)
    partition = answer.topics[0].partitions[0]
    leader = next((each for each in partition.current_voters if each.replica_id == partition.leader_id), None)
    if leader is None:
        fail("the quorum has no leader")
    if status:
        show_status(cluster_id, answer, leader)
        return
    now_ms = time.time_ns() // 1_000_000 if human_readable else None
    followers = [each for each in partition.current_voters if each is not leader]
    rows = replica_rows([leader], "Leader", leader, now_ms)
    rows += replica_rows(followers, "Follower", leader, now_ms)
    rows += replica_rows(partition.observers, "Observer", leader, now_ms)
    pretty_table(HEADERS, rows)


@metadata_quorum.command("add-controller")
@click.option("--dry-run", is_flag=True, help="True if we should print what would be done, but not do it.")
@click.pass_obj
def add_controller(connection: Connection, dry_run: bool) -> None:
    """Make the controller that --command-config describes a voter.

    \b
    kvorum kafka-metadata-quorum --bootstrap-server localhost:9092 --command-config new.properties add-controller
    """
    from kvorum.cli.metadata.quorum_voters import NoCandidate, candidate
    from kvorum.runtime.config import ConfigError, Settings

    properties = connection.properties
    problem = configuration_problem(properties)
    if problem is not None:
        fail(problem)
    try:
        found = candidate(Settings.of(properties))
    except (ConfigError, NoCandidate) as error:
        fail(str(error))

    async def work(cluster: "ClusterClient") -> None:
        from kvorum.client.voters import add_voter

        await add_voter(cluster, found.node_id, found.directory_id, found.endpoints)

    if not dry_run:
        selected = {key: text for key, text in properties.items() if key in SUPPORTED}
        dataclasses.replace(connection, properties=selected).run(work)
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
    from kvorum.protocol.uuids import Uuid

    if controller_id < 0:
        fail(f"Invalid negative --controller-id: {controller_id}")
    try:
        directory_id = Uuid.parse(directory)
    except ValueError as error:
        fail(f"Failed to parse --controller-directory-id: {error}")

    async def work(cluster: "ClusterClient") -> None:
        from kvorum.client.voters import remove_voter

        await remove_voter(cluster, controller_id, directory_id)

    if not dry_run:
        connection.run(work)
    # Two blanks, as Kafka's script prints them.
    done = "DRY RUN of removing " if dry_run else "Removed "
    say(f"{done} KRaft controller {controller_id} with directory id {directory_id}")


def replica_rows(
    states: "Sequence[ReplicaState]", status: str, leader: "ReplicaState", now_ms: int | None
) -> list[list[object]]:
    """Return a row a replica."""

    def moment(timestamp_ms: int) -> str:
        if timestamp_ms < 0 or now_ms is None:
            return str(timestamp_ms)
        return f"{max(0, now_ms - timestamp_ms)} ms ago"

    return [
        [
            state.replica_id,
            state.replica_directory_id,
            state.log_end_offset,
            leader.log_end_offset - state.log_end_offset,
            moment(state.last_fetch_timestamp),
            moment(state.last_caught_up_timestamp),
            status,
        ]
        for state in states
    ]


def show_status(cluster_id: str, answer: "DescribeQuorumResponse", leader: "ReplicaState") -> None:
    """Print the summary."""
    partition = answer.topics[0].partitions[0]
    last = min(partition.current_voters, key=lambda each: each.log_end_offset)
    behind_ms = 0
    if last is not leader:
        times = (leader.last_caught_up_timestamp, last.last_caught_up_timestamp)
        behind_ms = -1 if min(times) < 0 else times[0] - times[1]
    for name, value in (
        ("ClusterId", cluster_id),
        ("LeaderId", partition.leader_id),
        ("LeaderEpoch", partition.leader_epoch),
        ("HighWatermark", partition.high_watermark),
        ("MaxFollowerLag", leader.log_end_offset - last.log_end_offset),
        ("MaxFollowerLagTimeMs", behind_ms),
        ("CurrentVoters", replicas_text(partition.current_voters, answer)),
        ("CurrentObservers", replicas_text(partition.observers, answer)),
    ):
        say(f"{name + ':':<24}{value}")


def replicas_text(states: "Sequence[ReplicaState]", answer: "DescribeQuorumResponse") -> str:
    """Return replicas as [{"id": 1, "directoryId": "...", "endpoints": ["CONTROLLER://host:port"]}]."""
    from kvorum.protocol.uuids import ZERO_UUID

    listeners = {node.node_id: node.listeners for node in answer.nodes}
    shown = []
    for state in states:
        text = f'"id": {state.replica_id}'
        if state.replica_directory_id != ZERO_UUID:
            text += f', "directoryId": "{state.replica_directory_id}"'
        ends = ", ".join(f'"{each.name}://{each.host}:{each.port}"' for each in listeners.get(state.replica_id, []))
        shown.append("{" + text + (f', "endpoints": [{ends}]' if ends else "") + "}")
    return f"[{', '.join(shown)}]"
