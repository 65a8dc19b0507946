"""The content of the dashboards, one module each: tools/generate_grafana.py writes configs/grafana/*.json from them."""

from typing import Final

from grafana.chaos import CHAOS
from grafana.cluster import CLUSTERS
from grafana.consumer_lag import CONSUMER_LAG
from grafana.processes import PROCESSES
from grafana.quorum import QUORUM
from grafana.topics import TOPICS

DASHBOARDS: Final = (CLUSTERS, QUORUM, TOPICS, CONSUMER_LAG, PROCESSES, CHAOS)
