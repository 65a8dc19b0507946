"""The describe action of `kafka-metadata-quorum`."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.tables import pretty_table
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from kvorum.client.values.quorum import Quorum, QuorumReplica
    from kvorum.client.wire.cluster_client import ClusterClient

HEADERS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
UNKNOWN_MS = -1
"""Time that the leader does not know."""


@click.command()
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

    async def work(cluster: "ClusterClient") -> "tuple[str, Quorum]":
        from kvorum.client.namespaces.metadata import Metadata
        from kvorum.client.namespaces.quorum import MetadataQuorum

        cluster_id = (await Metadata(cluster).cluster(fenced=False)).cluster_id if status else ""
        return cluster_id, await MetadataQuorum(cluster).describe()

    cluster_id, quorum = connection.run(work)
    leader = next((each for each in quorum.voters if each.node_id == quorum.leader_id), None)
    if leader is None:
        fail("the quorum has no leader")
    if status:
        print_status(cluster_id, quorum, leader)
        return
    now_ms = time.time_ns() // 1_000_000 if human_readable else None
    followers = [each for each in quorum.voters if each is not leader]
    rows = replica_rows([leader], "Leader", leader, now_ms)
    rows += replica_rows(followers, "Follower", leader, now_ms)
    rows += replica_rows(quorum.observers, "Observer", leader, now_ms)
    pretty_table(HEADERS, rows)


def replica_rows(
    replicas: "Iterable[QuorumReplica]", status: str, leader: "QuorumReplica", now_ms: int | None
) -> list[list[object]]:
    """Return one row per replica."""

    def time_text(timestamp_ms: int | None) -> str:
        if timestamp_ms is None:
            return str(UNKNOWN_MS)
        return str(timestamp_ms) if now_ms is None else f"{max(0, now_ms - timestamp_ms)} ms ago"

    return [
        [
            each.node_id,
            each.directory_id,
            each.log_end_offset,
            leader.log_end_offset - each.log_end_offset,
            time_text(each.last_fetch_ms),
            time_text(each.last_caught_up_ms),
            status,
        ]
        for each in replicas
    ]


def print_status(cluster_id: str, quorum: "Quorum", leader: "QuorumReplica") -> None:
    """Print the summary."""
    last = min(quorum.voters, key=lambda each: each.log_end_offset)
    lag_ms = 0
    if last is not leader:
        times = (leader.last_caught_up_ms, last.last_caught_up_ms)
        lag_ms = UNKNOWN_MS if times[0] is None or times[1] is None else times[0] - times[1]
    for name, value in (
        ("ClusterId", cluster_id),
        ("LeaderId", quorum.leader_id),
        ("LeaderEpoch", quorum.leader_epoch),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", leader.log_end_offset - last.log_end_offset),
        ("MaxFollowerLagTimeMs", lag_ms),
        ("CurrentVoters", replicas_text(quorum.voters, quorum)),
        ("CurrentObservers", replicas_text(quorum.observers, quorum)),
    ):
        say(f"{name + ':':<24}{value}")


def replicas_text(replicas: "Iterable[QuorumReplica]", quorum: "Quorum") -> str:
    """Return replicas as [{"id": 1, "directoryId": "...", "endpoints": ["CONTROLLER://host:port"]}].

    As in Kafka's script, endpoints are found by id alone, also those of an observer.
    """
    from kvorum.protocol.uuids import ZERO_UUID

    listeners = {each.node_id: each.listeners for each in quorum.voters}
    texts = []
    for each in replicas:
        text = f'"id": {each.node_id}'
        if each.directory_id != ZERO_UUID:
            text += f', "directoryId": "{each.directory_id}"'
        endpoints = ", ".join(f'"{one.name}://{one.host}:{one.port}"' for one in listeners.get(each.node_id, ()))
        texts.append("{" + text + (f', "endpoints": [{endpoints}]' if endpoints else "") + "}")
    return f"[{', '.join(texts)}]"
