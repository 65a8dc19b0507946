"""The assignors: whatever the group, every partition is one reader's; shares are even; as few as possible move."""

from collections.abc import Callable, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.broker.coordinator.group.assignors.range import assign_ranges
from kvorum.broker.coordinator.group.assignors.uniform import assign_uniformly
from kvorum.broker.coordinator.group.assignors.words import GroupSpec, MemberSpec, Targets
from kvorum.broker.coordinator.group.words import Assignment
from kvorum.protocol.uuids import Uuid

TOPICS = [Uuid(bytes([number + 1]) * 16) for number in range(5)]
A, B, C = TOPICS[:3]
Readers = dict[str, frozenset[Uuid]]
Assign = Callable[[GroupSpec], Targets]
IDS = [f"m{number}" for number in range(8)]


def spec(
    members: Mapping[str, frozenset[Uuid]],
    counts: Mapping[Uuid, int],
    before: Mapping[str, Assignment] | None = None,
    instances: Mapping[str, str] | None = None,
) -> GroupSpec:
    """A group whose members read these topics and were to have what was before."""
    known = before or {}
    rows = {
        member_id: MemberSpec(topics, known.get(member_id, {}), (instances or {}).get(member_id))
        for member_id, topics in members.items()
    }
    read = frozenset().union(*members.values())
    return GroupSpec(members=rows, partition_counts={each: counts[each] for each in TOPICS if each in read})


def size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def owners(targets: Targets) -> dict[tuple[Uuid, int], str]:
    found: dict[tuple[Uuid, int], str] = {}
    for member_id, assignment in targets.items():
        for topic_id, partitions in assignment.items():
            assert partitions, "no empty rows"
            for each in partitions:
                assert found.setdefault((topic_id, each), member_id) == member_id, "two have the same"
    return found


def check_whole(group: GroupSpec, targets: Targets) -> None:
    """Every partition that somebody reads is one reader's."""
    assert set(targets) == set(group.members)
    found = owners(targets)
    wanted = {(topic_id, each) for topic_id, count in group.partition_counts.items() for each in range(count)}
    assert set(found) == wanted
    assert all(topic_id in group.members[member_id].topics for (topic_id, _), member_id in found.items())


COUNTS = st.fixed_dictionaries({each: st.integers(1, 12) for each in TOPICS})
SUBSCRIPTION = st.frozensets(st.sampled_from(TOPICS), min_size=1)
MIXED = st.dictionaries(st.sampled_from(IDS), st.frozensets(st.sampled_from(TOPICS)), min_size=1)


@st.composite
def alike(draw: st.DrawFn) -> Readers:
    return dict.fromkeys(draw(st.sets(st.sampled_from(IDS), min_size=1)), draw(SUBSCRIPTION))


@given(MIXED | alike(), COUNTS, MIXED | alike(), COUNTS, st.sampled_from([assign_uniformly, assign_ranges]))
@settings(max_examples=300, deadline=None)
def test_every_partition_has_one_reader_for_any_previous_assignment(
    first: Readers,
    counts: dict[Uuid, int],
    then: Readers,
    grown: dict[Uuid, int],
    assign: Assign,
) -> None:
    before = assign(spec(first, counts))
    check_whole(spec(first, counts), before)
    later = {each: max(counts[each], grown[each]) for each in TOPICS}
    group = spec(then, later, before)
    check_whole(group, assign(group))


@given(alike(), COUNTS, st.integers(0, 7), st.integers(0, 7))
@settings(max_examples=300, deadline=None)
def test_uniform_is_balanced_and_moves_few_partitions(
    first: Readers, counts: dict[Uuid, int], gone: int, come: int
) -> None:
    topics = next(iter(first.values()))
    before = assign_uniformly(spec(first, counts))
    members = {each: topics for each in first if each != IDS[gone]} | {IDS[come]: topics}
    group = spec(members, counts, before)
    after = assign_uniformly(group)
    sizes = [size(each) for each in after.values()]
    assert max(sizes) - min(sizes) <= 1
    was, now = owners(before), owners(after)
    moved = [key for key in now if was[key] in members and now[key] != was[key]]
    # What those who stay lose is what the newcomers, and those below their share, must be given beyond what is free.
    free = sum(was[key] not in members for key in now)
    lacking = sum(max(0, size(after[each]) - size(before.get(each, {}))) for each in members)
    assert len(moved) == lacking - free
    assert assign_uniformly(spec(members, counts, after)) == after, "nothing moves when nothing has changed"


@given(MIXED, COUNTS)
@settings(max_examples=300, deadline=None)
def test_uniform_balances_the_readers_of_each_topic(members: Readers, counts: dict[Uuid, int]) -> None:
    """No reader of a topic has two more than another of its readers while it has one of that topic's to give."""
    targets = assign_uniformly(spec(members, counts))
    for topic_id in TOPICS:
        readers = [each for each in members if topic_id in members[each]]
        for giver in readers:
            for taker in readers:
                if topic_id in targets[giver]:
                    assert size(targets[giver]) - size(targets[taker]) <= 1


@given(MIXED, COUNTS)
@settings(max_examples=150, deadline=None)
def test_uniform_keeps_a_balanced_assignment(members: Readers, counts: dict[Uuid, int]) -> None:
    before = assign_uniformly(spec(members, counts))
    assert assign_uniformly(spec(members, counts, before)) == before


@given(alike(), COUNTS)
def test_ranges_are_runs_alike_in_topics_of_equal_size(members: Readers, counts: dict[Uuid, int]) -> None:
    targets = assign_ranges(spec(members, counts))
    for assignment in targets.values():
        for topic_id, partitions in assignment.items():
            assert sorted(partitions) == list(range(min(partitions), max(partitions) + 1))
            for other, others in assignment.items():
                assert counts[topic_id] != counts[other] or partitions == others


def test_ranges_as_in_the_documentation_of_kafka() -> None:
    """t1 and t2 of three partitions each, two members: {0, 1} of both, and {2} of both."""
    targets = assign_ranges(spec({"m0": frozenset({A, B}), "m1": frozenset({A, B})}, {A: 3, B: 3}))
    assert targets == {
        "m0": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "m1": {A: frozenset({2}), B: frozenset({2})},
    }


def test_ranges_follow_instance_ids_first() -> None:
    readers = dict.fromkeys(["m0", "m1", "m2"], frozenset({A}))
    targets = assign_ranges(spec(readers, {A: 3}, instances={"m2": "b", "m1": "c"}))
    assert {each: min(targets[each][A]) for each in targets} == {"m2": 0, "m1": 1, "m0": 2}


def test_ranges_go_to_the_readers_of_each_topic() -> None:
    group = spec({"m0": frozenset({A}), "m1": frozenset({A, B}), "m2": frozenset({B})}, {A: 3, B: 1})
    assert assign_ranges(group) == {
        "m0": {A: frozenset({0, 1})},
        "m1": {A: frozenset({2}), B: frozenset({0})},
        "m2": {},
    }


def test_a_partition_assigned_twice_by_a_leader_gets_one_owner() -> None:
    """A group that was classic has what its leader said: a partition twice, one that there is not."""
    before = {"m0": {A: frozenset({0, 1, 9})}, "m1": {A: frozenset({1, 2, -1})}, "m2": {A: frozenset({0})}}
    for topics in (frozenset({A}), frozenset({A, B})):
        readers = {"m0": frozenset({A}), "m1": frozenset({A}), "m2": topics}
        group = spec(readers, {A: 6, B: 1}, before)
        check_whole(group, assign_uniformly(group))


def test_members_without_topics_have_nothing() -> None:
    assert assign_uniformly(spec({"m0": frozenset(), "m1": frozenset()}, {})) == {"m0": {}, "m1": {}}
    assert assign_ranges(spec({"m0": frozenset()}, {})) == {"m0": {}}


def test_a_partition_without_another_possible_broker_is_not_moved() -> None:
    """m0 alone reads A: it is far above the others, and keeps it."""
    before = {"m0": {A: frozenset(range(10))}}
    group = spec({"m0": frozenset({A, B}), "m1": frozenset({B})}, {A: 10, B: 4}, before)
    targets = assign_uniformly(group)
    assert targets == {"m0": {A: frozenset(range(10))}, "m1": {B: frozenset(range(4))}}
