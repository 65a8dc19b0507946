"""Plans of an archive, without Spark."""

import pytest

from kvorum.pipelines.jobs.archive import Archiving, plan_run
from kvorum.pipelines.jobs.manifest import ArchiveError
from kvorum.pipelines.jobs.reading import Cluster

WANTED = Archiving(cluster=Cluster(bootstrap="x:1"), topic="t", path="/a", records_max=10)


def test_runs_follow_each_other_and_none_is_larger_than_it_may_be() -> None:
    reached: dict[int, int] = {}
    taken = {0: 0, 1: 3}
    for number in range(1, 100):
        plan = plan_run(number, WANTED, reached, {0: 0, 1: 3, 2: 0}, {0: 25, 1: 9, 2: 0})
        if plan is None:
            break
        assert {n: plan.start[n] for n in taken} == taken
        assert sum(plan.end[n] - plan.start[n] for n in plan.end) <= 11
        reached |= plan.end
        taken = {n: plan.end[n] for n in taken}
    assert reached == {0: 25, 1: 9, 2: 0}


def test_a_gap_is_refused_unless_it_is_allowed_and_then_noted() -> None:
    with pytest.raises(ArchiveError, match="deleted before it was archived"):
        plan_run(2, WANTED, {0: 5}, {0: 7}, {0: 9})
    allowed = Archiving(cluster=WANTED.cluster, topic="t", path="/a", allow_gaps=True)
    plan = plan_run(2, allowed, {0: 5}, {0: 7}, {0: 9})
    assert plan is not None and plan.gaps == {"0": [5, 7]} and plan.start == {0: 7}


def test_a_topic_that_was_made_anew_is_refused() -> None:
    with pytest.raises(ArchiveError, match="recreated"):
        plan_run(2, WANTED, {0: 5}, {0: 0}, {0: 3})
