"""The most frequent log messages per minute: lines in topic `log`, the top three per minute in `top-errors`.

log         key: the node    value: "2026-11-22T13:25:24.840Z ERROR cluster role crashed node=node-2 role=broker"
top-errors  key: {"key": "all", "window": {...}}    value: [{"count": 7, "trouble": "broker: fetch from leader failed"}]

python top_errors.py BOOTSTRAP STATE_DIR
"""

import sys
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from kvorum.pipelines.streams import Streams, StreamsBuilder, StreamsConfig, Suppressed, TimeWindows, Topology

TOP = 3
MINUTE = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
FINAL = Suppressed.until_window_closes()
LINE = r"^\S+ (\S+) (\S+) (.*?)(?: \w+=.*)?$"
"""Time, level, component, message, and fields as name=value."""


def trouble(value: Column) -> Column:
    """Return the component and the message, without the fields."""
    return F.concat(F.regexp_extract(value, LINE, 2), F.lit(": "), F.regexp_extract(value, LINE, 3))


def topology() -> Topology:
    """Count each trouble in a minute, then rank the minute's counts.

    Two windows one after the other are two queries: describe() shows the topic that is put between them.
    """
    builder = StreamsBuilder()
    lines = builder.stream("log", timestamp_extractor="to_timestamp(split_part(value, ' ', 1))")
    bad = lines.filter(lambda value: (F.regexp_extract(value, LINE, 1) == "ERROR") | value.contains("failed"))
    counts = bad.group_by(trouble).windowed_by(MINUTE).count(store="counts-store").suppress(FINAL).to_stream()
    ranked = counts.map(lambda key, value: (F.lit("all"), F.struct(value.alias("count"), key.key.alias("trouble"))))
    top = ranked.group_by_key().windowed_by(MINUTE)
    top.aggregate(f"slice(sort_array(collect_list(value), false), 1, {TOP})").suppress(FINAL).to_stream().to(
        "top-errors"
    )
    return builder.build()


if __name__ == "__main__":
    print(topology().describe())
    config = StreamsConfig(application_id="top-errors", bootstrap_servers=sys.argv[1], state_dir=sys.argv[2])
    streams = Streams(topology(), config)
    streams.start()
    streams.await_termination()
