"""kill -9 of a leader's node under load with acks=all: the longest time without an acknowledgement.

confluent-kafka with its defaults; the topic has one partition, so that its leader is all that there is to wait for.
"""

import time
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from bench.asker import DEADLINE_SECONDS, Asker, active_controller, create_topic
from bench.beds import Bed
from bench.measures.produce import THREE
from bench.rows import Case, Figures, Measure, less
from bench.stalled import StalledError

BEFORE_SECONDS, AFTER_SECONDS = 3.0, 5.0
SETTLED_SECONDS = 1.0
"""Acknowledgements this soon after the kill may have been sent before the leader died."""
FLUSH_SECONDS = 30.0
MUST, AIM = 1.0, 0.2
TITLE = "leader kill -9, 3 nodes, RF 3, acks=all: longest time without an acknowledgement"


class Acknowledged:
    """Remembers when acknowledgements came."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.failed = 0

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        """Process a delivery report."""
        if error is None:
            self.times.append(time.monotonic())
        else:
            self.failed += 1

    def resumed_for(self, killed: float, now: float) -> float:
        """Return for how long acknowledgements have come again since the kill: 0 while they have not."""
        place = len(self.times)
        while place and self.times[place - 1] > killed + SETTLED_SECONDS:
            place -= 1
        return now - self.times[place] if place < len(self.times) else 0.0

    def longest_gap(self) -> float:
        """Return the longest time between two."""
        return max(later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False))


def topic_led_by(bed: Bed, on_controller: bool) -> tuple[str, int]:
    """Make a topic that is led by the active controller's node, or by another; return it, and its leader."""
    asker = Asker(bed.system, 1)
    controller = active_controller(asker)
    others = [node for node in (1, 2, 3) if node != controller]
    order = [controller, *others] if on_controller else [*others, controller]
    topic = bed.new_name()
    create_topic(asker, topic, 3, order)
    asker.close()
    return topic, order[0]


def kill_leader(bed: Bed, title: str, on_controller: bool) -> Figures:
    """Produce, kill the leader's node, and continue until there have been acknowledgements for a while."""
    bed.system.start()
    bed.system.wait_ready()
    topic, leader = topic_led_by(bed, on_controller)
    seen = Acknowledged()
    producer = Producer({"bootstrap.servers": bed.system.bootstrap, "acks": "all", "linger.ms": 1, "log_level": 0})
    before, after = bed.scale.seconds(BEFORE_SECONDS), bed.scale.seconds(AFTER_SECONDS)
    began, killed = time.monotonic(), 0.0
    while not killed or seen.resumed_for(killed, time.monotonic()) <= after:
        now = time.monotonic()
        if not killed and seen.times and now - began > before:
            bed.system.kill(leader)
            killed = time.monotonic()
        if now - began > DEADLINE_SECONDS:
            raise StalledError(f"{len(seen.times)} acknowledgements, and no end after {now - began:.0f} s")
        try:
            producer.produce(topic, b"x" * 100, on_delivery=seen.delivered)
        except BufferError:
            producer.poll(0.01)
        producer.poll(0.001)
    producer.flush(FLUSH_SECONDS)
    if seen.failed:
        raise StalledError(f"{seen.failed} records were not acknowledged")
    return {title: seen.longest_gap()}


def case(title: str, on_controller: bool) -> Case:
    """Return a case: Kvorum's own seconds are compared with the limits."""
    run = partial(kill_leader, title=title, on_controller=on_controller)
    return Case(name=title, rows=(less(title, "s", MUST, AIM, "own"),), run=run)


MEASURE = Measure(
    name="failover",
    nodes=3,
    settings=THREE,
    fresh=True,
    cases=(case(TITLE, False), case(f"{TITLE}, leader and active controller in one", True)),
)
