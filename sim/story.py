"""Description of a run in sentences, from its history: faults, leaders over time, and violations. Pure."""

from collections.abc import Iterable

from kvorum.chaos.history import AnyEvent, Fault, Metadata, Note

LINES_MAX = 60
"""The maximum number of a story's last lines: the failure is at its end."""


def event_lines(events: Iterable[AnyEvent]) -> list[tuple[float, str]]:
    """Return (virtual seconds, sentence) of all operations and leader changes."""
    names: dict[str, str] = {}
    found: list[tuple[float, str]] = []
    for event in events:
        match event:
            case Fault():
                found.append((event.t, event.story))
            case Note():
                found.append((event.t, event.text))
            case Metadata():
                sentence = change(event.record, names)
                if sentence is not None:
                    found.append((event.t, sentence))
            case _:
                pass
    return found


def change(record: dict[str, object], names: dict[str, str]) -> str | None:
    """Describe the change of a metadata record, None if it is of no interest; stores topics' names."""
    match record.get("type"):
        case "Topic":
            names[str(record["topic_id"])] = str(record["name"])
            return f"topic {record['name']} is created"
        case "Partition" | "PartitionChange":
            topic = str(record["topic_id"])
            name = f"{names.get(topic, topic)}-{record['partition_id']}"
            parts = [f"{what} {record[key]}" for key, what in WORDS.items() if key in record]
            return f"{name}: {', '.join(parts)}" if parts else None
        case "RegisterBroker":
            return f"broker {record['broker_id']} registers with epoch {record['broker_epoch']}"
        case "BrokerRegistrationChange" if record.get("fenced") is not None:
            return f"broker {record['broker_id']} is {'fenced' if record['fenced'] else 'unfenced'}"
        case _:
            return None


WORDS = {
    "leader": "leader",
    "leader_epoch": "leader epoch",
    "isr": "ISR",
    "elr": "ELR",
    "leader_recovery_state": "recovery state",
}


def lines_of(story: list[tuple[float, str]], lines_max: int = LINES_MAX) -> list[str]:
    """Return a story as lines, the last ones of a long one."""
    left_out = len(story) - lines_max
    head = [f"  ... {left_out} earlier events"] if left_out > 0 else []
    return head + [f"  {at:9.3f} s  {sentence}" for at, sentence in story[-lines_max:]]
