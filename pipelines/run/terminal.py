"""Output of a pipeline in the foreground: lines for people on the terminal, everything else in its log.

Spark's JVM and librdkafka write to the process's stderr, hundreds of lines for one that matters. They inherit the
descriptor, so it is the descriptor that is turned: from here on stderr is the pipeline's log, as with a detached one.
What the pipeline itself has to say comes to both, without its traces here.
"""

import copy
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kvorum.pipelines.run.state import Folder

STDERR = 2
WHOLE = "%(asctime)s %(levelname)s %(name)s %(message)s"
SHORT = "%(asctime)s %(levelname)s %(message)s"
OTHERS = ("py4j",)
"""Loggers with nothing for people: what they say of an exception, we say after them in one line."""


class OneLine(logging.Formatter):
    """Leaves out the trace of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        bare = copy.copy(record)  # the other handler needs the trace
        bare.exc_info = bare.exc_text = bare.stack_info = None
        return super().format(bare)


def is_for_people(record: logging.LogRecord) -> bool:
    """Return whether a record is shown on the terminal."""
    return record.name.partition(".")[0] not in OTHERS


@contextmanager
def beside_the_log(folder: Folder) -> Iterator[None]:
    """Send stderr into the pipeline's log, and the lines of Python's logging to the terminal as well."""
    folder.make()
    sys.stderr.flush()
    descriptor = os.dup(STDERR)
    log = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, STDERR)
    os.close(log)
    with open(descriptor, "w", encoding="utf-8", errors="replace") as terminal:
        shown, whole = logging.StreamHandler(terminal), logging.StreamHandler(sys.stderr)
        shown.setFormatter(OneLine(SHORT))
        shown.addFilter(is_for_people)
        whole.setFormatter(logging.Formatter(WHOLE))
        root = logging.getLogger()
        level = root.level
        root.setLevel(logging.INFO)
        for handler in (shown, whole):
            root.addHandler(handler)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal.fileno(), STDERR)
            for handler in (shown, whole):
                root.removeHandler(handler)
            root.setLevel(level)
