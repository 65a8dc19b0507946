"""Page views by region: join each record of topic `views` with the current record of its user in topic `users`.

views   key: the user    value: {"page": "/docs"}
users   key: the user    value: {"region": "eu", "name": "Ada"}; null: the user was deleted
by-region   key: {"key": "eu", "window": {...}}    value: {"views": 3, "users": ["ada", "bo"]}

python page_views.py BOOTSTRAP STATE_DIR
"""

import sys
from datetime import timedelta

from pyspark.sql import functions as F

from kvorum.pipelines.streams import Serdes, Streams, StreamsBuilder, StreamsConfig, TimeWindows, Topology

MINUTES = TimeWindows.of_size_and_grace(timedelta(minutes=1), grace=timedelta(seconds=30))


def topology() -> Topology:
    """Left join: a view of an unknown user counts for the region `unknown`."""
    builder = StreamsBuilder()
    views = builder.stream("views", value_serde=Serdes.json("page STRING"))
    users = builder.table("users", value_serde=Serdes.json("region STRING, name STRING"), store="users-store")
    located = views.left_join(
        users,
        lambda key, view, user: F.struct(
            key.alias("user"), view.page.alias("page"), F.coalesce(user.region, F.lit("unknown")).alias("region")
        ),
    )
    by_region = located.group_by("value.region").windowed_by(MINUTES)
    by_region.aggregate(
        "struct(count(1) AS views, array_sort(collect_set(value.user)) AS users)", store="views-store"
    ).to_stream().to("by-region")
    return builder.build()


if __name__ == "__main__":
    print(topology().describe())
    config = StreamsConfig(application_id="page-views", bootstrap_servers=sys.argv[1], state_dir=sys.argv[2])
    streams = Streams(topology(), config)
    streams.start()
    streams.await_termination()
