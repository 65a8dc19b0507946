"""One pipeline in one process: python -m kvorum.pipelines.run.worker SPEC --state DIR [--launch FILE]

    STARTING -> RUNNING -> FINISHED             once, available-now: all was read; RUNNING: the clusters answered
    RUNNING -> PAUSED -> STARTING               the session stays, the query does not
    STARTING, RUNNING -> STARTING (restarts + 1)    a failure that passes, after a pause
    any -> FAILED                               a failure that does not, or one too many; exit code 1
    any -> STOPPED                              on request: `stop`, SIGTERM, Ctrl-C

One thread decides: it looks at the queries and at the queue of commands, and writes the status. What the query did
last is in its checkpoint, so a kill at any point is a pause.
"""

import argparse
import contextlib
import logging
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from kvorum.pipelines.run import checkpoint, control, failures, reach
from kvorum.pipelines.run import compile as compiling
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.progress import Progress
from kvorum.pipelines.run.state import Folder, State, StateError, Status, now_ms
from kvorum.pipelines.session.build import Session, build
from kvorum.pipelines.session.connector import choose, folder_of_jars
from kvorum.pipelines.spec import Pipeline, SpecError, load

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
STATUS_SECONDS = 1.0
LOG_SECONDS = 60.0


class StopRequested(Exception):
    """To stop."""


@dataclass(slots=True)
class Worker:
    """Runs one pipeline in this process."""

    folder: Folder
    pipeline: Pipeline
    launch: Launch
    status: Status
    requests: "queue.Queue[control.Request]" = field(default_factory=queue.Queue)
    query: StreamingQuery | None = None
    progress: Progress = field(default_factory=Progress)
    session: Session | None = None
    open_session: Callable[[], Session] | None = None
    """Opens a session of a context that several workers share (host.py); None: this process starts one of its own."""
    stop_requested: bool = False
    wanted: State = State.RUNNING
    wrote_at: float = 0.0
    logged_at: float = 0.0

    @property
    def checkpoint(self) -> str:
        """Return the pipeline's checkpoint."""
        return self.pipeline.checkpoint or str(self.folder.checkpoint)

    def run(self) -> int:
        """Run until the end; return the exit code."""
        backoff = failures.Backoff(self.launch.retries)
        while True:
            try:
                self.become(State.STARTING, self.status.trace)
                self.keep_running()
                self.become(State.FINISHED)
                return 0
            except StopRequested:
                self.stop_query()
                self.become(State.STOPPED)
                return 0
            except Exception as error:
                self.stop_query()
                pause = backoff.next(time.monotonic()) if failures.passing(error) else None
                unwritable = checkpoint.problem(self.checkpoint)
                reason = failures.reason(error, self.pipeline)
                if unwritable is not None and not reason.startswith("checkpoint "):
                    reason = checkpoint.reason(self.checkpoint, unwritable)
                trace = failures.trace(error, reason)
                if pause is None:
                    logger.error("pipeline %s failed: %s", self.pipeline.name, reason, exc_info=error)
                    self.become(State.FAILED, trace)
                    return 1
                again = "pipeline %s failed, restarted in %g s: %s"
                logger.warning(again, self.pipeline.name, pause, reason, exc_info=error)
                self.status = replace(self.status, restarts=self.status.restarts + 1)
                self.become(State.STARTING, trace)
                try:
                    self.wait(pause)
                except StopRequested:
                    self.become(State.STOPPED)
                    return 0

    def keep_running(self) -> None:
        """Start, and look after it until it is finished. Raises StopRequested, and what the query failed with."""
        ends = compiling.validate(self.pipeline)
        if self.wanted is State.RUNNING:  # before the session, which takes its time
            self.reach(ends)
        if self.session is None and self.open_session is not None:
            self.session = self.open_session()
        elif self.session is None:
            self.session = build(self.pipeline.name, self.launch.session(self.pipeline))
            self.catch_signals()
        self.status = replace(self.status, connector=str(self.session.choice))
        context = compiling.context_of(self.pipeline, self.checkpoint, self.session.choice.connector)
        while True:
            if self.wanted is State.PAUSED:
                self.become(State.PAUSED)
                while self.wanted is State.PAUSED:
                    self.wait(LOOK_SECONDS)
                self.become(State.STARTING)
                self.reach(ends)
            self.query = compiling.start(self.session.spark, self.pipeline, ends, context)
            self.become(State.RUNNING)
            # `pause` stops the query, and `resume` may follow before the next look.
            while self.query is not None and self.wanted is State.RUNNING:
                # Asked before the look: what has ended by now, the look finds out how.
                is_over = not self.query.isActive
                self.look(self.query)
                if is_over:
                    self.progress.look(self.query)
                    return
                self.wait(LOOK_SECONDS)
            self.stop_query()

    def reach(self, ends: compiling.Ends) -> None:
        """Check the clusters and the checkpoint. Raises Unreachable, TopicMissing, OptionError, CheckpointUnusable."""
        wanted = self.launch.session(self.pipeline)
        jars = folder_of_jars(wanted.jars)
        choice = self.session.choice if self.session else choose(wanted.connector, jars, wanted.settings)
        is_first_start = not checkpoint.has_begun(self.checkpoint)
        is_java = choice.connector == "spark"
        reach.check(self.pipeline, ends, self.wait, is_java=is_java, is_first_start=is_first_start)
        checkpoint.check(self.checkpoint)

    def look(self, query: StreamingQuery) -> None:
        """Raise what the query failed with; take the progress, once a second."""
        error = None if query.isActive else query.exception()
        if error is not None:
            raise error
        now = time.monotonic()
        if now - self.wrote_at >= STATUS_SECONDS:
            self.progress.look(query)
            self.write()
        if now - self.logged_at >= LOG_SECONDS:
            self.logged_at = now
            logger.info("pipeline %s: %s", self.pipeline.name, self.progress.line())

    def wait(self, seconds: float) -> None:
        """Answer commands for so long, at least one look. Raises StopRequested."""
        until = time.monotonic() + seconds
        while True:
            if self.stop_requested:
                raise StopRequested
            left = max(0.0, min(until - time.monotonic(), LOOK_SECONDS))
            with contextlib.suppress(queue.Empty):
                self.obey(self.requests.get(timeout=left) if left else self.requests.get_nowait())
            if time.monotonic() >= until:
                return

    def obey(self, request: control.Request) -> None:
        """Do what a command says and answer it when it is done. Raises StopRequested."""
        match request.command:
            case "stop":
                self.stop_query()
                self.become(State.STOPPED)
                request.answer.put(asdict(self.status))
                raise StopRequested
            case "pause" | "resume":
                self.wanted = State.PAUSED if request.command == "pause" else State.RUNNING
                if self.wanted is State.PAUSED and self.status.state is State.RUNNING:
                    self.stop_query()
                    self.become(State.PAUSED)
                request.answer.put(asdict(self.status) | {"wanted": self.wanted})
            case "offsets":
                request.answer.put(self.offsets())

    def offsets(self) -> dict[str, Any]:
        """Return how far the source has been read: by the checkpoint, where it is on this machine."""
        if self.query is not None:
            self.progress.look(self.query)
        with contextlib.suppress(OSError, ValueError):
            if found := checkpoint.committed(self.checkpoint):
                return found
        return {"sources": list(self.progress.offsets.values())}

    def stop_query(self) -> None:
        """End the query; what a micro-batch had not finished is done again after the next start."""
        if self.query is None:
            return
        try:
            self.query.stop()
        except Exception as error:  # the session may be gone already: there is nothing more to stop then
            logger.warning("query %s not stopped: %s", self.query.name, failures.reason(error), exc_info=error)
        with contextlib.suppress(Exception):  # the same: a last look at what was done
            self.progress.look(self.query)
        self.query = None

    def become(self, state: State, trace: str | None = None) -> None:
        """Change the state, and say so."""
        if state is not self.status.state or trace != self.status.trace:
            since = now_ms() if state is not self.status.state else self.status.since_ms
            self.status = replace(self.status, state=state, trace=trace, since_ms=since)
            logger.info("pipeline %s is %s", self.pipeline.name, state)
        self.write()

    def write(self) -> None:
        """Write the status."""
        self.wrote_at = time.monotonic()
        self.status = replace(self.status, progress=self.progress.data())
        self.folder.write_status(self.status)

    def catch_signals(self) -> None:
        """Stop in order on a signal. Call after Spark's start, which sets its own handler."""

        def note(number: int, frame: FrameType | None) -> None:
            self.stop_requested = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, note)


def is_in(folder: Folder, pipeline: Pipeline) -> bool:
    """Return whether the folder's file defines this pipeline: then it stays, and keeps its references to secrets."""
    try:
        return load(folder.spec).as_data() == pipeline.as_data()
    except SpecError:
        return False


@contextlib.contextmanager
def worker_in(
    folder: Folder, pipeline: Pipeline, launch: Launch, open_session: Callable[[], Session] | None = None
) -> Iterator[Worker]:
    """Give a worker that holds the pipeline's folder and listens. Raises StateError if another one does.

    A session from `open_session` shares its context, which stays; otherwise the worker starts a context and stops it.
    """
    with folder.held():
        if not is_in(folder, pipeline):
            folder.write(folder.spec, pipeline.as_data())
        folder.write(folder.launch, asdict(launch))
        status = Status(name=pipeline.name, state=State.STARTING, pid=os.getpid(), since_ms=now_ms())
        worker = Worker(folder=folder, pipeline=pipeline, launch=launch, status=status, open_session=open_session)
        worker.wanted = State.PAUSED if launch.paused else State.RUNNING
        worker.write()
        with control.listening(folder, lambda: asdict(worker.status)) as requests:
            worker.requests = requests
            try:
                yield worker
            finally:
                if open_session is None and worker.session is not None:
                    with contextlib.suppress(Exception):  # it may have died before us
                        worker.session.spark.stop()


def run(folder: Folder, pipeline: Pipeline, launch: Launch, announce: Callable[[Worker], None] | None = None) -> int:
    """Run a pipeline in this process until it ends; return the exit code. Raises StateError."""
    with worker_in(folder, pipeline, launch) as worker:
        worker.catch_signals()
        if announce is not None:
            announce(worker)
        return worker.run()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="kvorum.pipelines.run.worker", description="Run one pipeline.")
    parser.add_argument("spec", metavar="SPEC", help="the pipeline's file")
    parser.add_argument("--state", required=True, metavar="DIR", help="folder of the states of pipelines", type=Path)
    parser.add_argument("--launch", metavar="FILE", help="options as launch.json has them", type=Path)
    found = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        pipeline = load(found.spec)
        launch = Launch.read(found.launch) if found.launch else Launch()
        return run(Folder(found.state, pipeline.name), pipeline, launch)
    except (SpecError, StateError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
