"""Histories of clusters whose metadata can only be sampled: what samples excuse, what they blame nobody for, what is
said to be beyond judgement.
"""

from tests.unit.chaos.checker.history_kit import History


def sample(history: History, leader: int, epoch: int, *isr: int, elr: tuple[int, ...] | None = None) -> History:
    more = {} if elr is None else {"elr": list(elr), "last_known_elr": []}
    return history.metadata(
        type="Partition",
        sampled=True,
        topic_id="T",
        partition_id=0,
        replicas=[1, 2, 3],
        isr=list(isr),
        leader=leader,
        leader_epoch=epoch,
        **more,
    )


def sampled(*, unclean: bool) -> History:
    """Two records by a leader that was alone in sync; then nobody leads."""
    history = History(unclean=unclean, min_isr=1).metadata(type="Topic", name="orders", topic_id="T")
    return sample(sample(history, 1, 0, 1).send(1, 0).send(2, 1), -1, 1, 1)


def test_a_leader_from_outside_the_sampled_isr_excuses_a_loss_where_the_config_allows_it() -> None:
    verdict = sample(sampled(unclean=True), 3, 2, 3).final((0, 1)).check()
    assert verdict.valid
    (legal,) = verdict.explained
    assert (legal.anomaly, legal.values) == ("unseen", [2])
    assert "node 3 was elected uncleanly" in legal.reason


def test_without_permission_a_sample_neither_explains_nor_accuses() -> None:
    verdict = sample(sampled(unclean=False), 3, 2, 3).final((0, 1)).check()
    assert [found.anomaly for found in verdict.violations] == ["unseen"]
    verdict = sample(sampled(unclean=False), 3, 2, 3).final((0, 1), (1, 2)).check()
    assert verdict.valid and not verdict.explained


def test_a_leader_from_the_sampled_isr_or_elr_excuses_nothing() -> None:
    assert sample(sampled(unclean=True), 1, 2, 1).final((0, 1)).anomalies() == ["unseen"]
    history = sample(sampled(unclean=True), -1, 2, elr=(3,))
    assert sample(history, 3, 3, 3).final((0, 1)).anomalies() == ["unseen"]


def test_the_story_has_the_isr_of_the_nearest_samples() -> None:
    (found,) = sample(sampled(unclean=False), 3, 2, 3).final((0, 1)).check().violations
    assert any("value 2 is acknowledged at offset 1; the ISR was [1]" in sentence for sentence in found.story)


def test_missing_data_of_a_history_is_reported_as_not_judged() -> None:
    reported = sample(sampled(unclean=False), 3, 2, 3).final((0, 1), (1, 2)).check().figures.not_judged
    assert any("sampled and without eligible leader replicas" in each for each in reported)
    assert any("replicas were not compared" in each for each in reported)
    assert not any("final reads" in each for each in reported)

    reported = sample(sampled(unclean=False), -1, 2, elr=(1,)).check().figures.not_judged
    assert any("sampled: the ISR" in each for each in reported)
    assert any("There were no final reads" in each for each in reported)

    assert any("The metadata log was not read" in each for each in History().send(1, 0).check().figures.not_judged)


def test_a_history_that_reports_all_leaves_nothing_unjudged() -> None:
    history = History().created().send(1, 0).send(2, 1).final((0, 1), (1, 2))
    for node in (1, 2, 3):
        history.replica(node, end=2).image(f"node-{node}", 5, "ff")
    assert history.check().figures.not_judged == []
