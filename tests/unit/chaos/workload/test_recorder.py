"""The recorder: order, completion, what it learns; and values on their way into records and back."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from kvorum.chaos.history import Fail, HistoryWriter, Info, Invoke, Ok, Process
from kvorum.chaos.workload.recorder import Recorder, decode_value, encode_value, partition_names, split_partition
from kvorum.chaos.workload.threads import client_thread


def ticking() -> Iterator[float]:
    return iter(count(0.0, 0.5))


@pytest.fixture
def writer() -> HistoryWriter:
    return HistoryWriter()


@pytest.fixture
def recorder(writer: HistoryWriter) -> Recorder:
    clock = ticking()
    return Recorder(writer, lambda: next(clock))


def test_an_operation_is_in_the_history_with_its_completion(recorder: Recorder, writer: HistoryWriter) -> None:
    process = recorder.process("client", acks="1", idempotent=False)
    op = recorder.invoke(process, "send", [["send", "orders-0", 7]])
    recorder.complete(op, Ok, [["send", "orders-0", 7, 41]])
    begun, invoke, ok = writer.events
    assert isinstance(begun, Process) and (begun.acks, begun.idempotent, begun.process) == ("1", False, process)
    assert isinstance(invoke, Invoke) and invoke.value == [["send", "orders-0", 7]]
    assert isinstance(ok, Ok) and (ok.op, ok.process, ok.f) == (op, process, "send") and ok.t > invoke.t
    assert recorder.ends == {"orders-0": 42}
    assert [(each.partition, each.acks) for each in recorder.acked] == [("orders-0", "1")]


def test_an_error_keeps_the_requested_value(recorder: Recorder, writer: HistoryWriter) -> None:
    op = recorder.invoke(recorder.process("client"), "send", [["send", "orders-0", 7]])
    recorder.complete(op, Fail, error="MESSAGE_TOO_LARGE")
    fail = writer.events[-1]
    assert isinstance(fail, Fail) and fail.value == [["send", "orders-0", 7]] and fail.error == "MESSAGE_TOO_LARGE"
    assert not recorder.acked and recorder.counts.errors == {"MESSAGE_TOO_LARGE": 1}


def test_a_crash_makes_open_operations_unknown_and_late_completions_are_omitted(
    recorder: Recorder, writer: HistoryWriter
) -> None:
    process, other = recorder.process("a"), recorder.process("b")
    ops = [recorder.invoke(each, "send", [["send", "orders-0", 1]]) for each in (process, process, other)]
    assert recorder.abandon(process) == 2
    recorder.complete(ops[0], Ok, [["send", "orders-0", 1, 5]])
    recorder.complete(ops[2], Ok, [["send", "orders-0", 1, 6]])
    completions = [event for event in writer.events if isinstance(event, Ok | Info)]
    assert [(type(event), event.op) for event in completions] == [(Info, ops[0]), (Info, ops[1]), (Ok, ops[2])]
    assert recorder.abandon(process) == recorder.abandon(other) == 0


def test_polls_report_how_far_a_partition_goes(recorder: Recorder) -> None:
    op = recorder.invoke(recorder.process("reader"), "poll", [["poll"]])
    recorder.complete(op, Ok, [["poll", {"orders-0": [[3, 1], [9, 2, 4]], "orders-1": []}]])
    assert recorder.ends == {"orders-0": 10} and recorder.counts.records_read == 2


def test_lines_of_many_threads_are_ordered_by_time() -> None:
    writer = HistoryWriter()
    recorder = Recorder(writer)

    def work() -> None:
        process = recorder.process("thread")
        for _ in range(200):
            op = recorder.invoke(process, "send", [["send", "orders-0", recorder.next_value()]])
            recorder.complete(op, Ok)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = [event.t for event in writer.events]
    assert times == sorted(times) and len(times) == 4 * 401
    values = [event.value[0][2] for event in writer.events if isinstance(event, Invoke)]  # type: ignore[index]
    assert len(set(values)) == 800


@pytest.mark.parametrize("size", [0, 20, 100, 5000])
def test_a_value_survives_its_record(size: int) -> None:
    data = encode_value(123456, size)
    assert decode_value(data) == 123456 and len(data) == max(size, len(encode_value(123456, 0)))


@pytest.mark.parametrize("data", [None, b"", b"7", b"[]", b'{"v":"7"}', b"\xff"])
def test_a_record_of_no_workload_is_a_foreign_value(data: bytes | None) -> None:
    assert decode_value(data) < 0


def test_a_client_thread_that_dies_is_a_problem_of_the_run() -> None:
    recorder = Recorder(HistoryWriter(), lambda: 0.0)

    def work() -> None:
        raise LookupError("nobody foresaw this")

    thread = client_thread("chaos-send", work, recorder)
    thread.start()
    thread.join()
    (problem,) = recorder.problems
    assert problem.startswith("the client thread chaos-send died: LookupError: nobody foresaw this (")


def test_partitions_by_name() -> None:
    assert partition_names({"a": 2, "b-c": 1}) == ["a-0", "a-1", "b-c-0"]
    assert split_partition("b-c-12") == ("b-c", 12)
