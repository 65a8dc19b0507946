"""`kafka-reassign-partitions --generate`: propose replicas. Source: Kafka's ReassignPartitionsCommand."""

from typing import TYPE_CHECKING, Any

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.reassign_files import as_json, stop, with_reassignments
from kvorum.cli.output import say
from kvorum.cli.reassign.commands import place_replicas

if TYPE_CHECKING:
    from kvorum.client.namespaces.reassignments import Reassignments
    from kvorum.client.values.reassignment import Assignment
    from kvorum.protocol.topic_partition import TopicPartition


def generate(connection: Connection, options: dict[str, Any]) -> None:
    """Print the current and the proposed assignment."""
    from kvorum.client.reassignments.assignment_file import read_topics
    from kvorum.client.reassignments.proposals import check_racks
    from kvorum.protocol.errors import KafkaError

    try:
        brokers = [int(each) for each in options["broker_list"].split(",")]
        topics = read_topics(options["topics_to_move_json_file"].read_text())
    except ValueError as error:
        stop(f"Error: {error}")
    twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
    if twice:
        stop(f"Error: Broker list contains duplicate entries: {twice}")

    async def work(
        found: "Reassignments",
    ) -> "tuple[Assignment, dict[int, str | None], dict[tuple[TopicPartition, int], str]]":
        current = await found.assignments(topics)
        return current, await found.live_brokers(), await found.replica_log_dirs(current)

    current, racks, log_dirs = with_reassignments(connection, work)
    for missing in sorted(set(topics) - {place.topic for place in current}):
        stop(f"Error: Topic {missing} not found.")
    aware = not options["disable_rack_aware"]
    chosen = {broker: racks[broker] if aware else None for broker in brokers if broker in racks}
    try:
        check_racks(chosen)
    except KafkaError:
        stop(
            "Error: Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed = place_replicas(current, chosen)
    say(f"Current partition replica assignment\n{as_json(current, log_dirs)}\n")
    say(f"Proposed partition reassignment configuration\n{as_json(proposed)}")
