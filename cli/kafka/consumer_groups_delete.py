"""The delete and delete-offsets actions of `kafka-consumer-groups`."""

from typing import TYPE_CHECKING, Any

import click

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.tables import pad_columns
from kvorum.cli.output import say

if TYPE_CHECKING:
    from kvorum.client.wire.cluster_client import ClusterClient
    from kvorum.protocol.errors import ErrorCode, KafkaError
    from kvorum.protocol.topic_partition import TopicPartition


def delete_groups(connection: Connection, options: dict[str, Any]) -> None:
    """Delete groups."""

    async def work(cluster: "ClusterClient") -> dict[str, "KafkaError | None"]:
        from kvorum.cli.groups.actions import delete, find_group_ids

        return await delete(cluster, await find_group_ids(cluster, options["group"], options["all_groups"]))

    outcome = connection.run(work, timeout_ms=options["timeout_ms"])
    done = ", ".join(f"'{name}'" for name, error in outcome.items() if error is None)
    refused = {name: error for name, error in outcome.items() if error is not None}
    if not refused:
        say(f"Deletion of requested consumer groups ({done}) was successful.")
        return
    say("\nError: Deletion of some consumer groups failed:")
    for name, error in refused.items():
        say(f"* Group '{name}' could not be deleted due to: {error}")
    if done:
        say(f"\nThese consumer groups were deleted successfully: {done}")
    raise SystemExit(1)


def delete_group_offsets(connection: Connection, options: dict[str, Any]) -> None:
    """Delete a group's offsets of topics; a missing topic is a row with the error."""
    from kvorum.cli.groups.reset_texts import parse_partitions
    from kvorum.client.groups.offsets import find_existing_partitions
    from kvorum.client.namespaces.groups import Groups
    from kvorum.client.values.offset_reset import ResetError

    (group_id,) = options["group"][-1:]
    try:
        named = [parse_partitions(topic) for topic in options["topic"]]
    except ResetError as error:
        raise click.UsageError(str(error)) from None

    async def work(
        cluster: "ClusterClient",
    ) -> tuple[dict["TopicPartition", "KafkaError | None"], dict[str, "ErrorCode"]]:
        partitions, absent = await find_existing_partitions(cluster, named)
        return await Groups(cluster).delete_offsets(group_id, partitions), absent

    outcome, absent = connection.run(work, timeout_ms=options["timeout_ms"])
    if any(outcome.values()):
        say("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        say(f"Request succeeded for deleting offsets from group {group_id}.")
    found: list[tuple[str, int, ErrorCode | None]] = [(topic, -1, code) for topic, code in absent.items()]
    found += [(place.topic, place.partition, None if error is None else error.code) for place, error in outcome.items()]
    rows = [["TOPIC", "PARTITION", "STATUS"]]
    for topic, partition, code in sorted(found, key=lambda row: f"{row[0]}{row[1]}"):
        shown = "-" if partition < 0 else str(partition)
        rows.append([topic, shown, f"Error: {code.name}" if code else "Successful"])
    click.echo()
    for line in pad_columns(rows, [-15, 10, 15]):
        say(line)
    if absent or any(outcome.values()):
        raise SystemExit(1)
