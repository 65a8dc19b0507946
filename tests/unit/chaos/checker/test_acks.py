"""Acknowledgements that say too much, and leaders that are one too many."""

import pytest

from kvorum.chaos.history import Ok
from tests.unit.chaos.checker.history_kit import History, P


def acked_without_offset(
    acks: str, reported: list[int | None], *, idempotent: bool = True, client: str = ""
) -> list[str]:
    history = History().created().process(1, acks=acks, idempotent=idempotent, client=client).send(1, 0)
    history.end(history.begin(1, "send", [["send", P, 2]]), Ok, [["send", P, 2, *reported]])
    return history.final((0, 1), (1, 2)).anomalies()


@pytest.mark.parametrize("reported", [None, -1])
@pytest.mark.parametrize("idempotent", [True, False])
def test_acks_all_without_an_offset(reported: int | None, idempotent: bool) -> None:
    assert acked_without_offset("all", [reported], idempotent=idempotent) == ["missing-offset"]
    assert acked_without_offset("-1", [reported], idempotent=idempotent) == ["missing-offset"]


def test_librdkafka_takes_a_batch_for_written_by_the_answer_to_a_later_one() -> None:
    client = "confluent-kafka 2.5.0"
    assert acked_without_offset("all", [None], client=client) == []
    assert acked_without_offset("all", [None], client=client, idempotent=False) == ["missing-offset"]


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acks_may_be_without_an_offset(acks: str) -> None:
    assert acked_without_offset(acks, [None]) == acked_without_offset(acks, [-1]) == []


def test_a_client_that_reports_no_offsets_at_all_is_not_blamed() -> None:
    assert acked_without_offset("all", []) == []


def alone(*, min_isr: int = 2, patience: float = 20, acks: str = "all") -> History:
    history = History(min_isr=min_isr).created().process(1, acks=acks).send(1, 0).change(isr=[1]).wait(patience)
    return history.send(2, 1).wait(1).change(isr=[1, 2, 3]).send(3, 2).final((0, 1), (1, 2), (2, 3))


def test_acks_all_while_the_isr_is_too_small() -> None:
    verdict = alone().check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("acked-below-min-isr", [2])]
    assert alone(min_isr=1).anomalies() == []
    assert alone(acks="1").anomalies() == []


def test_a_leader_may_learn_late_that_its_isr_is_too_small() -> None:
    assert alone(patience=5).anomalies() == []


def test_the_isr_may_have_grown_when_it_was_acknowledged() -> None:
    history = History().created().change(isr=[1]).wait(20)
    op = history.begin(1, "send", [["send", P, 1]])
    history.change(isr=[1, 2]).end(op, Ok, [["send", P, 1, 0]])
    assert history.final((0, 1)).anomalies() == []


def test_a_topic_of_two_replicas_needs_no_three() -> None:
    history = History(min_isr=3).created().change(replicas=[1, 2], isr=[1, 2]).wait(20).send(1, 0)
    assert history.final((0, 1)).anomalies() == []


def test_a_lower_minimum_counts_while_it_is_in_force() -> None:
    history = History(min_isr=2).created().change(isr=[1]).wait(20)
    history.metadata(type="Config", resource_type=2, resource_name="orders", name="min.insync.replicas", value="1")
    assert history.send(1, 0).final((0, 1)).anomalies() == []


def test_a_leader_epoch_with_two_leaders() -> None:
    history = History().created().change(leader=2, leader_epoch=1).change(leader=3, leader_epoch=1)
    assert history.anomalies() == ["two-leaders"]
    history = History().created().change(leader=2, leader_epoch=1).change(leader=-1, leader_epoch=2)
    assert history.change(leader=2, leader_epoch=3).anomalies() == []


def test_a_topic_that_is_made_again_has_its_own_epochs() -> None:
    history = History().created().metadata(type="RemoveTopic", topic_id="T")
    history.metadata(type="Topic", name="orders", topic_id="U")
    history.metadata(type="Partition", topic_id="U", partition_id=0, replicas=[3], isr=[3], leader=3, leader_epoch=0)
    assert history.anomalies() == []
