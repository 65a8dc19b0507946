"""Software of a run: names and versions of clients and of Kvorum, for the history."""

import platform
from importlib.metadata import version
from typing import Final

from confluent_kafka import libversion

CONFLUENT: Final = f"confluent-kafka {version('confluent-kafka')}"
AIOKAFKA: Final = f"aiokafka {version('aiokafka')}"
CHANNEL: Final = f"kvorum channel {version('kvorum')}"


def software() -> dict[str, str]:
    """Return {name: version} of all that takes part on this side of the wire."""
    return {
        "kvorum": version("kvorum"),
        "python": platform.python_version(),
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": libversion()[0],
        "aiokafka": version("aiokafka"),
        "system": f"{platform.system()} {platform.release()}",
    }
