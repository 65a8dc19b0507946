"""Records of topics, through Spark's own connector or Kvorum's; their options and columns are the same."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, model_validator
from pyspark.sql import DataFrame, SparkSession

from kvorum.pipelines.bridge import register
from kvorum.pipelines.bridge.client import for_java
from kvorum.pipelines.faults import as_text
from kvorum.pipelines.frames import record_frame
from kvorum.pipelines.plugins import Connector, Context
from kvorum.pipelines.sources.options import TopicOptions

FORMATS: Mapping[Connector, str] = {"spark": "kafka", "kvorum": "kvorum"}


class TopicsOptions(TopicOptions):
    """`source: {type: topics, ...}`."""

    topics: Sequence[str] = ()
    pattern: str | None = None
    """Topics whose whole name matches, those of later, too."""
    assign: Mapping[str, Sequence[int]] | None = None
    """{topic: partitions}, for these alone."""
    startingOffsets: str | Mapping[str, Mapping[str, int]] | None = None
    """earliest (the default), latest, or {topic: {partition: offset}}; where a checkpoint is, it decides."""
    maxOffsetsPerTrigger: int | None = None
    failOnDataLoss: bool = True

    @model_validator(mode="after")
    def _one_way(self) -> "TopicsOptions":
        if sum(bool(each) for each in (self.topics, self.pattern, self.assign)) != 1:
            raise ValueError("give one of topics, pattern and assign")
        return self

    def of_spark(self) -> dict[str, str | None]:
        """Return them under Spark's names."""
        starting = self.startingOffsets if self.startingOffsets is not None else "earliest"
        return {
            "subscribe": ",".join(self.topics) or None,
            "subscribePattern": self.pattern,
            "assign": None if self.assign is None else json.dumps({t: list(p) for t, p in self.assign.items()}),
            "startingOffsets": starting if isinstance(starting, str) else json.dumps(starting),
            "maxOffsetsPerTrigger": None if self.maxOffsetsPerTrigger is None else str(self.maxOffsetsPerTrigger),
            "failOnDataLoss": as_text(self.failOnDataLoss),
            "includeHeaders": "true",
        }


class TopicsSource:
    """Source of topics."""

    Options: ClassVar[type[BaseModel]] = TopicsOptions

    def read(self, spark: SparkSession, options: Any, context: Context) -> DataFrame:
        """Return the records; key and value are bytes."""
        register(spark)
        ours = options.of_spark()
        if context.delivery == "exactly_once":
            # Half a transaction, or one that was given up, must not go through.
            ours["kafka.isolation.level"] = "read_committed"
        texts = options.merged(ours)
        texts = for_java(texts) if context.connector == "spark" else texts
        reader = spark.readStream.format(FORMATS[context.connector]).options(**texts)
        return record_frame(reader.load())
