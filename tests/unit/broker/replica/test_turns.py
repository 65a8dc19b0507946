"""Works of one key one after another, whether they are done at once or later."""

from kvorum.broker.replica.turns import Done, Turns


class Works:
    """Notes which works were begun, and ends them when told."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.begun: list[str] = []
        self.done: dict[str, Done] = {}

    def later(self, key: str, name: str) -> None:
        def work(done: Done) -> None:
            self.begun.append(name)
            self.done[name] = done

        self.turns.take(key, work)

    def at_once(self, key: str, name: str) -> None:
        def work(done: Done) -> None:
            self.begun.append(name)
            done()

        self.turns.take(key, work)


def test_one_waits_for_the_other_and_keys_do_not_wait_for_each_other() -> None:
    works = Works()
    works.later("a", "a1")
    works.later("a", "a2")
    works.at_once("b", "b1")
    assert works.begun == ["a1", "b1"]
    works.done["a1"]()
    assert works.begun == ["a1", "b1", "a2"]
    works.done["a2"]()
    assert len(works.turns) == 0


def test_thousands_that_are_done_at_once_follow_upon_one_that_was_not() -> None:
    """In a loop: they would not fit on the stack."""
    works = Works()
    works.later("a", "first")
    for number in range(5_000):
        works.at_once("a", str(number))
    works.later("a", "last")
    works.done["first"]()
    assert works.begun == ["first", *map(str, range(5_000)), "last"]
    works.done["last"]()
    assert len(works.turns) == 0


def test_new_work_of_the_same_key_runs_first() -> None:
    works = Works()

    def work(done: Done) -> None:
        works.at_once("a", "inner")
        works.begun.append("outer")
        done()

    works.turns.take("a", work)
    assert works.begun == ["outer", "inner"]
    assert len(works.turns) == 0
