"""Output of `kvorum topics`: a row per topic or per partition."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvorum.client.values.topic import Topic


def list_row(topic: "Topic") -> dict[str, Any]:
    """Return a topic's row in a list."""
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "under_replicated": topic.under_replicated_count,
        "unavailable": topic.offline_count,
    }


def described(topic: "Topic") -> dict[str, Any]:
    """Return the description of a topic."""
    rows = [
        {
            "partition": each.partition,
            "leader": -1 if each.leader is None else each.leader,
            "epoch": each.leader_epoch,
            "replicas": list(each.replicas),
            "isr": list(each.isr),
            "adding": list(each.adding),
            "removing": list(each.removing),
            "elr": None if each.elr is None else list(each.elr),
            "last_known_elr": None if each.last_known_elr is None else list(each.last_known_elr),
            "earliest": each.earliest_offset,
            "latest": each.latest_offset,
        }
        for each in topic.partitions
    ]
    return {"topic": topic.name, "topic_id": str(topic.topic_id), "configs": topic.configs, "partitions": rows}
