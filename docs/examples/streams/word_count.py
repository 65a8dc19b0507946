"""Word count: lines in topic `lines`, counts in topic `counts`.

python word_count.py BOOTSTRAP STATE_DIR
"""

import sys

from pyspark.sql import functions as F

from kvorum.pipelines.streams import Serdes, Streams, StreamsBuilder, StreamsConfig, Topology


def topology() -> Topology:
    """Split lines into words, use each word as key, and emit the count of a key when it changes."""
    builder = StreamsBuilder()
    words = builder.stream("lines").flat_map_values(
        lambda value: F.regexp_extract_all(F.lower(value), F.lit("[a-z]+"), 0)
    )
    counts = words.group_by(lambda value: value).count(store="counts-store")
    counts.to_stream().to("counts", key_serde=Serdes.string(), value_serde=Serdes.long())
    return builder.build()


if __name__ == "__main__":
    print(topology().describe())
    config = StreamsConfig(application_id="word-count", bootstrap_servers=sys.argv[1], state_dir=sys.argv[2])
    streams = Streams(topology(), config)
    streams.start()
    streams.await_termination()
