"""Replicas and metadata images compared at the end."""

from tests.unit.chaos.checker.history_kit import History, P


def three() -> History:
    return History().created().send(1, 0).send(2, 1).send(3, 2).final((0, 1), (1, 2), (2, 3))


def test_equal_replicas() -> None:
    verdict = three().replica(1, end=3).replica(2, end=3).replica(3, end=3).check()
    assert verdict.valid and verdict.figures.replicas_compared == 3


def test_a_batch_that_differs_below_the_high_watermark() -> None:
    other = [(0, 0, "00000000"), (1, 1, "bad"), (2, 2, "00000002")]
    verdict = three().replica(1, end=3).replica(2, end=3, batches=other).replica(3, end=3).check()
    assert [(v.anomaly, v.partition) for v in verdict.violations] == [("replica-divergence", P)]
    assert "differ at offset 1" in verdict.violations[0].reason


def test_a_batch_that_is_cut_in_another_way_differs() -> None:
    other = [(0, 1, "x"), (2, 2, "00000002")]
    assert three().replica(1, end=3).replica(2, end=3, batches=other).anomalies() == ["replica-divergence"]


def test_a_batch_that_is_missing_in_the_middle() -> None:
    other = [(0, 0, "00000000"), (2, 2, "00000002")]
    found = three().replica(1, end=3).replica(2, end=3, batches=other).anomalies()
    assert found == ["missing-on-replica", "replica-divergence"]


def test_records_beyond_the_lowest_high_watermark_may_differ() -> None:
    other = [(0, 0, "00000000"), (1, 1, "00000001"), (2, 2, "00000002"), (3, 3, "uncommitted")]
    history = three().replica(1, end=5, high_watermark=3).replica(2, end=4, high_watermark=3, batches=other)
    assert history.anomalies() == []


def test_a_replica_whose_log_starts_later_is_compared_from_there() -> None:
    assert three().replica(1, end=3).replica(2, start=2, end=3).anomalies() == []


def test_leader_epochs_that_differ() -> None:
    history = three().replica(1, end=3, epochs=[[0, 0], [1, 2]]).replica(2, end=3, epochs=[[0, 0], [1, 1]])
    verdict = history.check()
    assert [v.anomaly for v in verdict.violations] == ["epoch-divergence"]


def test_leader_epochs_without_records_below_the_high_watermark_may_differ() -> None:
    one = [[0, 0], [1, 3]]
    assert three().replica(1, end=3, epochs=one).replica(2, end=3, epochs=[[0, 0]]).anomalies() == []
    later = [[1, 0], [2, 2]]
    early = [[0, 0], [1, 0], [2, 2]]  # epoch 0 holds no record
    assert three().replica(1, end=3, epochs=later).replica(2, end=3, epochs=early).anomalies() == []


def test_an_acknowledged_record_that_a_replica_lacks() -> None:
    verdict = three().replica(1, end=3).replica(2, end=2).replica(3, end=3).check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("missing-on-replica", [3])]
    assert "node 2 lacks 1 acknowledged records" in verdict.violations[0].reason


def test_with_acks_1_a_replica_may_lag() -> None:
    history = History().created().process(1, acks="1", idempotent=False).send(1, 0).send(2, 1).final((0, 1), (1, 2))
    assert history.replica(1, end=2).replica(2, end=1).anomalies() == []


def test_a_later_look_at_a_replica_replaces_the_former() -> None:
    assert three().replica(1, end=3).replica(2, end=2).replica(2, end=3).anomalies() == []


def test_a_single_replica_is_not_compared() -> None:
    assert three().replica(1, end=3).anomalies() == []


def test_images_that_differ_at_one_offset() -> None:
    verdict = three().image("controller-1", 90, "aa").image("broker-2", 90, "bb").check()
    assert [(v.anomaly, v.partition) for v in verdict.violations] == [("image-divergence", None)]
    assert "controller-1 has hash aa" in verdict.violations[0].reason


def test_images_of_different_offsets_are_not_compared() -> None:
    verdict = three().image("controller-1", 90, "aa").image("broker-2", 91, "bb").image("broker-3", 91, "bb").check()
    assert verdict.valid and verdict.figures.images_compared == 2


def test_a_member_of_the_isr_has_all_records_below_the_leaders_high_watermark() -> None:
    other = [(0, 0, "00000000"), (1, 1, "bad"), (2, 2, "00000002")]
    inside = three().replica(1, end=3).replica(2, end=3).replica(3, end=3, high_watermark=0, batches=other)
    assert inside.anomalies() == ["replica-divergence"]
    outside = three().change(isr=[1, 2]).replica(1, end=3).replica(2, end=3)
    assert outside.replica(3, end=3, high_watermark=0, batches=other).anomalies() == []


def test_a_member_of_the_isr_with_an_old_high_watermark() -> None:
    assert three().replica(1, end=3).replica(2, end=3, high_watermark=0).anomalies() == []


def test_a_replica_that_was_not_checked_is_named() -> None:
    reported = three().replica(1, end=3).replica(2, end=3).check().figures.not_judged
    assert any("node 3 of orders-0" in sentence for sentence in reported)
    whole = three().replica(1, end=3).replica(2, end=3).replica(3, end=3).check().figures.not_judged
    assert not any("were not compared" in sentence for sentence in whole)
