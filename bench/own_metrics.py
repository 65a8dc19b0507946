"""What Kvorum's processes tell of themselves on /metrics."""

import re
import urllib.error
import urllib.request
from collections.abc import Iterable

from bench.systems import System
from kvorum.runtime.metric_names import EVENT_LOOP_LAG

SECONDS = 5.0


def told(urls: Iterable[str], name: str) -> list[float]:
    """Return a metric of each process that answers: a figure beside those asked for, of which none is no failure."""
    found = []
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, TimeoutError):
            continue
        match = re.search(rf"^{name}(?:{{.*}})? (\S+)", text, re.MULTILINE)
        if match:
            found.append(float(match[1]))
    return found


def lag_ms(system: System) -> list[float]:
    """Return for each broker how late a timer was at most, in the last ten seconds; nothing for Apache Kafka."""
    return [seconds * 1000 for seconds in told(system.metrics_urls(), EVENT_LOOP_LAG)]
