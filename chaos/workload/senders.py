"""Producers by confluent-kafka (librdkafka), a thread each: sends at a steady rate, as many open as the plan allows.

librdkafka calls back in the thread that polls, so a client's completions are written by its own thread.
"""

import logging
import threading
import time
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import Ok
from kvorum.chaos.workload.classify import classify_send_error, kafka_name
from kvorum.chaos.workload.libraries import CONFLUENT
from kvorum.chaos.workload.plan import SendClients
from kvorum.chaos.workload.recorder import Recorder, encode_value, partition_names
from kvorum.chaos.workload.threads import client_thread

IDLE_SECONDS: Final = 0.02
"""The longest a client lets pass without looking at its answers."""
GIVE_UP_SECONDS: Final = 5.0
"""In addition to the send's own timeout, at the end, before open sends are recorded as unknown."""
SILENT: Final = logging.getLogger("kvorum.chaos.librdkafka")
"""Receives librdkafka's log, including fatal errors, which are in the history."""
KEYS: Final = 16
"""Number of keys per partition."""


class PartitionChooser:
    """The partition of the next record."""

    def __init__(self, topics: dict[str, int], hot_share: float, rng: Random) -> None:
        """All partitions with equal shares, except the first one's extra share."""
        self.names = partition_names(topics)
        self._hot_share = hot_share
        self._rng = rng
        self._next = rng.randrange(len(self.names))

    def draw(self) -> str:
        """Return the next partition: one after the other, so that each sees the same rate."""
        if self._hot_share and self._rng.random() < self._hot_share:
            return self.names[0]
        self._next = (self._next + 1) % len(self.names)
        return self.names[self._next]


class Pace:
    """Evenly spaced times; time lost by a wait at the limit is not caught up."""

    def __init__(self, rate: float) -> None:
        """Rate per second."""
        self._gap = 1.0 / rate
        self._next = time.monotonic()

    def due(self) -> float:
        """Return the seconds until the next one; 0 takes it."""
        now = time.monotonic()
        if now < self._next:
            return self._next - now
        self._next = max(self._next + self._gap, now - IDLE_SECONDS)
        return 0.0


class ConfluentSender:
    """One producer's thread; each of its lives is a process of the history."""

    def __init__(
        self, plan: SendClients, topics: dict[str, int], access: ClientAccess, recorder: Recorder, rng: Random
    ) -> None:
        """Create it; `start` starts it."""
        SILENT.setLevel(logging.CRITICAL + 1)
        self._plan = plan
        self._access = access
        self._recorder = recorder
        self._rng = rng
        self._chooser = PartitionChooser(topics, plan.hot_share, rng)
        self._open = 0
        self._stop = threading.Event()
        self._thread = client_thread("chaos-send", self._run, recorder)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending; `join` waits for pending sends."""
        self._stop.set()

    def join(self) -> None:
        """Wait until every send has a response or has failed."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            lifetime = self._plan.crash_every
            self._live(None if lifetime is None else lifetime * (0.5 + self._rng.random()))

    def _live(self, seconds: float | None) -> None:
        plan, recorder = self._plan, self._recorder
        process = recorder.process(CONFLUENT, acks=plan.acks, idempotent=plan.idempotent)
        self._open = 0
        producer = Producer(settings(plan, self._access))
        pace, ends = Pace(plan.rate), None if seconds is None else time.monotonic() + seconds
        try:
            while not self._stop.is_set() and (ends is None or time.monotonic() < ends):
                wait = IDLE_SECONDS if self._open >= plan.in_flight else pace.due()
                if wait:
                    producer.poll(min(wait, IDLE_SECONDS))
                else:
                    self._send(producer, process)
                    producer.poll(0)
            if self._stop.is_set():
                producer.flush(plan.timeout + GIVE_UP_SECONDS)
                recorder.abandon(process)
                return
        except KafkaException as error:
            # A fatal error: an idempotent producer has lost track of its written records.
            recorder.note(f"process {process} cannot continue: {error.args[0].name()}")
        recorder.invoke(process, "crash", [])
        recorder.abandon(process)
        # Its end takes as long as its connections take: the next life does not wait for that.
        corpses = [producer]
        del producer
        threading.Thread(target=bury, args=(corpses,), name="chaos-send-end", daemon=True).start()

    def _send(self, producer: Producer, process: int) -> None:
        recorder, partition = self._recorder, self._chooser.draw()
        value = recorder.next_value()
        op = recorder.invoke(process, "send", [["send", partition, value]])

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            self._open -= 1
            if error is None:
                offset = message.offset()
                # None: librdkafka had an error for it, then an acknowledgement of a later batch, which vouches for it.
                known = offset if self._plan.acks != "0" and offset is not None and offset >= 0 else None
                recorder.complete(op, Ok, [["send", partition, value, known]])
            else:
                recorder.complete(op, classify_send_error(error.name(), "many"), error=kafka_name(error.name()))

        topic, _, number = partition.rpartition("-")
        try:
            producer.produce(
                topic,
                encode_value(value, self._plan.bytes),
                b"key-%d" % (value % KEYS),
                partition=int(number),
                on_delivery=on_delivery,
            )
            self._open += 1
        except KafkaException as refused:
            error = refused.args[0]
            recorder.complete(op, classify_send_error(error.name(), "none"), error=kafka_name(error.name()))
        except BufferError:
            recorder.complete(op, classify_send_error("_QUEUE_FULL", "none"), error="_QUEUE_FULL")


def bury(corpses: list[Producer]) -> None:
    """End producers without waiting for responses to their pending sends. These are the last references to them."""
    while corpses:
        corpses.pop().purge(in_queue=True, in_flight=True, blocking=False)


def settings(plan: SendClients, access: ClientAccess) -> dict[str, Any]:
    """Return librdkafka's configuration of a producer."""
    return {
        **access.librdkafka(),
        "client.id": "kvorum-chaos-send",
        "acks": plan.acks,
        "enable.idempotence": plan.idempotent,
        "message.timeout.ms": round(plan.timeout * 1000),
        "request.timeout.ms": round(min(plan.timeout, 10.0) * 1000),
        "socket.timeout.ms": 10_000,
        "linger.ms": 1,
        "compression.type": plan.compression,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 5_000,
        "log_level": 0,
        "logger": SILENT,
        "message.max.bytes": 10_000_000,
    }
