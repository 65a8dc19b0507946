"""What is sampled into the history: the active controller, and leaders and ISRs where no metadata log can be followed.

Of a cluster of others Metadata answers are all there is. Each change that is seen becomes a whole `Partition` record,
as if it had been in the log. What happened between two samples is not known, so nothing is concluded from it: an
unclean election between them cannot be told.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

from kvorum.chaos.faults.observer import PartitionView
from kvorum.chaos.history import Metadata
from kvorum.chaos.workload.recorder import Recorder, split_partition

SAMPLE_SECONDS: Final = 0.2
CONTROLLER_SECONDS: Final = 1.0


class MetadataSampler:
    """One a run, in a thread. `look` returns {"orders-0": leader, ISR, ...}; `topics` are those that count."""

    def __init__(
        self, look: Callable[[], Mapping[str, PartitionView]], topics: Collection[str], recorder: Recorder
    ) -> None:
        """Nothing is known yet."""
        self._look = look
        self._topics = set(topics)
        self._recorder = recorder
        self._known: dict[str, PartitionView] = {}
        self._named: set[str] = set()
        self._offset = -1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-sample", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._recorder.note("the metadata log cannot be followed: leaders and ISRs are sampled")
        self._thread.start()

    def stop(self) -> None:
        """Look no more. Idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            for name, view in sorted(self._look().items()):
                topic, number = split_partition(name)
                if topic in self._topics and self._known.get(name) != view:
                    self._known[name] = view
                    self._told(topic, number, view)

    def _told(self, topic: str, number: int, view: PartitionView) -> None:
        if topic not in self._named:
            self._named.add(topic)
            self._write({"type": "Topic", "name": topic, "topic_id": topic})
        self._write(
            {
                "type": "Partition",
                "topic_id": topic,
                "partition_id": number,
                "leader": view.leader,
                "leader_epoch": view.leader_epoch,
                "replicas": list(view.replicas),
                "isr": list(view.isr),
            }
        )

    def _write(self, record: dict[str, object]) -> None:
        self._offset += 1
        offset = self._offset
        self._recorder.write(lambda t: Metadata(t=t, offset=offset, record=record))


class ControllerWatch:
    """Notes who the active controller is, whenever it is another one. `look` answers its name, None for nobody."""

    def __init__(self, look: Callable[[], str | None], recorder: Recorder) -> None:
        """Nobody is known yet."""
        self._look = look
        self._recorder = recorder
        self._known: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-controller", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more. Idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            found = self._look()
            if found is not None and found != self._known:
                self._known = found
                self._recorder.note(f"active controller: {found}")
            self._stop.wait(CONTROLLER_SECONDS)
