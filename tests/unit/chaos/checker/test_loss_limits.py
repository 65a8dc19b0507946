"""Excuses for a loss that look good and are none, each beside the nearest loss that is legal."""

import pytest

from kvorum.chaos.checker import Violation
from kvorum.chaos.history import Info, Ok
from tests.unit.chaos.checker.history_kit import History, P


def weak() -> History:
    """Two records with acks=1 by process 1; process 2 waits for the ISR."""
    return History().created().process(1, acks="1", idempotent=False).send(1, 0).send(2, 1)


def led_by_two(history: History) -> History:
    return history.wait(1).fault("kill", "node-1").change(leader=2, isr=[2, 3]).wait(30)


def test_with_acks_1_an_unread_record_may_be_lost_with_its_leader() -> None:
    assert led_by_two(weak()).final((0, 1)).excused() == ["unseen"]
    again = led_by_two(weak()).send(3, 1, process=2).final((0, 1), (1, 3))
    assert again.excused() == ["acked-twice", "inconsistent-offsets", "lost-write", "realtime-order"]


def test_with_acks_1_a_record_that_was_polled_may_not() -> None:
    assert led_by_two(weak().poll((0, 1), (1, 2))).final((0, 1)).anomalies() == ["unseen"]
    assert led_by_two(weak().poll((0, 1))).final((0, 1)).excused() == ["unseen"]


def test_with_acks_1_a_record_before_one_that_the_isr_has_may_not() -> None:
    history = led_by_two(weak().send(3, 2, process=2)).final((0, 1))
    verdict = history.check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("unseen", [2, 3])]
    assert led_by_two(weak().send_info(3, process=2)).final((0, 1)).excused() == ["unseen"]


def test_with_acks_1_a_record_before_one_of_its_epoch_that_survived_may_not() -> None:
    history = led_by_two(weak().send(3, 2)).final((0, 1), (2, 3))
    assert "lost-write" in history.anomalies()


def test_with_acks_1_the_final_logs_show_whether_the_new_leader_had_it() -> None:
    def run(epochs: list[list[int]]) -> History:
        history = led_by_two(weak()).send(3, 2, process=2).final((0, 1), (2, 3))
        return history.replica(2, end=3, epochs=epochs)

    assert "lost-write" in run([[0, 0], [1, 1]]).excused()
    assert "lost-write" in run([[0, 0], [1, 2]]).anomalies()


def test_with_acks_1_a_leader_that_was_paused_and_stayed_may_lose_nothing() -> None:
    assert weak().fault("pause", "node-1").final((0, 1)).anomalies() == ["unseen"]
    assert weak().fault("pause", "node-1").change(leader=2).final((0, 1)).excused() == ["unseen"]


def test_with_acks_1_a_leader_that_lost_its_data_may_lose_it_and_another_node_may_not() -> None:
    assert weak().fault("lose_tail", "node-1", lossy=True).final((0, 1)).excused() == ["unseen"]
    assert weak().fault("lose_tail", "node-2", lossy=True).final((0, 1)).anomalies() == ["unseen"]


def test_with_acks_1_a_leader_that_was_frozen_may_answer_long_after_another_was_elected() -> None:
    def run(fault: str, *targets: str) -> History:
        history = History().created().process(1, acks="1", idempotent=False).send(1, 0).poll((0, 1))
        history.wait(1).fault(fault, *targets, seconds=40)
        at, end = len(history.events) - 1, history.events[-1]
        history.t -= 39
        history.change(leader=2, isr=[2, 3]).wait(38).send(2, 1)
        history.events.append(history.events.pop(at))
        assert history.events[-1] is end
        return history.wait(20).final((0, 1))

    assert run("pause", "node-1").excused() == ["unseen"]
    assert run("pause", "node-3").anomalies() == ["unseen"]


def test_with_acks_0_a_record_that_was_polled_is_like_all_others() -> None:
    history = History().created().process(1, acks="0", idempotent=False).send(1).send(2).poll((0, 1), (1, 2))
    assert led_by_two(history).final((0, 1)).anomalies() == ["unseen"]


def test_a_polled_unknown_outcome_missing_in_the_tail_is_lost() -> None:
    def run(*, unclean: bool) -> History:
        history = History(unclean=True, min_isr=1).created(isr=(1,)).send(1, 0).send_info(2)
        history.poll((0, 1), (1, 2)).wait(1).change(leader=-1)
        mark = {"leader_recovery_state": 1, "leader": 3, "isr": [3]} if unclean else {"leader": 1}
        return history.change(**mark).final((0, 1))

    assert run(unclean=False).anomalies() == ["lost-write"]
    assert run(unclean=True).excused() == ["lost-write"]


def test_an_unpolled_unknown_outcome_may_be_missing_in_the_tail() -> None:
    assert History().created().send(1, 0).send_info(2).poll((0, 1)).final((0, 1)).anomalies() == []


def without_start(history: History) -> History:
    history.created().send(1, 0).send(2, 1).send(3, 2).wait(2).final((2, 3))
    return history.replica(1, start=2, end=3).replica(2, start=2, end=3)


def test_a_log_start_moves_without_deletion() -> None:
    assert "lost-write" in without_start(History()).anomalies()


@pytest.mark.parametrize(
    ("config", "value", "legal"),
    [
        ("retention.bytes", "100", True),
        ("retention.bytes", "-1", False),
        ("retention.ms", "1000", True),
        ("retention.ms", "604800000", False),
        ("cleanup.policy", "delete", False),
    ],
)
def test_the_start_of_a_log_may_go_by_retention(config: str, value: str, legal: bool) -> None:
    history = History().metadata(type="Config", resource_type=2, resource_name="orders", name=config, value=value)
    assert without_start(history).check().valid is legal


def test_the_retention_of_another_topic_deletes_nothing() -> None:
    history = History()
    history.metadata(type="Config", resource_type=2, resource_name="bills", name="retention.bytes", value="1")
    assert not without_start(history).check().valid


def test_the_start_of_a_log_may_go_by_request() -> None:
    def requested(partition: str) -> History:
        history = History()
        history.end(history.begin(7, "admin", ["delete-records", partition]), Ok, ["delete-records", partition])
        return without_start(history)

    assert requested(P).check().valid
    assert not requested("orders-1").check().valid


def elected_twice(*requested: str, kind: type[Ok | Info] = Ok, patience: float = 1) -> list[str]:
    """An operator asks for these partitions; orders-0 is led uncleanly some time later, and again."""
    history = History().created(isr=(1,)).send(1, 0).process(7)
    op = history.begin(7, "admin", ["elect-leaders-unclean", *requested])
    history.end(op, kind, ["elect-leaders-unclean", *requested]).wait(patience)
    history.change(leader=3, isr=[3], leader_recovery_state=1).wait(1).change(leader_recovery_state=0)
    return history.anomalies()


def test_a_request_for_an_unclean_election_is_good_for_its_partition() -> None:
    assert elected_twice(P) == elected_twice() == elected_twice("orders-1", P) == []
    assert elected_twice("orders-1") == ["unclean-election"]


def test_a_request_for_an_unclean_election_is_good_for_a_while_after_its_answer() -> None:
    assert elected_twice(P, patience=60) == ["unclean-election"]
    assert elected_twice(P, kind=Info, patience=60) == []


def test_a_request_for_an_unclean_election_is_good_for_one() -> None:
    history = History().created(isr=(1,))
    history.begin(7, "admin", ["elect-leaders-unclean", P])
    history.change(leader=3, isr=[3], leader_recovery_state=1)
    assert history.anomalies() == []
    assert history.change(leader=2, isr=[2], leader_recovery_state=1).anomalies() == ["unclean-election"]


def test_two_unclean_elections_lose_nothing_below_a_record_of_its_epoch_that_survived() -> None:
    def run(*final: tuple[int, int]) -> History:
        history = History(unclean=True, min_isr=1).created(isr=(1,)).send(1, 0).send(2, 1).send(3, 2).wait(60)
        for leader in (2, 3):
            history.change(leader=leader, isr=[leader], leader_recovery_state=1).wait(1)
            history.change(leader_recovery_state=0).wait(30)
        return history.final(*final)

    assert "lost-write" in run((0, 1), (2, 3)).anomalies()
    assert run((0, 1)).excused() == ["unseen"]


def test_a_topic_that_was_deleted_after_the_reads_that_show_the_loss() -> None:
    def sent() -> History:
        return History().created().send(1, 0).send(2, 1).send(3, 2)

    late = sent().final((0, 1), (2, 3)).wait(1).metadata(type="RemoveTopic", topic_id="T")
    assert "lost-write" in late.anomalies()
    early = sent().poll((0, 1)).metadata(type="RemoveTopic", topic_id="T").final()
    assert early.excused() == ["unseen"]


def test_with_empty_isr_and_elr_no_replica_leads_without_the_unclean_mark() -> None:
    history = History().created(isr=(1,)).change(leader=-1, isr=[], last_known_elr=[3])
    assert history.change(leader=2, isr=[2]).anomalies() == ["unclean-election"]
    history = History().created(isr=(1,)).change(leader=-1, isr=[], elr=[2])
    assert history.change(leader=2, isr=[2], elr=[]).anomalies() == []


def last_standing(*, caught_up: bool) -> History:
    """ELR in use, min.insync.replicas 2: node 2 loses its data, then node 1, which is the last in sync."""
    history = History(min_isr=2).created().send(1, 0).send(2, 1).wait(5)
    history.fault("wipe", "node-2", lossy=True).change(isr=[1, 3]).wait(5)
    if caught_up:
        history.change(isr=[1, 2, 3]).wait(5).change(isr=[1, 3]).wait(5)
    return history.change(isr=[1]).wait(5).fault("wipe", "node-1", lossy=True).wait(5).final((0, 1))


def test_a_node_that_caught_up_has_not_lost_a_copy() -> None:
    assert last_standing(caught_up=True).anomalies() == ["unseen"]
    assert last_standing(caught_up=False).excused() == ["unseen"]


def test_a_second_loss_of_a_member_also_loses_records_in_between() -> None:
    """Node 1 lost its data once, as all did, and stayed in the ISR: what it got then goes with its second loss."""

    def run(second: str) -> list[str]:
        history = History(min_isr=1).created(isr=[1, 2]).fault("power_all", "node-1", "node-2", lossy=True).wait(5)
        history.change(isr=[1]).wait(5).change(isr=[1, 2]).wait(5).send(1, 0).send(2, 1).wait(5)
        history.change(isr=[1]).wait(5).fault("wipe", second, lossy=True).wait(5)
        verdict = history.final((0, 1)).check()
        return [*verdict_names(verdict.violations), *(f"legal {each}" for each in verdict_names(verdict.explained))]

    assert run("node-1") == ["legal unseen"]
    assert run("node-2") == ["unseen"]


def verdict_names(found: list[Violation]) -> list[str]:
    return [each.anomaly for each in found]


def test_min_isr_is_that_of_the_moment() -> None:
    def run(when: str) -> History:
        history = History(min_isr=2)
        lower = dict(type="Config", resource_type=2, resource_name="orders", name="min.insync.replicas", value="1")
        history.created().send(1, 0).send(2, 1).wait(5)
        if when == "before":
            history.metadata(**lower)
        history.change(isr=[1]).wait(5).fault("wipe", "node-1", lossy=True).wait(5)
        if when == "after":
            history.metadata(**lower)
        return history.final((0, 1))

    assert run("before").excused() == ["unseen"]
    assert run("after").anomalies() == ["unseen"]
