"""Send the cases to any running broker and print where it answers otherwise than the table says.

python -m tests.cluster.wire.compare HOST:PORT [PART OF A NAME]
"""

import json
import sys

from tests.cluster.wire.table import CASES, read_rows
from tests.cluster.wire.world import Json, World


def main() -> None:
    """Print the rows that differ, and how many do."""
    host, _, port = sys.argv[1].rpartition(":")
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    rows, chosen = read_rows(), [case for case in CASES if part in case.name]
    different = 0
    for case in chosen:
        world = World(host, int(port), case.name)
        row = rows[case.name]
        wanted = row.get("kvorum", row["kafka"])
        answer: Json = None
        try:
            answer = case.run(world)
        except (AssertionError, TimeoutError, KeyError) as error:
            answer = f"{type(error).__name__}: {error}"[:300]
        if answer != wanted:
            different += 1
            print(f"{case.name}: {case.sent}\n   wanted   {json.dumps(wanted)} {row.get('messages', '')}")
            print(f"   answered {json.dumps(answer)} {world.messages or ''}", flush=True)
    print(f"{different} of {len(chosen)} differ")


if __name__ == "__main__":
    main()
