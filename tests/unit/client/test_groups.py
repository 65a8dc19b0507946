"""Groups of the public API on a cluster in memory."""

import pytest

from kvorum.client import Cluster, ErrorCode, KafkaError, ResetError, ResetTarget, TopicPartition
from kvorum.protocol.messages.list_groups import ListGroupsRequest
from kvorum.protocol.messages.offset_commit import OffsetCommitRequest
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.test_groups_routes import fill
from tests.unit.client.kit import with_api

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_groups_are_listed_and_described() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fill(fake)
        groups = cluster.groups
        listings = await groups.list()
        assert [(each.group_id, each.type, each.has_consumers) for each in listings] == [
            ("c", "consumer", True),
            ("e", "consumer", True),
            ("k", "classic", True),
        ]
        assert [each.group_id for each in await groups.list(types=["classic"])] == ["k"]
        found, unreachable = await groups.list_available(states=["empty"])
        assert ([each.group_id for each in found], unreachable) == (["e"], [])
        group = await groups.describe("c")
        (member,) = group.members
        assert (group.state, group.epoch, member.assignment, member.protocol) == ("Stable", 3, (T0, T1), "consumer")
        assert (await groups.describe("k")).members[0].assignment == (T0,)
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            await groups.describe("none")
        many = await groups.describe_many(["none", "c"])
        missing = many["none"]
        assert isinstance(missing, KafkaError) and missing.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert many["c"] == group
        assert (await groups.state("none"), await groups.state("e")) == ("Dead", "Empty")
        assert {name: each.member_count for name, each in (await groups.memberships(listings)).items()} == {
            "c": 1,
            "e": 0,
            "k": 1,
        }
        fake.codes[ListGroupsRequest] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await groups.list()

    with_api(run)


def test_offsets_and_lags() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fill(fake)
        groups = cluster.groups
        assert {place: each.offset for place, each in (await groups.offsets("e")).items()} == {T0: 5, T1: 1}
        assert await groups.offsets("none") == {}
        lags = await groups.lags("c")
        assert [(each.topic_partition, each.end_offset, each.lag) for each in lags] == [(T0, 10, 3), (T1, 4, None)]
        assert lags[1].committed is None and lags[0].member is not None and lags[0].member.member_id == "m1"
        fake.offsets_of["e"]["gone", 0] = 1
        total = (await groups.total_lags(["e", "c"]))["e"]
        assert (total.lag, total.partition_count, total.unknown_count, total.topics) == (8, 2, 1, {"t", "gone"})
        assert [each.end_offset for each in await groups.lags("e", attempts=1)] == [None, 10, 4]

    with_api(run)


def test_offsets_are_reset_within_the_log() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fill(fake)
        groups = cluster.groups
        resets = await groups.reset_offsets("e", ResetTarget(shift_by=-3), dry_run=True)
        assert [(each.before, each.target, each.after, each.is_below) for each in resets] == [
            (5, 2, 2, False),
            (1, -2, 0, True),
        ]
        assert not [each for each in fake.requested if isinstance(each, OffsetCommitRequest)]
        for target, offsets in (
            (ResetTarget(to="earliest"), [0, 0]),
            (ResetTarget(to="latest"), [10, 4]),
            (ResetTarget(to="current"), [10, 4]),
            (ResetTarget(offset=7), [7, 4]),
            (ResetTarget(timestamp_ms=-1), [0, 0]),
            (ResetTarget(offsets={T0: 6}), [6]),
        ):
            resets = await groups.reset_offsets("e", target)
            assert [(each.after, each.error) for each in resets] == [(offset, None) for offset in offsets], target
        assert fake.offsets_of["e"] == {("t", 0): 6, ("t", 1): 0}
        await groups.reset_offsets("new", ResetTarget(to="latest"), [T1])
        assert fake.offsets_of["new"] == {("t", 1): 4}
        with pytest.raises(KafkaError, match=r"NON_EMPTY_GROUP.*Stable"):
            await groups.reset_offsets("c", ResetTarget(to="latest"))
        with pytest.raises(ResetError, match="no current committed offset"):
            await groups.reset_offsets("other", ResetTarget(shift_by=1), [T0])

    with_api(run)


def test_a_reset_has_exactly_one_target() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        ResetTarget()
    with pytest.raises(ValueError, match="exactly one"):
        ResetTarget(to="latest", offset=0)
    with pytest.raises(ValueError, match="'end' is not one of"):
        ResetTarget(to="end")  # type: ignore[arg-type]


def test_groups_offsets_and_members_are_removed() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        fill(fake)
        groups = cluster.groups
        assert await groups.delete_offsets("e", [T1]) == {T1: None}
        assert fake.offsets_of["e"] == {("t", 0): 5}
        await groups.delete("e")
        assert "e" not in fake.consumers
        for group_id, code in (("e", "GROUP_ID_NOT_FOUND"), ("k", "NON_EMPTY_GROUP")):
            with pytest.raises(KafkaError, match=code):
                await groups.delete(group_id)
        (removal,) = await groups.remove_members("k", member_ids=["other"])
        assert removal.error is not None and removal.error.code is ErrorCode.UNKNOWN_MEMBER_ID
        (removal,) = await groups.remove_all_members("k", reason="stuck")
        assert (removal.member_id, removal.error) == ("old", None)
        assert await groups.remove_members("k") == []
        (removal,) = await groups.remove_all_members("c")
        assert removal.error is None and (await groups.describe("c")).members == ()

    with_api(run)
