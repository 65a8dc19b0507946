"""A log that behaves, driven by random steps, and the history its clients would write."""

import random
from collections.abc import Callable

from kvorum.chaos.history import AnyEvent, Fail, Info, Invoke, Ok, OperationValue
from tests.unit.chaos.checker.history_kit import History

PARTITIONS = ("orders-0", "orders-1")
PRODUCERS, CONSUMERS = 3, 2
KINDS = 10


class Model:
    """Partitions with visible records and holes; pipelined idempotent producers; consumers with places."""

    def __init__(self) -> None:
        self.history = History().created()
        self.logs: dict[str, list[tuple[int, int]]] = {name: [] for name in PARTITIONS}
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.flying: list[list[tuple[int, str, int, int | None]]] = [[] for _ in range(PRODUCERS)]
        self.places = [dict.fromkeys(PARTITIONS, 0) for _ in range(CONSUMERS)]
        self.polls: list[int | None] = [None] * CONSUMERS
        self.value = 0

    def step(self, kind: int, who: int, what: int) -> None:
        producer, consumer, name = who % PRODUCERS, who % CONSUMERS, PARTITIONS[what % len(PARTITIONS)]
        steps: list[Callable[[], None]] = [
            lambda: self.send(producer, name),
            lambda: self.append(producer),
            lambda: self.answer(producer),
            lambda: self.answer(producer),
            lambda: self.give_up(producer, what % 2 == 0),
            lambda: self.control(name),
            lambda: self.begin_poll(consumer),
            lambda: self.end_poll(consumer, what),
            lambda: self.start_over(consumer),
            lambda: self.transaction(what),
        ]
        steps[kind % KINDS]()

    def take(self, name: str, value: int | None) -> int:
        """Append a value, or a hole; returns its offset."""
        offset = self.ends[name]
        self.ends[name] += 1
        if value is not None:
            self.logs[name].append((offset, value))
        return offset

    def send(self, producer: int, name: str) -> None:
        self.value += 1
        op = self.history.begin(producer, "send", [["send", name, self.value]])
        self.flying[producer].append((op, name, self.value, None))

    def append(self, producer: int) -> None:
        """The oldest send that is not in its log gets there."""
        for at, (op, name, value, offset) in enumerate(self.flying[producer]):
            if offset is None:
                self.flying[producer][at] = (op, name, value, self.take(name, value))
                return

    def answer(self, producer: int) -> None:
        if self.flying[producer] and self.flying[producer][0][3] is not None:
            op, name, value, offset = self.flying[producer].pop(0)
            self.history.end(op, Ok, [["send", name, value, offset]])

    def give_up(self, producer: int, refused: bool) -> None:
        """The oldest send ends without success: refused, if it is in no log yet, else with an unknown outcome."""
        if self.flying[producer]:
            op, name, value, offset = self.flying[producer].pop(0)
            kind = Fail if refused and offset is None else Info
            self.history.end(op, kind, [["send", name, value]], error="NO")

    def control(self, name: str) -> None:
        self.take(name, None)

    def begin_poll(self, consumer: int) -> None:
        if self.polls[consumer] is None:
            self.polls[consumer] = self.history.begin(10 + consumer, "poll", [["poll"]])

    def end_poll(self, consumer: int, count: int) -> None:
        op = self.polls[consumer]
        if op is None:
            return
        self.polls[consumer] = None
        polled: dict[str, list[list[int]]] = {}
        for name, place in self.places[consumer].items():
            records = [record for record in self.logs[name] if record[0] >= place][: 1 + count % 4]
            if records:
                polled[name] = [list(record) for record in records]
                self.places[consumer][name] = records[-1][0] + 1
        self.history.end(op, Ok, [["poll", polled]])

    def start_over(self, consumer: int) -> None:
        if self.polls[consumer] is None:
            self.history.assign(*PARTITIONS, process=10 + consumer, from_start=True)
            self.places[consumer] = dict.fromkeys(PARTITIONS, 0)

    def transaction(self, how: int) -> None:
        """One value to each partition, then markers: committed, aborted, or unknown and either of the two."""
        committed, kind = how % 2 == 0, (Ok, Fail, Info, Info)[how % 4]
        steps: OperationValue = []
        for name in PARTITIONS:
            self.value += 1
            steps.append(["send", name, self.value])
        op = self.history.begin(20, "txn", steps)
        for at, name in enumerate(PARTITIONS):
            value = self.value - len(PARTITIONS) + 1 + at
            offset = self.take(name, value if committed else None)
            steps[at] = ["send", name, value, offset]
        for name in PARTITIONS:
            self.control(name)
        self.history.end(op, kind, steps, committed=committed if kind is not Info else None)

    def finish(self) -> History:
        for producer in range(PRODUCERS):
            while self.flying[producer]:
                self.append(producer)
                self.answer(producer)
        for consumer in range(CONSUMERS):
            self.end_poll(consumer, 3)
        for number, name in enumerate(PARTITIONS):
            records = self.logs[name]
            self.history.final(*records, at=name, process=90 + number)
        return self.history


def run(script: list[tuple[int, int, int]]) -> History:
    """The history of these steps."""
    model = Model()
    for kind, who, what in script:
        model.step(kind, who, what)
    return model.finish()


def acked(history: History) -> list[tuple[str, int, int, int]]:
    """(partition, offset, value, process) of every acknowledged plain send, in the order of invocation."""
    begun = {event.op: at for at, event in enumerate(history.events) if isinstance(event, Invoke)}
    found = [
        (begun[event.op], step[1], step[3], step[2], event.process)
        for event in history.events
        if isinstance(event, Ok) and event.f == "send"
        for step in event.value
        if isinstance(step, list)
    ]
    return [(str(name), int(offset), int(value), process) for _, name, offset, value, process in sorted(found)]  # type: ignore[arg-type,call-overload]


def rewrite(history: History, change: Callable[[AnyEvent, str, list[list[int]]], list[list[int]]]) -> None:
    """Replace the records of every poll by what `change` makes of them."""
    for event in history.events:
        if isinstance(event, Ok | Info | Fail):
            for step in event.value:
                if isinstance(step, list) and step[0] == "poll" and len(step) > 1 and isinstance(step[1], dict):
                    for name, records in step[1].items():
                        step[1][name] = change(event, name, records)


def seeded(seed: int, length: int = 250) -> History:
    """A history of random steps, most of them sends that succeed."""
    source = random.Random(seed)
    kinds = source.choices(range(KINDS), weights=(8, 8, 4, 4, 1, 1, 4, 4, 1, 2), k=length)
    return run([(kind, source.randrange(6), source.randrange(8)) for kind in kinds])
