"""A word count in a process of its own, until it is killed, or (`is_last`) until all that is there is counted.

Arguments, as one JSON object: bootstrap, source, target, folder, is_last.
"""

import json
import sys

from kvorum.pipelines.plugins import Trigger
from kvorum.pipelines.session.build import SessionSettings
from kvorum.pipelines.streams import Serdes, Streams, StreamsBuilder, StreamsConfig


def main() -> None:
    told = json.loads(sys.argv[1])
    builder = StreamsBuilder()
    words = builder.stream(told["source"]).flat_map_values("split(value, ' ')").group_by(lambda value: value)
    words.count(store="counts").to_stream().to(told["target"], value_serde=Serdes.long(), named="counts-sink")
    config = StreamsConfig(
        application_id=f"app-{told['target']}",
        bootstrap_servers=told["bootstrap"],
        state_dir=told["folder"],
        trigger=Trigger(arguments={"processingTime": "0 seconds"}),
        source_options={"maxOffsetsPerTrigger": "150"},
        session=SessionSettings(master="local[2]", memory="512m", connector="kvorum"),
    )
    streams = Streams(builder.build(), config)
    if told["is_last"]:
        streams.process_available()
    else:
        streams.start()
        streams.await_termination()


if __name__ == "__main__":
    main()
