"""State of the unmodified client that a command uses: whether any broker is reachable, and its log.

librdkafka retries for ever and reports each failure. A command reports each failure once, and a new one ends if no
broker is reachable.
"""

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from kvorum.cli.connection.unreachable import unreachable
from kvorum.cli.output import Exit, fail, warn

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]  # it is not in its stubs

REACH_SECONDS: Final = 30.0
"""Time limit for reachable brokers to return their metadata."""
STEP_SECONDS: Final = 0.5
"""librdkafka waits for its timeout even if all connections are refused, so the timeout is short."""
SAID_MAX: Final = 100
"""Maximum of different lines of a client's log; a cluster has few brokers, and each has few kinds of failures."""


class LogDeduplicator(logging.Handler):
    """Prints each line of a client's log once: one per broker for failed connections, others by their text."""

    def __init__(self) -> None:
        """Start with nothing printed."""
        super().__init__(logging.WARNING)
        self._lines: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line, unless a similar one was printed."""
        text = record.getMessage()
        facility, rest = text.partition(" ")[0], text.partition("]: ")[2]
        like = f"{facility} {rest.partition(': ')[0]}" if facility == "FAIL" else text
        if like not in self._lines and len(self._lines) < SAID_MAX:
            self._lines.add(like)
            warn(rest or text)


class ClientEvents:
    """Events of one client besides records. Pass `options` when it is created."""

    def __init__(self) -> None:
        """Start without a client."""
        self.is_down = False
        """Whether no broker is known to be reachable."""
        self.reason = "no broker responds"
        """The last error."""
        self.bootstrap = ""
        """The addresses that the client was given."""
        self.log = LogDeduplicator()
        self._logger = logging.Logger("librdkafka", logging.WARNING)
        self._logger.addHandler(self.log)

    def options(self) -> dict[str, Any]:
        """Return the client's options for these events."""
        return {"error_cb": self.on_error, "logger": self._logger}

    def on_error(self, error: "KafkaError") -> None:
        """Store the client's error."""
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_down = True
        else:
            self.reason = error.str()


def fetch_metadata(client: Any, watch: ClientEvents, topic: str | None = None) -> "ClusterMetadata":
    """Return the metadata of a topic, or of all; end the command if no broker is reachable."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + REACH_SECONDS
    watch.log.setLevel(logging.CRITICAL)  # errors here are the reported reason
    while True:
        try:
            found: ClusterMetadata = client.list_topics(topic, timeout=STEP_SECONDS)
            watch.is_down = False
            watch.log.setLevel(logging.WARNING)
            return found
        except KafkaException as error:
            client.poll(0)  # updates the client's state of its brokers
            if watch.is_down:
                fail(unreachable(watch.bootstrap, watch.reason), Exit.UNREACHABLE)
            if time.monotonic() >= deadline:
                fail(unreachable(watch.bootstrap, error.args[0].str()), Exit.UNREACHABLE)


def exit_code_of(error: "KafkaError") -> Exit:
    """Return the exit code for the kind of error that ended the command."""
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
        return Exit.UNREACHABLE
    unknown = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
    return Exit.NOT_FOUND if error.code() in unknown else Exit.FAILED
