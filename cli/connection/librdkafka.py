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


class OnceEach(logging.Handler):
    """Prints each line of a client's log once: one per broker for failed connections, others by their text."""

    def __init__(self) -> None:
        """Start with nothing printed."""
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line, unless a similar one was printed."""
        text = record.getMessage()
        facility, rest = text.partition(" ")[0], text.partition("]: ")[2]
        like = f"{facility} {rest.partition(': ')[0]}" if facility == "FAIL" else text
        if like not in self._said and len(self._said) < SAID_MAX:
            self._said.add(like)
            warn(rest or text)


class Watch:
    """Events of one client besides records. Pass `options` when it is created."""

    def __init__(self) -> None:
        """Start without a client."""
        self.is_down = False
        """Whether no broker is known to be reachable."""
        self.reason = "no broker responds"
        """The last error."""
        self.bootstrap = ""
        """The addresses that the client was given."""
        self.log = OnceEach()
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


def reached(client: Any, watch: Watch, topic: str | None = None) -> "ClusterMetadata":
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
