"""One task's transaction against a real cluster, without Spark: attempts after one another, at once, and too late."""

import threading
import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition

from kvorum.pipelines.bridge import transaction
from kvorum.pipelines.bridge.marks import NEVER, Mark, MarkError, MarksMissing, Places
from kvorum.pipelines.bridge.transaction import (
    Abortable,
    AttemptFenced,
    Rows,
    TransactionFailed,
    Transactions,
    Work,
    Writer,
    member,
    read_marks,
    write_rows,
)
from tests.spark.bridge.records import read_all, values
from tests.spark.conftest import TopicFactory

pytestmark = [
    pytest.mark.long,
    # A producer that was fenced while it committed says at its end that it cannot abort either. It need not.
    pytest.mark.filterwarnings("ignore:Producer abort_transaction failed during close:RuntimeWarning"),
]

PREPARED = Mark(batch_id=NEVER, lineage="here", layout="prepared")
EXPECTED = [b"%03d" % n for n in range(300)]


def rows() -> Rows:
    """Return 300 rows in batches of 100."""
    column = pa.array(EXPECTED)
    return Rows(iter([pa.record_batch({"value": column[n : n + 100]}) for n in (0, 100, 200)]))


def work(bootstrap: str, topic: str, *, batch_id: int = 0, layout: str = "x") -> Work:
    places = Places(query=f"q-{topic}", span=50)
    mark = Mark(batch_id=batch_id, lineage="here", layout=layout)
    return Work(settings={"bootstrap.servers": bootstrap}, topic=topic, places=places, mark=mark, is_staged=False)


def prepared(task: Work, *numbers: int) -> Work:
    """Give tasks their first mark, as the driver does."""
    for number in numbers or (0,):
        transactions = Transactions(task.settings, task.places, number)
        transactions.commit(PREPARED)
        transactions.close()
    return task


def test_rows_are_written_once_whoever_tries(bootstrap: str, make_topic: TopicFactory) -> None:
    topic = make_topic(partitions=3)
    task = prepared(work(bootstrap, topic), 0, 1)
    assert write_rows(task, 0, rows()) == "written"
    assert write_rows(task, 0, rows()) == "skipped"
    assert values(read_all(bootstrap, topic)) == EXPECTED
    assert write_rows(work(bootstrap, topic, batch_id=1), 0, rows()) == "written"
    assert write_rows(task, 1, rows()) == "written"
    assert len(read_all(bootstrap, topic)) == 900
    with pytest.raises(MarkError, match="checkpoint was restored"):
        write_rows(task, 0, rows())
    with pytest.raises(MarkError, match="assigned to other tasks"):
        write_rows(work(bootstrap, topic, layout="y"), 1, rows())
    with pytest.raises(MarksMissing):
        write_rows(work(bootstrap, topic), 2, rows())
    assert len(read_all(bootstrap, topic)) == 900


def test_a_late_attempt_is_fenced(bootstrap: str, make_topic: TopicFactory) -> None:
    """It has produced everything; another takes over; the first can't commit, and its rows are never seen."""
    topic = make_topic(partitions=1)
    task = prepared(work(bootstrap, topic))
    late = Transactions(task.settings, task.places, 0)
    assert late.mark() == PREPARED

    def rows_and_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows()
        late.writer.producer.flush(30)
        assert write_rows(task, 0, rows()) == "written"

    with pytest.raises(AttemptFenced):
        late.commit(task.mark, rows_and_a_rival(), topic)
    late.close()
    assert values(read_all(bootstrap, topic)) == EXPECTED
    assert len(read_all(bootstrap, topic, "read_uncommitted")) == 600


def test_attempts_at_once_write_once(bootstrap: str, make_topic: TopicFactory) -> None:
    """What speculation does: the last to begin writes, and the others are done when it has."""
    topic = make_topic(partitions=3)
    task = prepared(work(bootstrap, topic))
    outcomes: list[str] = []

    def attempt() -> None:
        outcomes.append(write_rows(task, 0, rows()))

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(outcomes) == ["skipped", "skipped", "skipped", "written"]
    assert values(read_all(bootstrap, topic)) == EXPECTED


def test_an_attempt_whose_rival_writes_nothing_fails(
    bootstrap: str, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rival has died behind its beginning: it is Spark that finds out, and tries again."""
    topic = make_topic(partitions=1)
    task = prepared(work(bootstrap, topic))

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array(EXPECTED)})
        Transactions(task.settings, task.places, 0).close()

    monkeypatch.setattr(transaction, "RIVAL_SECONDS", 0.3)
    with pytest.raises(AttemptFenced):
        write_rows(task, 0, Rows(overtaken()))
    assert read_all(bootstrap, topic) == []
    assert write_rows(task, 0, rows()) == "written"
    assert values(read_all(bootstrap, topic)) == EXPECTED


def test_a_pending_mark_is_waited_for(
    bootstrap: str, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OffsetFetch with require_stable: while a transaction that commits the mark is open, there is no answer."""
    topic = make_topic(partitions=1)
    task = prepared(work(bootstrap, topic))
    write_rows(task, 0, rows())
    places = task.places
    other = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex})
    other.init_transactions(30)
    other.begin_transaction()
    following = Mark(batch_id=1, lineage="here", layout="x")
    group = member(tuple(task.settings.items()), places.group(0)).metadata()
    other.send_offsets_to_transaction([places.committed(0, following)], group, 30)
    monkeypatch.setattr(transaction, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(transaction, "STEP_SECONDS", 1.0)
    with pytest.raises(TransactionFailed, match="reading marks"):
        read_marks(task.settings, places, [0])
    monkeypatch.undo()
    other.commit_transaction(30)
    assert read_marks(task.settings, places, [0]) == {0: following}


def test_what_aborts_is_done_again_with_the_rows_that_are_held(
    bootstrap: str, make_topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=1)
    task = prepared(work(bootstrap, topic))
    produce = Writer.produce
    tried: list[int] = []

    def produce_and_fail_twice(writer: Writer, batches: Iterable[pa.RecordBatch], to: str | None) -> int:
        count = produce(writer, batches, to)
        if count:
            tried.append(count)
            writer.producer.flush(30)
            if len(tried) < 3:
                raise Abortable("as if the coordinator had returned such an error")
        return count

    monkeypatch.setattr(Writer, "produce", produce_and_fail_twice)
    assert write_rows(task, 0, rows()) == "written"
    assert tried == [300, 300, 300]
    assert values(read_all(bootstrap, topic)) == EXPECTED


def test_rows_that_cannot_be_written_leave_nothing(bootstrap: str, make_topic: TopicFactory) -> None:
    topic = make_topic(partitions=1, max_message_bytes="1000")
    task = prepared(work(bootstrap, topic))
    batch = pa.record_batch({"value": pa.array([b"fits", b"x" * 5_000])})
    with pytest.raises(TransactionFailed, match="MSG_SIZE_TOO_LARGE"):
        write_rows(task, 0, Rows(iter([batch])))
    assert read_all(bootstrap, topic) == []
    assert read_marks(task.settings, task.places, [0]) == {0: PREPARED}


def test_a_source_that_fails_leaves_no_open_transaction(bootstrap: str, make_topic: TopicFactory) -> None:
    """Readers at read_committed would have to wait for its timeout."""
    topic = make_topic(partitions=1)
    task = prepared(work(bootstrap, topic))

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array([b"x"] * 10)})
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        write_rows(task, 0, Rows(failing()))
    assert write_rows(task, 0, rows()) == "written"
    assert values(read_all(bootstrap, topic)) == EXPECTED


def test_rows_are_held_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "HELD_BYTES_MAX", 1_000)
    given = rows()
    assert given.first() is not None and given.is_whole
    assert sum(batch.num_rows for batch in given) == 300
    assert not given.is_whole and given.held == [] and given.count == 300


def test_marks_are_nobodys_progress(bootstrap: str, make_topic: TopicFactory) -> None:
    """What lies in the group is what the module says: an offset of the marks topic, with the layout as metadata."""
    topic = make_topic(partitions=1)
    task = prepared(work(bootstrap, topic, batch_id=4), 53)
    write_rows(task, 53, rows())
    consumer = member(tuple(task.settings.items()), f"kvorum-sink-q-{topic}:1").consumer
    (found,) = consumer.committed([TopicPartition("__consumer_offsets", 3)], 30)
    assert (found.offset, found.metadata) == (5, '{"lineage":"here","layout":"x"}')
