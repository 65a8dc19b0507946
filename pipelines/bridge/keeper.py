"""Refreshes the marks of a running query, which would expire: a stream without data commits nothing."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]  # documented
from pyspark.sql import SparkSession

from kvorum.pipelines.bridge import client

QUERY_ID = "sql.streaming.queryId"  # a local property of the jobs of a micro-batch
LOOK_SECONDS = 30.0  # how often the keeper checks whether its query has ended
REFRESH_SECONDS_MAX = 6 * 3600.0
REFRESHES_PER_RETENTION = 8
RETENTION = "offsets.retention.minutes"
REQUEST_SECONDS = 15.0

logger = logging.getLogger("kvorum.pipelines.bridge")


class Keeper(threading.Thread):
    """Calls `refresh` every `seconds` while `is_running`."""

    def __init__(
        self,
        refresh: Callable[[], None],
        *,
        is_running: Callable[[], bool],
        seconds: float,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """Create the thread; start() starts it."""
        super().__init__(name="kvorum-sink-keeper", daemon=True)
        self.refresh = refresh
        self.is_running = is_running
        self.seconds = seconds
        self.look_seconds = min(look_seconds, seconds)

    def run(self) -> None:
        """Refresh until the query has ended. A failed refresh is repeated after the next pause."""
        due = time.monotonic() + self.seconds
        while True:
            time.sleep(self.look_seconds)
            if not self.is_running():
                return
            if time.monotonic() >= due:
                due = time.monotonic() + self.seconds
                try:
                    self.refresh()
                except Exception:
                    logger.exception("marks not refreshed, they expire after %s", RETENTION)


def query_of(spark: SparkSession) -> str | None:
    """Return the id of the streaming query whose micro-batch this thread runs, or None."""
    return spark.sparkContext.getLocalProperty(QUERY_ID)


def is_active(spark: SparkSession, query_id: str) -> bool:
    """Return whether a streaming query runs in this process."""
    jvm: Any = spark._jvm
    active: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    return bool(active.containsKey(jvm.java.util.UUID.fromString(query_id)))


def refresh_seconds(settings: client.Settings) -> float:
    """Return the refresh interval, from the brokers' retention if it is available."""
    admin = AdminClient(dict(client.for_admin(settings)))
    try:
        broker = min(admin.list_topics(timeout=REQUEST_SECONDS).brokers)
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        configs = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result()
        minutes = int(configs[RETENTION].value)
    except (KafkaException, KeyError, ValueError, TypeError) as error:
        logger.warning("%s not available (%s): marks are refreshed every %.0f s", RETENTION, error, REFRESH_SECONDS_MAX)
        return REFRESH_SECONDS_MAX
    return min(REFRESH_SECONDS_MAX, minutes * 60 / REFRESHES_PER_RETENTION)
