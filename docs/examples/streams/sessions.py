"""Sessions of activity per node: log lines in topic `log`, sessions in topic `sessions`.

log         key: the node    value: "2026-11-22T13:25:15.221Z INFO quorum active controller found leader_id=2 epoch=-1"
sessions    key: {"key": "node-1", "window": {...}}    value: {"lines": 17, "rooms": ["broker", "quorum"]}

python sessions.py BOOTSTRAP STATE_DIR
"""

import sys
from datetime import timedelta

from kvorum.pipelines.streams import SessionWindows, Streams, StreamsBuilder, StreamsConfig, Topology

QUIET = SessionWindows.of_inactivity_gap_and_grace(timedelta(seconds=2), grace=timedelta(seconds=1))


def topology() -> Topology:
    """Event time is the line's timestamp, not the time of the append. A session is emitted when it has ended."""
    builder = StreamsBuilder()
    lines = builder.stream("log", timestamp_extractor="to_timestamp(split_part(value, ' ', 1))")
    rooms = lines.map_values("split_part(value, ' ', 3)")
    sessions = rooms.group_by_key().windowed_by(QUIET)
    sessions.aggregate(
        "struct(count(1) AS lines, array_sort(collect_set(value)) AS rooms)", store="sessions-store"
    ).to_stream().to("sessions")
    return builder.build()


if __name__ == "__main__":
    print(topology().describe())
    config = StreamsConfig(application_id="sessions", bootstrap_servers=sys.argv[1], state_dir=sys.argv[2])
    streams = Streams(topology(), config)
    streams.start()
    streams.await_termination()
