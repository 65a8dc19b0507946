"""Keeps the marks of a running query from expiring: a stream without data commits nothing by itself."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]  # documented
from pyspark.sql import SparkSession

from kvorum.pipelines.bridge import client

QUERY_ID = "sql.streaming.queryId"  # how Spark tells a micro-batch's jobs which query they are of
LOOK_SECONDS = 30.0  # how soon a keeper notices that its query has ended
REFRESH_SECONDS_MAX = 6 * 3600.0
SHARE_OF_RETENTION = 8  # refreshed this many times while a mark would live
RETENTION = "offsets.retention.minutes"
ASK_SECONDS = 15.0

logger = logging.getLogger("kvorum.pipelines.bridge")


class Keeper(threading.Thread):
    """Refreshes while `is_running`, every `seconds`."""

    def __init__(
        self,
        refresh: Callable[[], None],
        *,
        is_running: Callable[[], bool],
        seconds: float,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """Prepare; start() begins."""
        super().__init__(name="kvorum-sink-keeper", daemon=True)
        self.refresh = refresh
        self.is_running = is_running
        self.seconds = seconds
        self.look_seconds = min(look_seconds, seconds)

    def run(self) -> None:
        """Refresh until the query has ended. What fails is tried again after the next pause."""
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
    """Return the id of the streaming query that this thread runs a micro-batch of, or None."""
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
        broker = min(admin.list_topics(timeout=ASK_SECONDS).brokers)
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        configs = admin.describe_configs([resource], request_timeout=ASK_SECONDS)[resource].result()
        minutes = int(configs[RETENTION].value)
    except (KafkaException, KeyError, ValueError, TypeError) as error:
        logger.warning("%s not available (%s): marks are refreshed every %.0f s", RETENTION, error, REFRESH_SECONDS_MAX)
        return REFRESH_SECONDS_MAX
    return min(REFRESH_SECONDS_MAX, minutes * 60 / SHARE_OF_RETENTION)
