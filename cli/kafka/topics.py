"""`kafka-topics`. Source: Kafka's TopicCommand."""

from typing import Any

import click

from kvorum.cli.completion import topic_names
from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.kafka.option_checks import one_action
from kvorum.cli.kafka.topics_change import alter_topics, create_topic, delete_topics, find_topics, run
from kvorum.cli.kafka.topics_describe import describe_topics
from kvorum.cli.kafka.topics_options import check_options, topic_filter
from kvorum.cli.output import say

ACTIONS = {"create": create_topic, "describe": describe_topics, "alter": alter_topics, "delete": delete_topics}


@click.command("kafka-topics")
@click.option("--create", is_flag=True)
@click.option("--list", "listing", is_flag=True)
@click.option("--describe", is_flag=True)
@click.option("--alter", is_flag=True, help="Add partitions. Use kafka-configs for configs.")
@click.option("--delete", is_flag=True)
@click.option("--topic", shell_complete=topic_names, help="Topic name; a pattern except with --create.")
@click.option("--topic-id", help="With --describe.")
@click.option("--partitions", type=int)
@click.option("--replication-factor", type=int)
@click.option(
    "--replica-assignment",
    metavar="1:2,2:3",
    help="Replicas of each partition, instead of --partitions and --replication-factor.",
)
@click.option("--config", "config", multiple=True, metavar="KEY=VALUE", help="With --create.")
@click.option("--delete-config", "deleted", multiple=True, hidden=True)
@click.option("--if-exists", is_flag=True)
@click.option("--if-not-exists", is_flag=True)
@click.option("--under-replicated-partitions", is_flag=True)
@click.option("--unavailable-partitions", is_flag=True)
@click.option("--under-min-isr-partitions", is_flag=True)
@click.option("--at-min-isr-partitions", is_flag=True)
@click.option("--topics-with-overrides", is_flag=True)
@click.option("--exclude-internal", is_flag=True)
@click.option("--partition-size-limit-per-response", type=click.IntRange(1), help="Ignored.")
@connection_options()
def topics(connection: Connection, **options: Any) -> None:
    """Create, list, describe, alter or delete topics.

    \b
    kvorum kafka-topics --bootstrap-server localhost:9092 --create --topic orders --partitions 3
    kvorum kafka-topics --bootstrap-server localhost:9092 --describe --topic orders
    """
    names = ("list", "describe", "create", "alter", "delete")
    action = one_action({name: options["listing" if name == "list" else name] for name in names})
    check_options(action, options)
    if action == "list":
        list_topics(connection, options)
    else:
        ACTIONS[action](connection, options)


def list_topics(connection: Connection, options: dict[str, Any]) -> None:
    """Print the names of the topics that match."""
    wanted = topic_filter(options["topic"], options["exclude_internal"])
    found = run(connection, lambda cluster: find_topics(cluster, wanted))
    say("\n".join(each.name for each in found))
