"""Are the clusters there that a pipeline names? Asked before anything is started, with a deadline of seconds.

Without this a query starts all the same, and its first request is tried for a minute while the pipeline looks as if it
ran. What is found missing passes, as far as anybody can know: the pipeline is tried again as after any such failure.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kvorum.pipelines.bridge import client
from kvorum.pipelines.bridge.client import OptionError
from kvorum.pipelines.bridge.lookup import Lookup, TopicMissing
from kvorum.pipelines.bridge.offsets import EARLIEST, LATEST
from kvorum.pipelines.bridge.options import ReadOptions, Topics, reading
from kvorum.pipelines.run import errors
from kvorum.pipelines.run.compile import Ends
from kvorum.pipelines.sources.options import TopicOptions
from kvorum.pipelines.sources.topics import TopicsOptions
from kvorum.pipelines.spec import Pipeline

logger = logging.getLogger(__name__)

LOOKS_SECONDS: Final = (1.0, 2.0, 3.0, 4.0)
"""Ten in all: longer than a broker's restart takes to open its port again, shorter than anybody's patience. In parts,
so that a command is obeyed in between."""
BROKER: Final = re.compile(r"^(?:\w+://)?(?P<where>[^/\s]+)(?:/\w+)?: (?P<what>.*?)(?: \(after \d+ms in state .*\))?$")
REFUSED: Final = {KafkaError._AUTHENTICATION, KafkaError._SSL}
"""Somebody is there, and does not want us; what is said of the connection besides is less to the point."""

Pause = Callable[[float], None]


class Unreachable(RuntimeError):
    """A cluster that gives no answer."""


class Refused(Unreachable):
    """A cluster that does not want us."""


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A cluster and who names it."""

    settings: client.Settings
    named_by: list[str] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """Return its addresses."""
        return self.settings["bootstrap.servers"]


def check(pipeline: Pipeline, ends: Ends, pause: Pause, *, is_java: bool = False, is_first_start: bool = False) -> None:
    """Check that each cluster responds and that the topics to be read exist. `pause` runs in between; it may raise.

    With `is_java` it is Spark's connector that reads, whose certificates and logins may be others than ours. At the
    first start the starting offsets are compared with the logs; later ones are the checkpoint's.
    Raises Unreachable, TopicMissing, OptionError.
    """
    for cluster in clusters(pipeline, ends):
        try:
            reach(cluster, pause)
        except OptionError:
            return  # settings of Java's client alone: that client reports what is wrong
        except Refused as error:
            if not is_java:
                raise
            logger.warning("%s (checked without Spark's connector)", error)
            return
    source = ends.source_options
    if isinstance(source, TopicsOptions) and source.topics and source.failOnDataLoss:
        settings = settings_of(source)
        if settings is not None:
            lookup = Lookup(settings)
            try:
                lookup.partitions(Topics(names=tuple(source.topics)))
            except TopicMissing as error:
                raise TopicMissing(f"source {pipeline.source.type}: {error}") from None
            if is_first_start and not isinstance(source.startingOffsets, str | None):
                check_start(lookup, reading(source.merged(source.of_spark()), is_streaming=True))


def check_start(lookup: Lookup, options: ReadOptions) -> None:
    """Raise OptionError for starting offsets that are not those of the partitions, or that the logs do not have."""
    partitions = lookup.partitions(options.topics)
    start = lookup.resolve(options.start, partitions, options)
    first = lookup.everywhere(partitions, EARLIEST, is_read_committed=options.is_read_committed)
    end = lookup.everywhere(partitions, LATEST, is_read_committed=options.is_read_committed)
    for where in partitions:
        if not first[where] <= start[where] <= end[where]:
            raise OptionError(
                f"startingOffsets: {where.topic}-{where.partition} has offsets {first[where]} to {end[where]}, "
                f"{start[where]} is not among them; -2 is its first record, -1 its end"
            )


def clusters(pipeline: Pipeline, ends: Ends) -> list[Cluster]:
    """Return the clusters that are named, each once."""
    found = dict[tuple[tuple[str, str], ...], Cluster]()
    letters = {}
    if pipeline.errors.tolerance == "dead-letter" and pipeline.errors.bootstrap is not None:
        letters["errors"] = TopicOptions(bootstrap=errors.bootstrap_of(pipeline), options=dict(pipeline.errors.options))
    named = {
        f"source {pipeline.source.type}": ends.source_options,
        f"sink {pipeline.sink.type}": ends.sink_options,
        **letters,
    }
    for name, options in named.items():
        settings = settings_of(options) if isinstance(options, TopicOptions) else None
        if settings is not None:
            cluster = found.setdefault(tuple(sorted(settings.items())), Cluster(settings=settings))
            cluster.named_by.append(name)
    return list(found.values())


def settings_of(options: TopicOptions) -> client.Settings | None:
    """Return an asking client's settings; None: they are not for our client."""
    try:
        return client.for_admin(client.from_options(options.merged({})))
    except OptionError:
        return None


def reach(cluster: Cluster, pause: Pause) -> None:
    """Return when a broker of the cluster has answered. Raises Unreachable, OptionError."""
    said = dict[str, KafkaError]()

    def note(error: KafkaError) -> None:
        matched = BROKER.match(error.str())
        where = matched["where"] if matched else ""
        if error.code() != KafkaError._ALL_BROKERS_DOWN and not (where in said and refuses(said[where])):
            said[where] = error

    try:
        # Its own log would say the same forty times.
        settings: dict[str, Any] = {**cluster.settings, "error_cb": note, "log_level": 0}
        admin = AdminClient(settings)
    except KafkaException as error:
        raise client.refused(error) from None
    for seconds in LOOKS_SECONDS:
        pause(0)
        try:
            admin.list_topics(timeout=seconds)
            return
        except KafkaException:
            admin.poll(0)  # calls note: what the exception says is only that there was no answer
    raise failed(cluster, said)


def failed(cluster: Cluster, said: Mapping[str, KafkaError]) -> Unreachable:
    """Return what is raised for a cluster that gave no answer."""
    reasons = dict.fromkeys(plain(error) for error in said.values())
    refused = any(map(refuses, said.values()))
    begin = f"{' and '.join(cluster.named_by)}: "
    if refused:
        return Refused(f"{begin}the broker at {cluster.bootstrap} refuses us: {'; '.join(reasons)}")
    silence = f"nothing came within {sum(LOOKS_SECONDS):g} s"
    return Unreachable(f"{begin}no broker answers at {cluster.bootstrap}: {'; '.join(reasons) or silence}")


def refuses(error: KafkaError) -> bool:
    """Return whether a server rejects the connection; OpenSSL sometimes reports the code of another error."""
    return error.code() in REFUSED or "SSL" in error.str()


def plain(error: KafkaError) -> str:
    """Return librdkafka's words for an error without the broker, of which there may be many."""
    matched = BROKER.match(error.str())
    what = matched["what"] if matched else error.str()
    if error.code() == KafkaError._BAD_MSG:
        return "what listens there does not speak Kafka's protocol"
    return re.sub(r"^Connect to \S+ failed: ", "", what)
