"""Several pipelines in one process, with one Spark context: python -m kvorum.pipelines.run.host FOLDER --state DIR

    --first NAME        Spark starts at once, with the settings of this pipeline, whose `start` follows
    start NAME          a thread locks the pipeline's folder, responds, and runs it (worker.py)
    SIGTERM, or the end of standard input (its manager has ended)       all pipelines stop, then the process ends
    no command for IDLE_SECONDS and no pipeline, or Spark's context has ended      the process ends

A pipeline has its own session (temporary views, SQL settings), its own FAIR scheduler pool and its own log. One that
fails or restarts leaves the others alone. The end of the process interrupts all of them; each continues
from its checkpoint.
"""

import argparse
import contextlib
import importlib
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from pyspark import InheritableThread

from kvorum.pipelines.run import control
from kvorum.pipelines.run.process import Launch
from kvorum.pipelines.run.state import PID, Folder, StateError
from kvorum.pipelines.session.build import Session, build
from kvorum.pipelines.spec import Pipeline, load

if TYPE_CHECKING:
    from kvorum.pipelines.run.worker import Worker

COMMANDS: Final = ("start",)
STOP: Final = control.Request("stop", "")
STOP_SECONDS: Final = 60.0
"""After its manager has ended: then it kills itself."""
IDLE_SECONDS: Final = 60.0
FAIR: Final = {"spark.scheduler.mode": "FAIR"}
POOL: Final = "spark.scheduler.pool"
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"

logger = logging.getLogger(__name__)


class StopRequested(Exception):
    """SIGTERM or SIGINT."""


@dataclass(slots=True)
class Host:
    """Runs pipelines in threads of this process."""

    root: Path
    launch: Launch
    workers: "dict[str, Worker]" = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)
    _shared: Session | None = None
    _building: threading.Lock = field(default_factory=threading.Lock)

    def status(self) -> dict[str, Any]:
        """Return the answer to `status`."""
        return {"pid": os.getpid(), "pipelines": sorted(self.workers)}

    def run(self, requests: "queue.Queue[control.Request]", first: str | None = None) -> None:
        """Serve commands until the end. Spark starts at once for the pipeline that `first` names."""
        try:
            if first is not None:
                self.start_thread(self.prepare, first, first)
            while True:
                try:
                    request = requests.get(timeout=IDLE_SECONDS)
                except queue.Empty:
                    self.threads = [thread for thread in self.threads if thread.is_alive()]
                    if not self.threads:
                        logger.info("no pipeline runs: the process ends")
                        return
                    continue
                if request is STOP:
                    return
                if self.is_broken():
                    request.answer.put({"error": "the Spark context has ended, and so does its process"})
                    return
                self.start_thread(self.keep, request.name, request)
        finally:
            self.stop()

    def start_thread(self, target: Callable[[Any], None], name: str, argument: object) -> None:
        """Start a thread of a pipeline, which `stop` waits for. By its name its log lines are the pipeline's."""
        thread = threading.Thread(target=target, args=(argument,), name=f"pipeline-{name}")
        self.threads.append(thread)
        thread.start()

    def prepare(self, name: str) -> None:
        """Start Spark for a pipeline that is about to start. `session` repeats what fails, and reports it."""
        try:
            pipeline = load(Folder(self.root, name).spec)
            with self._building:
                self.share(pipeline)
        except Exception:
            logger.info("Spark was not started early; pipeline %s starts it again", name, exc_info=True)
        finally:
            forget_connection()

    def keep(self, request: control.Request) -> None:
        """Run a pipeline until it ends. Its folder's lock allows one at a time."""
        name = request.name
        folder = Folder(self.root, name)
        try:
            from kvorum.pipelines.run.worker import worker_in  # 0.6 s, while Spark starts

            pipeline = load(folder.spec)
            with log_of(folder), worker_in(folder, pipeline, self.launch, lambda: self.session(pipeline)) as worker:
                self.workers[name] = worker
                request.answer.put(self.status())
                try:
                    worker.run()
                finally:
                    del self.workers[name]
        except Exception as error:
            logger.exception("pipeline %s ended", name)
            with contextlib.suppress(queue.Full):  # answered: it had started
                request.answer.put_nowait({"error": str(error)})
        finally:
            forget_connection()

    def session(self, pipeline: Pipeline) -> Session:
        """Return a session for a pipeline; the first one starts Spark. Call in the pipeline's thread."""
        importlib.import_module("pyspark.testing.utils")  # the first call of the JVM with an argument does it: 0.5 s
        with self._building:
            shared = self.share(pipeline)
        spark = shared.spark.newSession()
        spark.sparkContext.setLocalProperty(POOL, pipeline.name)  # the query's thread inherits it from this one
        return Session(spark=spark, choice=shared.choice)

    def share(self, pipeline: Pipeline) -> Session:
        """Return the session that all share. The first call starts Spark. Call with the lock."""
        if self._shared is None:
            wanted = self.launch.session(pipeline)
            self._shared = build("pipelines", replace(wanted, settings={**FAIR, **wanted.settings}))
        return self._shared

    def is_broken(self) -> bool:
        """Return whether Spark's context has ended, with its JVM or without: no pipeline can run in this process."""
        if self._shared is None:
            return False
        try:
            return bool(self._shared.spark.sparkContext._jsc.sc().isStopped())
        except Exception as error:  # py4j raises several types if the JVM does not respond
            logger.error("Spark does not respond: %s", error)
            return True

    def stop(self) -> None:
        """Stop all pipelines, and Spark."""
        for worker in list(self.workers.values()):
            worker.stop_requested = True
        for thread in self.threads:
            thread.join()
        self.threads.clear()
        if self._shared is not None:
            with contextlib.suppress(Exception):  # it may have ended before
                self._shared.spark.stop()
            self._shared = None


def forget_connection() -> None:
    """Close this thread's connection to the JVM. Call at the thread's end."""
    with contextlib.suppress(Exception):  # the JVM may have ended
        InheritableThread._clean_py4j_conn_for_current_thread()  # type: ignore[attr-defined]


@contextlib.contextmanager
def log_of(folder: Folder) -> Iterator[None]:
    """Write this thread's log lines to the pipeline's own log as well."""
    thread = threading.current_thread().name
    handler = logging.FileHandler(folder.log, encoding="utf-8")
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    handler.addFilter(lambda record: record.threadName == thread)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def watch_manager(requests: "queue.Queue[control.Request]") -> None:
    """Stop the host when the process that started it has ended."""
    os.read(sys.stdin.fileno(), 1)  # nothing is ever written to it
    deadline = time.monotonic() + STOP_SECONDS
    with contextlib.suppress(queue.Full):  # the host reads no commands any more: it is killed
        requests.put(STOP, timeout=STOP_SECONDS)
    time.sleep(max(0.0, deadline - time.monotonic()))
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="kvorum.pipelines.run.host", description="Run several pipelines.")
    parser.add_argument("folder", metavar="FOLDER", help="name of the process's folder; launch.json in it has options")
    parser.add_argument("--state", required=True, metavar="DIR", help="folder of the states of pipelines", type=Path)
    parser.add_argument("--first", metavar="NAME", help="pipeline that starts first; Spark starts for it at once")
    found = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)

    def raise_stop(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        raise StopRequested

    folder = Folder(found.state, found.folder)
    host = Host(folder.root, Launch.read(folder.launch))
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(folder.held())
            (folder.path / PID).write_text(str(os.getpid()), encoding="ascii")  # first: a manager may kill the holder
            requests = stack.enter_context(control.listening(folder, host.status, COMMANDS))
            threading.Thread(target=watch_manager, args=(requests,), daemon=True).start()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, raise_stop)
            with contextlib.suppress(StopRequested):
                host.run(requests, found.first)
    except StateError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
