"""What is lost, and when that is legal."""

import msgspec
import pytest

from kvorum.chaos.history import Info, Metadata, Ok
from tests.unit.chaos.checker.history_kit import History, P


def three(**promises: object) -> History:
    """Three records, acknowledged by an ISR of three."""
    history = History().created().process(1, **promises)
    return history.send(1, 0).send(2, 1).send(3, 2)


def without_two(history: History) -> History:
    """Value 2 is missing at the end."""
    return history.final((0, 1), (2, 3))


def test_a_lost_write_is_named_with_its_story_and_the_isr() -> None:
    verdict = without_two(three().fault("kill", "node-1").change(leader=2, isr=[2, 3])).check()
    found = next(v for v in verdict.violations if v.anomaly == "lost-write")
    assert (found.partition, found.values, found.count) == (P, [2], 1)
    assert [sentence.partition(": ")[2] for sentence in found.story] == [
        "process 1 (acks=all, idempotent) sends value 2 to orders-0 (op 2)",
        "value 2 is acknowledged at offset 1; the ISR was [1, 2, 3], the leader was 1 in leader epoch 0",
        "fault 1 begins: kill it",
        "fault 1 ends (kill node-1)",
        "orders-0: node 2 leads in leader epoch 1, the ISR becomes [2, 3]",
        "the final reads reach offset 2",
    ]
    times = [float(sentence.split(" s:")[0]) for sentence in found.story[:-1]]
    assert times == sorted(times)
    assert verdict.figures.lost == 1 and verdict.figures.lost_legally == 0
    assert verdict.figures.partitions[P].lost == 1


def test_without_final_reads_records_below_a_polled_value_must_have_been_polled() -> None:
    assert "lost-write" in three().poll((0, 1), (2, 3)).anomalies()
    assert three().poll((0, 1), (1, 2)).anomalies() == []  # value 3 may yet be polled


def test_a_value_that_was_polled_once_must_be_there_at_the_end() -> None:
    assert "lost-write" in without_two(three().poll((0, 1), (1, 2), (2, 3))).anomalies()


def test_an_unknown_outcome_that_was_polled_must_be_there_at_the_end() -> None:
    history = History().created().send_info(1).send(2, 1).poll((0, 1), (1, 2)).final((1, 2))
    assert history.anomalies() == ["lost-write"]


def test_an_unknown_outcome_that_was_never_polled_is_no_loss() -> None:
    assert History().created().send(1, 0).send_info(2).send(3, 1).final((0, 1), (1, 3)).anomalies() == []


def test_a_refused_value_is_no_loss() -> None:
    assert History().created().send(1, 0).send_fail(2).send(3, 1).final((0, 1), (1, 3)).anomalies() == []


def test_offsets_in_conflict_make_no_loss_of_their_own() -> None:
    """Value 2 is polled at offset 0 and at 5: the bound is its first place, so value 3 at offset 4 is not missing."""
    history = History().send(2, 0).send(3, 4, process=2).poll((0, 2)).poll((5, 2), process=8)
    assert history.anomalies() == ["duplicate"]


def test_the_lost_tail_is_unseen() -> None:
    verdict = three().final((0, 1), (1, 2)).check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("unseen", [3])]


def test_unseen_needs_final_reads() -> None:
    assert three().poll((0, 1), (1, 2)).anomalies() == []


def test_a_partition_that_the_final_reads_cannot_read_is_unseen() -> None:
    assert three().final().anomalies() == ["unseen"]


def test_a_value_acknowledged_without_offset_and_never_polled_is_unseen() -> None:
    def run(*records: tuple[int, int]) -> list[str]:
        history = History().created().process(1, acks="1").send(1, None).send(2, None)
        return history.final(*records).anomalies()

    assert run((0, 1)) == ["unseen"]
    assert run((0, 1), (1, 2)) == []


@pytest.mark.parametrize("kind", ["kill", "kill_all", "pause", "isolate"])
def test_crashes_of_every_node_lose_nothing_legally(kind: str) -> None:
    history = three().fault(kind, "node-1", "node-2", "node-3").change(leader=2, isr=[2])
    assert "lost-write" in without_two(history).anomalies()


def test_loss_is_legal_where_every_isr_member_lost_its_data() -> None:
    history = three().fault("wipe", "node-1", "node-2", lossy=True).fault("lose_tail", "node-3", lossy=True)
    verdict = without_two(history).check()
    assert verdict.valid
    legal = next(e for e in verdict.explained if e.anomaly == "lost-write")
    assert "every member of the ISR at acknowledgement time [1, 2, 3] lost its data" in legal.reason
    assert verdict.figures.lost == verdict.figures.lost_legally == 1


def test_a_lost_log_directory_takes_the_partitions_that_lay_there_and_no_others() -> None:
    def directories_lost(*partitions: str) -> History:
        history = three().fault("wipe", "node-1", "node-2", lossy=True)
        return without_two(history.fault("fail_directory", "node-3", partitions=partitions))

    assert "lost-write" in directories_lost("orders-0", "orders-7").excused()
    assert "lost-write" in directories_lost("orders-7").anomalies()
    verdict = directories_lost("orders-7").check()
    story = " ".join(line for violation in verdict.violations for line in violation.story)
    assert "(nodes [3] lose data of orders-7)" in story


def test_with_acks_1_the_leader_of_another_directory_lost_nothing() -> None:
    def leader_lost(partition: str) -> History:
        history = History().created().process(1, acks="1", idempotent=False).send(1, 0).send(2, 1).wait(5)
        return history.fault("fail_directory", "node-1", partitions=(partition,)).final((0, 1))

    assert leader_lost("orders-0").excused() == ["unseen"]
    assert leader_lost("orders-7").anomalies() == ["unseen"]


def test_loss_is_illegal_where_one_isr_member_kept_its_data() -> None:
    history = three().fault("wipe", "node-1", "node-2", lossy=True).fault("kill", "node-3")
    assert "lost-write" in without_two(history).anomalies()


def test_losses_of_the_isr_before_the_send_explain_nothing() -> None:
    history = History().created().fault("wipe", "node-1", "node-2", "node-3", lossy=True).wait(5)
    assert "lost-write" in without_two(history.send(1, 0).send(2, 1).send(3, 2)).anomalies()


def test_only_the_isr_at_acknowledgement_counts() -> None:
    history = History().created(isr=(1,)).send(1, 0).send(2, 1).send(3, 2).wait(5).fault("wipe", "node-1", lossy=True)
    assert "lost-write" in without_two(history).excused()
    later = History(min_isr=2).created().send(1, 0).send(2, 1).send(3, 2).wait(5).change(isr=[1])
    assert "lost-write" in without_two(later.wait(5).fault("wipe", "node-1", lossy=True)).anomalies()


def last_standing(*, min_isr: int, elr: tuple[int, ...] = (), level: int | None = None) -> History:
    """Acknowledged by three; two leave the ISR with their data; the last one loses its disk and leads again."""
    history = History(min_isr=min_isr)
    if level is not None:
        history.metadata(type="Feature", name="metadata.version", level=30)
        history.metadata(type="Feature", name="eligible.leader.replicas.version", level=level)
    history.created().send(1, 0).send(2, 1).send(3, 2).wait(5)
    history.change(isr=[1], elr=list(elr)).wait(5).fault("wipe", "node-1", lossy=True)
    return without_two(history.change(leader=-1).wait(1).change(leader=1))


def test_where_min_isr_is_1_the_loss_of_the_last_in_sync_replica_is_legal() -> None:
    verdict = last_standing(min_isr=1).check()
    assert verdict.valid
    assert "all cleanly electable replicas [1] had lost their data" in verdict.explained[0].reason
    assert not last_standing(min_isr=1).check(strict=True).valid


def test_where_min_isr_is_2_one_loss_is_legal_only_without_elr() -> None:
    assert "lost-write" in last_standing(min_isr=2).anomalies()
    assert "lost-write" in last_standing(min_isr=2, level=1).anomalies()
    assert "lost-write" in last_standing(min_isr=2, level=0).excused()


def test_an_elr_member_could_still_lead() -> None:
    assert "lost-write" in last_standing(min_isr=1, elr=(2, 3)).anomalies()


def test_a_node_that_lost_its_data_and_stayed_in_the_isr_is_no_excuse() -> None:
    """Node 1 loses its disk and is not taken out of the ISR; then the others go, and it leads with an empty log."""
    history = History(min_isr=1).created().send(1, 0).send(2, 1).send(3, 2).wait(5).fault("wipe", "node-1", lossy=True)
    history.wait(5).fault("kill", "node-2", "node-3").change(isr=[1], leader=1)
    assert "lost-write" in without_two(history).anomalies()


def wiped_unnoticed(*noticed: dict[str, object], level: int = 0, elr: tuple[int, ...] = ()) -> History:
    """Node 1 loses its disk; the others leave the ISR in order before its session is over, and it leads when back."""
    history = History(min_isr=2)
    history.metadata(type="Feature", name="eligible.leader.replicas.version", level=level)
    history.metadata(type="RegisterBroker", broker_id=1, broker_epoch=3)
    history.created().send(1, 0).send(2, 1).send(3, 2).wait(5).fault("wipe", "node-1", lossy=True)
    for record in noticed:
        history.metadata(**record)
    history.change(isr=[1], elr=list(elr)).wait(3).change(leader=-1).wait(1)
    history.metadata(type="RegisterBroker", broker_id=1, broker_epoch=30)
    return without_two(history.change(leader=1))


def test_a_replica_with_unnoticed_data_loss_may_remain_alone_in_the_isr() -> None:
    verdict = wiped_unnoticed().check()
    assert verdict.valid
    assert "this was not known when the others left the ISR" in verdict.explained[0].reason
    assert not wiped_unnoticed().check(strict=True).valid


def test_a_member_fenced_right_after_the_others_was_not_noticed_before() -> None:
    def fenced_at_once(first: str) -> History:
        history = History(min_isr=2)
        history.metadata(type="Feature", name="eligible.leader.replicas.version", level=0)
        history.metadata(type="RegisterBroker", broker_id=1, broker_epoch=3)
        history.created().send(1, 0).send(2, 1).send(3, 2).wait(5).fault("wipe", "node-1", lossy=True)
        fencing = {"type": "BrokerRegistrationChange", "broker_id": 1, "broker_epoch": 3, "fenced": True}
        shrinking = {"type": "PartitionChange", "topic_id": "T", "partition_id": 0, "isr": [1]}
        records = [fencing, shrinking] if first == "fenced" else [shrinking, fencing]
        history.metadata(**records[0])
        now = history.t
        history.metadata(**records[1])
        history.events[-1] = msgspec.structs.replace(history.events[-1], t=now)
        history.wait(3).change(leader=-1).wait(1)
        history.metadata(type="RegisterBroker", broker_id=1, broker_epoch=30)
        return without_two(history.change(leader=1))

    assert fenced_at_once("shrunk").check().valid
    assert "lost-write" in fenced_at_once("fenced").anomalies()


def test_the_loss_is_illegal_after_fencing_or_return_or_with_other_eligible_replicas() -> None:
    fenced: dict[str, object] = {"type": "BrokerRegistrationChange", "broker_id": 1, "broker_epoch": 3, "fenced": True}
    back: dict[str, object] = {"type": "RegisterBroker", "broker_id": 1, "broker_epoch": 20}
    assert "lost-write" in wiped_unnoticed(fenced).anomalies()
    assert "lost-write" in wiped_unnoticed(back).anomalies()
    assert "lost-write" in wiped_unnoticed(level=1, elr=(2, 3)).anomalies()
    assert "lost-write" in wiped_unnoticed(level=1).anomalies(), "of a minimum of 2 one may be lost"


def test_a_send_that_waited_for_the_isr_to_shrink_is_judged_by_the_shrunken_one() -> None:
    history = History().created().send(1, 0)
    op = history.begin(1, "send", [["send", P, 2]])
    history.wait(9).change(isr=[1]).end(op, Ok, [["send", P, 2, 1]]).send(3, 2)
    history.wait(5).fault("wipe", "node-1", lossy=True)
    verdict = without_two(history).check()
    assert verdict.valid
    assert any("the ISR was [1, 2, 3] or [1]" in sentence for e in verdict.explained for sentence in e.story)


def test_nodes_wiped_one_after_the_other_lose_nothing_legally() -> None:
    history = three()
    for node, others in ((1, [2, 3]), (2, [3, 1]), (3, [1, 2])):
        history.wait(5).fault("wipe", f"node-{node}", lossy=True)
        history.change(isr=others, leader=others[0]).wait(5).change(isr=[*others, node])
    assert "lost-write" in without_two(history).anomalies()


def test_a_wiped_node_that_did_not_restart_in_time_has_no_copy() -> None:
    history = three()
    for node, others in ((1, [2, 3]), (2, [3])):
        history.wait(5).fault("wipe", f"node-{node}", lossy=True).change(isr=others, leader=others[0])
    history.wait(5).fault("wipe", "node-3", lossy=True)
    assert "lost-write" in without_two(history).excused()


def test_a_controller_that_lost_its_disk_holds_no_records() -> None:
    targets = ("node-1/controller", "node-2/controller", "node-3/controller")
    assert "lost-write" in without_two(three().fault("wipe", *targets, lossy=True)).anomalies()
    brokers = ("node-1/broker", "node-2/broker", "node-3/broker")
    assert "lost-write" in without_two(three().fault("wipe", *brokers, lossy=True)).excused()


def unclean(history: History) -> History:
    history.change(leader=-1).wait(1).change(leader=3, isr=[3], leader_recovery_state=1)
    return history.wait(1).change(leader_recovery_state=0)


def test_loss_by_an_unclean_election_is_legal_and_names_it() -> None:
    history = History(unclean=True).created(isr=(1,)).send(1, 0).send(2, 1).send(3, 2)
    verdict = unclean(history).final((0, 1)).check()
    assert verdict.valid
    legal = next(e for e in verdict.explained if e.anomaly == "unseen")
    assert legal.values == [2, 3] and "node 3 was elected uncleanly" in legal.reason
    assert any("unclean election" in sentence for sentence in legal.story)


def test_an_unclean_election_before_the_send_excuses_nothing() -> None:
    history = unclean(History(unclean=True).created(isr=(1,))).wait(30).send(1, 0).send(2, 1).send(3, 2)
    assert "lost-write" in without_two(history).anomalies()


def test_an_unclean_election_of_another_partition_excuses_nothing() -> None:
    history = three().created(partition=1).change(partition=1, leader=3, isr=[3], leader_recovery_state=1)
    history.events[0] = History(unclean=True).events[0]
    assert "lost-write" in without_two(history).anomalies()


def test_a_clean_election_excuses_nothing() -> None:
    assert "lost-write" in without_two(three().change(leader=-1).change(leader=2)).anomalies()


def test_an_unclean_election_loses_nothing_below_the_elected_leaders_end() -> None:
    """The final logs say that leader epoch 2 begins at offset 2, so offset 1 was below the elected leader's end."""

    def run(epochs: list[list[int]]) -> History:
        history = unclean(History(unclean=True).created(isr=(1,)).send(1, 0).send(2, 1).send(3, 2))
        history.send(4, epochs[-1][1], process=2).final((0, 1), (epochs[-1][1], 4))
        return history.replica(3, end=epochs[-1][1] + 1, epochs=epochs)

    legal = run([[0, 0], [2, 1]]).check()
    gone = {value for e in legal.explained if e.anomaly in ("lost-write", "unseen") for value in e.values}
    assert legal.valid and gone == {2, 3}
    verdict = run([[0, 0], [2, 2]]).check()
    assert [(v.anomaly, v.values) for v in verdict.violations] == [("lost-write", [2])]


def test_an_unclean_election_may_bring_back_a_log_that_went_another_way() -> None:
    """Node 3 leads in epoch 2 from offset 1; then node 1 in epoch 4, whose log has offset 1 from epoch 0."""
    history = unclean(History(unclean=True, min_isr=1).created(isr=(1,)).send(1, 0).send(2, 1).send(3, 2).wait(30))
    history.wait(15).send(4, 1, process=2).change(leader=-1).change(leader=1, isr=[1], leader_recovery_state=1)
    history.send(5, 3, process=5).final((0, 1), (1, 2), (2, 3), (3, 5)).replica(1, end=4, epochs=[[0, 0], [4, 3]])
    verdict = history.check()
    assert verdict.valid, verdict.violations
    assert [e.values for e in verdict.explained if e.anomaly == "lost-write"] == [[4]]


def test_a_deposed_leaders_record_may_return_with_it() -> None:
    """Node 1, deposed and cut off, takes value 4 at offset 3; node 2 commits 5 there; node 1 is elected uncleanly."""

    def run(*, elected: bool) -> History:
        history = History(unclean=True, min_isr=1).created().process(1, acks="1", idempotent=False)
        history.send(1, 0).send(2, 1).send(3, 2).wait(20).fault("isolate", "node-1").wait(1)
        history.change(leader=2, isr=[2]).wait(1).send(4, 3).wait(1).send(5, 3, process=2).wait(1)
        if elected:
            history.change(leader=-1).change(leader=1, isr=[1], leader_recovery_state=1)
        return history.wait(5).final((0, 1), (1, 2), (2, 3), (3, 4))

    verdict = run(elected=True).check()
    assert verdict.valid, verdict.violations
    assert {each.anomaly for each in verdict.explained} >= {"inconsistent-offsets", "realtime-order"}
    assert {"inconsistent-offsets", "realtime-order"} <= set(run(elected=False).anomalies())


def test_a_read_and_lost_value_may_replace_its_successor() -> None:
    """Value 4 is committed and read at offset 3; node 2, elected uncleanly, has 5 there; node 1 brings 4 back."""

    def run(*, elected: bool) -> History:
        history = History(unclean=True, min_isr=1).created()
        history.send(1, 0).send(2, 1).send(3, 2).send(4, 3).assign(P).poll((0, 1), (1, 2), (2, 3), (3, 4)).wait(20)
        history.change(leader=-1).change(leader=2, isr=[2], leader_recovery_state=1).wait(1)
        history.change(leader_recovery_state=0).send(5, 3, process=2).wait(20)
        if elected:
            history.change(leader=-1).change(leader=1, isr=[1], leader_recovery_state=1)
        return history.wait(5).final((0, 1), (1, 2), (2, 3), (3, 4))

    assert "inconsistent-offsets" in {each.anomaly for each in run(elected=True).check().explained}
    assert "inconsistent-offsets" in run(elected=False).anomalies()


def test_records_from_before_an_emptied_leader_do_not_prove_its_later_records() -> None:
    """Node 1, alone in the ISR, restarts empty and appends value 6 at offset 0; node 2 then restarts with its log."""

    def run(*, elected: bool) -> History:
        history = History(unclean=True, min_isr=1).created(isr=(1, 2)).send(1, 0).send(2, 1).wait(20)
        history.change(isr=[1]).send(3, 2).wait(1).fault("wipe", "node-1", lossy=True).wait(1)
        history.change(leader=-1).change(leader=1).send(6, 0).wait(20)
        if elected:
            history.change(leader=-1).change(leader=2, isr=[2], leader_recovery_state=1)
        return history.wait(5).final((0, 1), (1, 2))

    verdict = run(elected=True).check()
    assert verdict.valid, verdict.violations
    assert "inconsistent-offsets" in {each.anomaly for each in verdict.explained}
    assert "inconsistent-offsets" in run(elected=False).anomalies()


def test_a_copy_that_survived_elsewhere_does_not_count_as_the_last_at_its_offset() -> None:
    """Value 5 is committed at offset 3 by node 2 and lost there; its producer's first try stands behind 4 on node 1."""

    def run(*, elected: bool) -> History:
        history = History(unclean=True, min_isr=1).created().process(1, acks="1", idempotent=False)
        history.process(2, idempotent=False)
        history.send(1, 0).send(2, 1).send(3, 2).wait(20).fault("isolate", "node-1").wait(1)
        history.send(4, 3).wait(1).change(leader=2, isr=[2]).wait(1).send(5, 3, process=2).wait(1)
        if elected:
            history.change(leader=-1).change(leader=1, isr=[1], leader_recovery_state=1)
        return history.wait(5).final((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))

    assert "inconsistent-offsets" in {each.anomaly for each in run(elected=True).check().explained}
    assert "inconsistent-offsets" in run(elected=False).anomalies()


def test_a_read_value_may_return_at_another_offset() -> None:
    """As above, but value 5 was read where it was lost; with the old log its first try takes offset 4."""

    def run(*, elected: bool) -> History:
        history = History(unclean=True, min_isr=1).created().process(1, acks="1", idempotent=False)
        history.process(2, idempotent=False)
        history.send(1, 0).send(2, 1).send(3, 2).wait(20).fault("isolate", "node-1").wait(1)
        history.send(4, 3).wait(1).change(leader=2, isr=[2]).wait(1).send(5, 3, process=2).send(6, 4, process=2)
        history.assign(P).poll((0, 1), (1, 2), (2, 3), (3, 5), (4, 6)).wait(1)
        if elected:
            history.change(leader=-1).change(leader=1, isr=[1], leader_recovery_state=1)
        return history.wait(5).final((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))

    verdict = run(elected=True).check()
    assert [each for each in verdict.violations if each.anomaly == "inconsistent-offsets"] == []
    (found,) = (each for each in verdict.explained if each.anomaly == "inconsistent-offsets")
    assert (found.count, found.values) == (2, [4, 5])
    assert "inconsistent-offsets" in run(elected=False).anomalies()


def test_an_unclean_election_loses_nothing_below_a_surviving_record() -> None:
    history = History(unclean=True).created(isr=(1,)).send(1, 0).send(2, 1).send(3, 2).wait(20)
    assert "lost-write" in without_two(unclean(history)).anomalies()


def test_an_unclean_election_that_no_config_allows() -> None:
    verdict = unclean(History().created(isr=(1,)).send(1, 0).send(2, 1)).final((0, 1)).check()
    assert [v.anomaly for v in verdict.violations] == ["unclean-election"]
    assert [e.anomaly for e in verdict.explained] == ["unseen"]


@pytest.mark.parametrize("name", ["orders", ""])
def test_an_unclean_election_may_be_allowed_by_a_config_record(name: str) -> None:
    history = History().created(isr=(1,)).send(1, 0)
    kind = 2 if name else 4
    history.metadata(
        type="Config", resource_type=kind, resource_name=name, name="unclean.leader.election.enable", value="true"
    )
    assert unclean(history).final((0, 1)).anomalies() == []


def test_an_operator_may_request_an_unclean_election() -> None:
    history = History().created(isr=(1,)).send(1, 0)
    history.end(history.begin(7, "admin", ["elect-leaders-unclean", P]), Ok, ["elect-leaders-unclean", P])
    assert unclean(history).final((0, 1)).anomalies() == []


def test_the_last_known_leader_may_be_elected_when_isr_and_elr_are_empty() -> None:
    history = History().created(isr=(1,)).send(1, 0).change(leader=-1, isr=[], last_known_elr=[3])
    assert history.change(leader=3, isr=[3], leader_recovery_state=1).final((0, 1)).anomalies() == []


def test_a_leader_from_the_elr_is_clean() -> None:
    history = three().change(isr=[1], elr=[2, 3]).change(leader=-1, isr=[], elr=[1, 2, 3]).change(leader=2, isr=[2])
    assert history.final((0, 1), (1, 2), (2, 3)).anomalies() == []


def test_a_leader_from_outside_the_isr_that_is_not_marked_excuses_nothing() -> None:
    history = History(unclean=True).created(isr=(1, 2)).send(1, 0).send(2, 1).send(3, 2).change(leader=3, isr=[3])
    assert "unclean-election" in without_two(history).anomalies()
    assert "lost-write" in without_two(history).anomalies()


def test_a_reassignment_may_end_with_a_new_leader() -> None:
    history = three().change(replicas=[4, 2, 3], isr=[4, 2, 3], leader=4).final((0, 1), (1, 2), (2, 3))
    assert history.anomalies() == []


def test_an_aborted_metadata_batch_elects_no_leader() -> None:
    history = History().created(isr=(1,)).send(1, 0).send(2, 1).metadata(type="BeginTransaction")
    history.change(leader=3, isr=[3], leader_recovery_state=1).metadata(type="AbortTransaction")
    assert history.final((0, 1)).anomalies() == ["unseen"]
    history = History(unclean=True).created(isr=(1,)).send(1, 0).send(2, 1).metadata(type="BeginTransaction")
    history.change(leader=3, isr=[3], leader_recovery_state=1).metadata(type="EndTransaction")
    assert history.final((0, 1)).excused() == ["unseen"]


def test_with_acks_1_a_leader_that_stayed_may_not_lose() -> None:
    history = three(acks="1", idempotent=False).fault("kill", "node-3").change(isr=[1, 2])
    assert "lost-write" in without_two(history).anomalies()


def test_with_acks_1_a_leader_that_changed_long_before_the_send_excuses_nothing() -> None:
    history = History().created().process(1, acks="1").change(leader=2).wait(30).send(1, 0).send(2, 1).send(3, 2)
    assert "lost-write" in without_two(history).anomalies()


def test_with_acks_0_nothing_was_promised() -> None:
    history = History().created().process(1, acks="0", idempotent=False).send(1).send(2).send(3)
    assert history.final((0, 1)).excused() == ["unseen"]


def test_another_clients_acks_excuse_nothing() -> None:
    history = three().process(2, acks="0").fault("kill", "node-1").change(leader=2)
    assert "lost-write" in without_two(history).anomalies()


def test_without_metadata_only_the_loss_of_all_brokers_excuses() -> None:
    def run(*wiped: str) -> History:
        history = History().send(1, 0).send(2, 1).send(3, 2).wait(5).fault("wipe", *wiped, lossy=True)
        return without_two(history)

    assert "lost-write" in run("node-1", "node-2").anomalies()
    assert "lost-write" in run("node-1", "node-2", "node-3").excused()


def test_a_deleted_topic_keeps_nothing() -> None:
    history = three().metadata(type="RemoveTopic", topic_id="T").final()
    assert history.excused() == ["unseen"]


def test_metadata_that_is_followed_twice_counts_once() -> None:
    history = three()
    again = [e for e in history.events if type(e).__name__ == "Metadata"]
    history.change(leader=2, isr=[2, 3])
    history.events += again
    states = without_two(history).check().violations[0].story
    assert sum("leads in leader epoch" in sentence for sentence in states) == 1


def test_the_records_of_a_snapshot_may_share_an_offset() -> None:
    history = without_two(three().wait(5).fault("wipe", "node-1", "node-2", "node-3", lossy=True))
    for at, event in enumerate(history.events):
        if isinstance(event, Metadata):
            history.events[at] = Metadata(t=event.t, offset=1, record=event.record)
    assert "lost-write" in history.excused()


def test_many_lost_values_are_reported_as_one() -> None:
    history = History().created()
    for value in range(50):
        history.send(value, value)
    history.send(50, 50).final((50, 50))
    verdict = history.check()
    found = next(v for v in verdict.violations if v.anomaly == "lost-write")
    assert (found.count, found.values) == (50, list(range(50)))
    assert "(and 49 similar ones)" in found.reason


def test_an_unseen_unknown_transaction_with_an_offset_is_no_loss() -> None:
    history = History().created().txn([["send", P, 1, 0], ["send", P, 2, 1]], kind=Info, committed=None).send(3, 3)
    assert history.final((3, 3)).anomalies() == []


def test_a_deposed_leader_may_be_the_last_to_acknowledge_an_offset_that_is_deleted_later() -> None:
    """Node 1 is deposed while value 4 is on its way to it; node 2 commits 5 at offset 3; then node 1 takes 4 there."""

    def run(acks: str) -> list[str]:
        history = History(min_isr=1).created().process(1, acks=acks, idempotent=False)
        history.send(1, 0).send(2, 1).send(3, 2).wait(20).fault("isolate", "node-1").wait(1)
        op = history.begin(1, "send", [["send", P, 4]])
        history.change(leader=2, isr=[2]).send(5, 3, process=2).send(6, 4, process=2)
        history.assign(P).poll((3, 5), (4, 6)).end(op, Ok, [["send", P, 4, 3]]).wait(5)
        return history.final((4, 6)).replica(2, start=4, end=5, epochs=[[1, 4]]).anomalies()

    assert "inconsistent-offsets" not in run("1")
    assert "inconsistent-offsets" in run("-1")
