"""OrderedSet is a set in the order of arrival."""

from kvorum.runtime.ordered_set import OrderedSet


def test_members_are_iterated_in_insertion_order() -> None:
    members: OrderedSet[object] = OrderedSet()
    objects = [object() for _ in range(50)]
    for each in objects:
        members.add(each)
    members.add(objects[0])
    members.discard(objects[7])
    members.discard(objects[7])
    assert list(members) == objects[:7] + objects[8:]
    assert len(members) == 49
