"""Members of a group as a test handles them: started, heard, ended in order or killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from tests.cluster.clients import eventually
from tests.cluster.group_member import Options

ROOT = Path(__file__).parent.parent.parent
END_SECONDS = 60.0


class MemberProcess:
    """One process of tests.cluster.group_member, and all that it has told."""

    def __init__(self, options: Options, errors: Path) -> None:
        self.name = f"{options.client}-{errors.stem}"
        self.assigned: list[int] = []
        self.records: list[tuple[int, int, str]] = []
        self.committed: dict[int, list[int]] = {}
        self.given: list[list[int]] = []
        """What its rebalance listener was called with, call by call."""
        self.revoked: list[list[int]] = []
        self.has_left = False
        self._errors = errors
        with errors.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.group_member", options.to_json()],
                stdout=subprocess.PIPE,
                stderr=stream,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._listener = threading.Thread(target=self._listen, name=self.name, daemon=True)
        self._listener.start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def terminate(self) -> None:
        """Have it commit and leave."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9, and collect it."""
        self._process.kill()
        self._process.wait(END_SECONDS)
        self._listener.join(END_SECONDS)
        self.assigned = []

    def wait_left(self) -> None:
        """Wait until it has ended in order."""
        code = self._process.wait(END_SECONDS)
        self._listener.join(END_SECONDS)
        assert code == 0 and self.has_left, f"{self.name} ended with {code}: {self._errors.read_text()[-2000:]}"
        self.assigned = []

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                try:
                    self._note(json.loads(line))
                except ValueError:  # half a line: the end of a process that was killed
                    return

    def _note(self, event: dict[str, Any]) -> None:
        if "assigned" in event:
            self.assigned = event["assigned"]
        elif "given" in event:
            self.given.append(event["given"])
        elif "revoked" in event:
            self.revoked.append(event["revoked"])
        elif "record" in event:
            self.records.append(tuple(event["record"]))
        elif "committed" in event:
            for partition, offset in event["committed"].items():
                self.committed.setdefault(int(partition), []).append(offset)
        elif "left" in event:
            self.has_left = True


class Members:
    """The members of one group."""

    def __init__(self, folder: Path, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        self._folder, self._bootstrap, self._group, self._topic = folder, bootstrap, group, topic
        self._partitions = list(range(partitions))
        self.all: list[MemberProcess] = []

    def start(self, client: str, **options: Any) -> MemberProcess:
        """Start one more."""
        given = Options(client=client, bootstrap=self._bootstrap, group=self._group, topic=self._topic, **options)
        errors = self._folder / f"{self._group}-{len(self.all)}.err"
        self.all.append(MemberProcess(given, errors))
        return self.all[-1]

    def wait_shared(self, members: Sequence[MemberProcess]) -> None:
        """Wait until these have all partitions among them, each some and none twice."""

        def shared() -> bool:
            for each in members:
                assert each.is_alive, f"{each.name} ended"
            assigned = [list(each.assigned) for each in members]
            return all(assigned) and sorted(chain.from_iterable(assigned)) == self._partitions

        eventually(shared, lambda: f"shared by all: {[(each.name, each.assigned) for each in members]}")

    def leave(self, members: Sequence[MemberProcess], staying: Sequence[MemberProcess] = ()) -> None:
        """End members one after the other; those that stay, and the later ones, share the partitions in between.

        kafka-python sends no LeaveGroup from the middle of a join: the others would wait for the end of its session.
        """
        for number, each in enumerate(members, 1):
            each.terminate()
            each.wait_left()
            if others := [*members[number:], *staying]:
                self.wait_shared(others)

    def values(self) -> set[str]:
        """Return what they have read, all together."""
        return {value for each in self.all for _, _, value in list(each.records)}

    def close(self) -> None:
        """End whoever is left."""
        for each in self.all:
            if each.is_alive:
                each.kill()


@contextmanager
def members_of(folder: Path, bootstrap: str, group: str, topic: str, partitions: int) -> Iterator[Members]:
    """Give the members of a group; whoever still runs at the end is killed."""
    members = Members(folder, bootstrap, group, topic, partitions)
    try:
        yield members
    finally:
        members.close()
