"""How late the event loops of Kvorum's brokers are, as their /metrics tell."""

import re
import urllib.error
import urllib.request

from bench.systems import System
from kvorum.runtime.metric_names import EVENT_LOOP_LAG

SECONDS = 5.0


def lag_ms(system: System) -> list[float]:
    """Return for each broker how late a timer was at most, in the last ten seconds; nothing for Apache Kafka."""
    found = []
    for url in system.metrics_urls():
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, TimeoutError):
            continue  # a figure beside those that are asked for: none is no failure
        match = re.search(rf"^{EVENT_LOOP_LAG}(?:{{.*}})? (\S+)", text, re.MULTILINE)
        if match:
            found.append(float(match[1]) * 1000)
    return found
