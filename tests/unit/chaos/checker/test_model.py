"""Histories of a log that behaves are never blamed; one mistake put into them is always found, by the right rule."""

import random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvorum.chaos.history import Fail, Ok
from tests.unit.chaos.checker.model_kit import KINDS, PARTITIONS, acked, rewrite, run, seeded

scripts = st.lists(st.tuples(st.integers(0, KINDS - 1), st.integers(0, 5), st.integers(0, 7)), max_size=120)
seeds = st.integers(0, 10_000)


@given(scripts)
@settings(max_examples=200)
def test_a_log_that_behaves_is_never_blamed(script: list[tuple[int, int, int]]) -> None:
    verdict = run(script).check(ww=True)
    assert verdict.valid, verdict.violations
    assert not [e for e in verdict.explained if not e.anomaly.startswith("G")]


@given(seeds)
@settings(max_examples=30)
def test_an_acknowledged_value_that_is_dropped(seed: int) -> None:
    history = seeded(seed)
    name, _, value, _ = random.Random(seed).choice(acked(history))
    rewrite(history, lambda _, at, records: [r for r in records if at != name or r[1] != value])
    found = {v.anomaly for v in history.check().violations if value in v.values and v.partition == name}
    assert found & {"lost-write", "unseen"}


@given(seeds)
@settings(max_examples=30)
def test_a_committed_transaction_of_which_one_value_is_dropped(seed: int) -> None:
    history = seeded(seed)
    committed = [event for event in history.events if isinstance(event, Ok) and event.f == "txn" and event.committed]
    assume(committed)
    _, name, value, *_ = random.Random(seed).choice(committed).value[seed % 2]  # type: ignore[misc]
    rewrite(history, lambda _, at, records: [r for r in records if at != name or r[1] != value])
    found = set(history.anomalies())
    assert "torn-transaction" in found and found & {"lost-write", "unseen"}


@given(seeds)
@settings(max_examples=30)
def test_an_acknowledged_value_that_is_duplicated(seed: int) -> None:
    history = seeded(seed)
    name, _, value, _ = random.Random(seed).choice(acked(history))

    def again(event: object, at: str, records: list[list[int]]) -> list[list[int]]:
        return [*records, [records[-1][0] + 100, value]] if at == name and event.final else records  # type: ignore[attr-defined]

    rewrite(history, again)
    assert "duplicate" in history.anomalies()


@given(seeds)
@settings(max_examples=30)
def test_two_values_that_change_places_for_one_reader(seed: int) -> None:
    history = seeded(seed)
    name = PARTITIONS[seed % 2]
    sent = [record for record in acked(history) if record[0] == name]
    if len(sent) < 2:
        return
    (_, _, one, _), (_, _, two, _) = random.Random(seed).sample(sent, 2)
    swap = {one: two, two: one}

    def exchange(event: object, at: str, records: list[list[int]]) -> list[list[int]]:
        wanted = at == name and event.final  # type: ignore[attr-defined]
        return [[offset, swap.get(value, value)] if wanted else [offset, value] for offset, value in records]

    rewrite(history, exchange)
    assert {"inconsistent-offsets", "duplicate"} <= set(history.anomalies())


@given(seeds)
@settings(max_examples=30)
def test_two_sends_of_a_process_in_reverse_order_for_all_readers(seed: int) -> None:
    history = seeded(seed)
    places: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for name, offset, value, process in acked(history):
        places.setdefault((name, process), []).append((offset, value))
    (name, _), sent = max(places.items(), key=lambda place: len(place[1]))
    assert len(sent) > 1
    (first, one), (last, two) = sent[0], sent[-1]
    swap, reported = {one: two, two: one}, {one: last, two: first}
    rewrite(history, lambda _, at, rs: [[o, swap.get(v, v)] if at == name else [o, v] for o, v in rs])
    for event in history.events:
        if isinstance(event, Ok) and event.f == "send" and event.value[0][1] == name:  # type: ignore[index]
            step: list[object] = event.value[0]  # type: ignore[assignment]
            step[3] = reported.get(step[2], step[3])  # type: ignore[call-overload]
    assert "nonmonotonic-send" in history.anomalies()


@given(seeds)
@settings(max_examples=30)
def test_a_record_that_one_reader_never_gets(seed: int) -> None:
    history = seeded(seed)
    done: list[int] = []

    def skip(event: object, at: str, records: list[list[int]]) -> list[list[int]]:
        if done or event.final or len(records) < 3:  # type: ignore[attr-defined]
            return records
        done.append(1)
        return [records[0], *records[2:]]

    rewrite(history, skip)
    assert not done or "int-poll-skip" in history.anomalies()


@given(seeds)
@settings(max_examples=30)
def test_a_record_that_one_reader_gets_again(seed: int) -> None:
    history = seeded(seed)
    done: list[int] = []

    def repeat(event: object, at: str, records: list[list[int]]) -> list[list[int]]:
        if done or len(records) < 2:
            return records
        done.append(1)
        return [*records, records[0]]

    rewrite(history, repeat)
    assert not done or "int-nonmonotonic-poll" in history.anomalies()


@given(seeds)
@settings(max_examples=30)
def test_a_polled_value_whose_send_had_been_refused(seed: int) -> None:
    history = seeded(seed)
    name, _, value, _ = random.Random(seed).choice(acked(history))
    for at, event in enumerate(history.events):
        if isinstance(event, Ok) and event.f == "send" and event.value[0][1:3] == [name, value]:  # type: ignore[index]
            fields = {field: getattr(event, field) for field in event.__struct_fields__}
            history.events[at] = Fail(**{**fields, "error": "NOT_ENOUGH_REPLICAS"})
    assert "aborted-read" in history.anomalies()


@given(seeds)
@settings(max_examples=30)
def test_a_polled_value_that_was_never_sent(seed: int) -> None:
    history = seeded(seed)
    name, offset, _, _ = random.Random(seed).choice(acked(history))
    rewrite(history, lambda _, at, rs: [[o, 9999] if (at, o) == (name, offset) else [o, v] for o, v in rs])
    assert "unknown-value" in history.anomalies()
