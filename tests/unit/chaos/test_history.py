"""The history: what is written is read again; what is unknown is skipped and counted; what is broken is refused."""

from pathlib import Path

import pytest

from kvorum.chaos.history import (
    AnyEvent,
    BrokenHistory,
    ClusterShape,
    Fail,
    Fault,
    Finish,
    HistoryReader,
    HistoryWriter,
    Image,
    Info,
    Invoke,
    Metadata,
    NodeShape,
    Note,
    Ok,
    Process,
    Replica,
    Start,
    TopicShape,
    read_history,
)

EVENTS: list[AnyEvent] = [
    Start(
        t=0.0,
        scenario="n-minus-one",
        seed=7,
        expect={"lost": 0},
        cluster=ClusterShape(nodes={"node-1": NodeShape(id=1, roles=["broker"])}),
        topics={"orders": TopicShape(partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})},
        software={"kvorum": "0.1.0", "librdkafka": "2.5.0"},
    ),
    Process(t=0.1, process=3, client="confluent-kafka 2.5.0"),
    Invoke(t=0.2, op=17, process=3, f="send", value=[["send", "orders-0", 12]]),
    Ok(t=0.3, op=17, process=3, f="send", value=[["send", "orders-0", 12, 1042]]),
    Ok(t=0.31, op=18, process=3, f="send", value=[["send", "orders-0", 13, None]]),
    Fail(t=0.4, op=19, process=3, f="send", value=[["send", "orders-0", 14]], error="NOT_ENOUGH_REPLICAS"),
    Info(t=0.5, op=20, process=3, f="txn", value=[["poll", {"orders-0": [[1, 2], [3, 4, 5]]}]], committed=True),
    Ok(t=0.6, op=21, process=4, f="assign", value=["orders-0"], seek_to_beginning=True, final=True),
    Fault(t=0.7, fault="kill", id=4, phase="begin", targets=["node-1"], story="kill -9 node-1"),
    Metadata(t=0.8, offset=812, epoch=3, record={"type": "PartitionChange", "isr": [1, 2]}),
    Replica(t=0.9, node=1, partition="orders-0", start=0, high_watermark=9, end=9, batches=[(0, 8, "ab")]),
    Image(t=0.91, node="node-1", offset=9, hash="ff"),
    Note(t=0.92, text="done"),
    Finish(t=1.0),
]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    return path


def test_every_event_is_decoded_again(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "h.jsonl") as writer:
        for event in EVENTS:
            writer.write(event)
    assert list(read_history(tmp_path / "h.jsonl")) == EVENTS
    assert writer.count == len(EVENTS)


def test_in_memory_the_same_events_are_kept() -> None:
    writer = HistoryWriter()
    for event in EVENTS:
        writer.write(event)
    assert writer.events == EVENTS


def test_times_are_rounded_to_microseconds() -> None:
    writer = HistoryWriter()
    writer.write(Note(t=1.23456789, text=""))
    assert writer.events[0].t == 1.234568


def test_a_line_begins_with_its_kind(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "h.jsonl") as writer:
        writer.write(Invoke(t=0.2, op=17, process=3, f="send", value=[["send", "orders-0", 12]]))
    line = '{"kind":"invoke","t":0.2,"op":17,"process":3,"f":"send","value":[["send","orders-0",12]]}\n'
    assert (tmp_path / "h.jsonl").read_text() == line


def test_faults_are_on_disk_at_once(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "h.jsonl")
    writer.write(EVENTS[2])
    writer.write(EVENTS[8])
    assert len((tmp_path / "h.jsonl").read_text().splitlines()) == 2
    writer.close()


def test_unknown_kinds_and_fields_are_skipped_and_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "h.jsonl",
        '{"kind":"weather","t":1}\n',
        '{"kind":"note","t":1,"text":"a","colour":"red"}\n',
        '{"kind":"weather","t":2,"sun":true}\n',
    )
    reader = HistoryReader()
    assert list(reader.read(path)) == [Note(t=1.0, text="a")]
    assert reader.unknown_kinds == {"weather": 2}
    assert reader.unknown_fields == {"note.colour": 1}
    assert reader.lines == 3 and not reader.torn


def test_a_last_line_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "h.jsonl", '{"kind":"note","t":1,"text":"a"}\n{"kind":"note","t":1,"te')
    reader = HistoryReader()
    assert list(reader.read(path)) == [Note(t=1.0, text="a")]
    assert reader.torn


def test_a_last_line_that_lacks_only_its_end_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "h.jsonl", '{"kind":"finish","t":1}')
    assert list(read_history(path)) == [Finish(t=1.0)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense\n", "line 2 is not a JSON object"),
        ("[1, 2]\n", "line 2 is not a JSON object"),
        ('{"t":1}\n', "line 2 has no kind"),
        ('{"kind":"note","t":"soon","text":"a"}\n', "line 2 is not a valid note event"),
        ('{"kind":"ok","t":1}\n', "line 2 is not a valid ok event"),
        ('{"kind":"ok","t":1,"op":1,"process":1,"f":"send","value":[[["deep"]]]}\n', "line 2 is not a valid ok event"),
        ("\n", "line 2 is not a JSON object"),
        ("\udcff\n", "line 2 is not a JSON object"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(b'{"kind":"note","t":1,"text":"a"}\n' + line.encode("utf-8", "surrogateescape") + b"{}\n")
    with pytest.raises(BrokenHistory, match=message):
        list(read_history(path))


def test_an_empty_file_has_no_events(tmp_path: Path) -> None:
    assert list(read_history(write(tmp_path / "h.jsonl"))) == []
