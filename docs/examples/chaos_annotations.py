"""Print the faults of a chaos run as Grafana annotations: one JSON object per line, for POST /api/annotations.

Run: python chaos_annotations.py build/chaos/n-minus-one/history.jsonl [--began SECONDS_SINCE_1970]

Times in a history are relative to the start of its run. Without --began, the start is derived from the file's last
modification; give --began for a copy of a history. A fault without an end is a point in time.
"""

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

TAG = "kvorum-chaos"


def annotations(events: Iterable[dict[str, Any]], began: float) -> Iterator[dict[str, Any]]:
    """Yield one annotation per fault, ordered by end; faults without an end come last."""
    open_faults: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["kind"] != "fault":
            continue
        at_ms = round((began + event["t"]) * 1000)
        if event["phase"] == "begin":
            text = event.get("story") or " ".join([event["fault"], *event.get("targets", [])])
            open_faults[event["id"]] = {"time": at_ms, "tags": [TAG, event["fault"]], "text": text}
        elif event["id"] in open_faults:
            yield open_faults.pop(event["id"]) | {"timeEnd": at_ms}
    yield from open_faults.values()


def main() -> None:
    """Read a history and print its annotations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history")
    parser.add_argument("--began", type=float)
    given = parser.parse_args()
    with open(given.history, encoding="utf-8") as file:
        events = [json.loads(line) for line in file if line.endswith("\n")]
    began = given.began
    if began is None:
        began = os.stat(given.history).st_mtime - (events[-1]["t"] if events else 0)
    for each in annotations(events, began):
        print(json.dumps(each))


if __name__ == "__main__":
    main()
