"""What the jobs decide and draw, without Spark: plans of an archive, the profile's page."""

import re
from html.parser import HTMLParser

import pytest

from kvorum.pipelines.jobs.archive import Archiving, plan_run
from kvorum.pipelines.jobs.manifest import ArchiveError
from kvorum.pipelines.jobs.profile import PartitionProfile, Profile, Sizes, bucket_of
from kvorum.pipelines.jobs.reading import Cluster
from kvorum.pipelines.jobs.report import page

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


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_says_nothing_as_markup_that_came_out_of_a_topic() -> None:
    sizes = Sizes(total=10, least=1, most=9, mean=5.0, quantiles=[5, 9, 9], histogram={1: 0, 2: 1, 4: 0, 8: 1})
    found = Profile(
        topic="<script>t",
        records=2,
        partitions=[PartitionProfile(number=0, records=2, start=0, end=3, gaps=1, value_bytes=10)],
        keys=1,
        null_keys=0,
        null_values=1,
        with_headers=1,
        key_sizes=None,
        value_sizes=sizes,
        time_min=0,
        time_max=10**17,
        bucket_ms=bucket_of(10**17),
        rates=[(0, 1, 5), (10**17, 1, 5)],
        top_keys=[("<b>&", 2)],
        headers=[("\x00<i>", 1)],
        formats={"JSON": 2},
    )
    told = page(found)
    parser = Balanced()
    parser.feed(told)
    assert not parser.open and parser.seen.count("svg") == 4
    assert (
        "<script" not in told
        and "<b>" not in told
        and "<i>" not in told
        and "http" not in re.sub(r'xmlns="[^"]+"', "", told)
    )


def test_buckets_are_as_long_as_they_must_be() -> None:
    assert bucket_of(5_000) == 1_000 and bucket_of(119_999) == 1_000 and bucket_of(120_000) == 60_000
    assert bucket_of(10**12) == 30 * 86_400_000
