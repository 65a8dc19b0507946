"""A node's process with a mutant, run instead of kvorum.cluster.process.child; its name is in the environment.

    KVORUM_CHAOS_MUTANT=ignore-min-isr python -m sim.mutants.child node --config ... --dir ...

The supervisor (role `node`) forks its roles' processes: each of them carries the mutant.
"""

import os
import sys
from typing import Final

from kvorum.cluster.process import child
from sim.mutants.catalogue import MUTANTS, apply_mutant

VARIABLE: Final = "KVORUM_CHAOS_MUTANT"
MODULE: Final = "sim.mutants.child"
USAGE: Final = 64
"""Exit code: no such mutant (EX_USAGE)."""


def main(arguments: list[str] | None = None) -> int:
    """Run a role with the mutant in place until it ends; returns its exit code."""
    name = os.environ.get(VARIABLE, "")
    if name not in MUTANTS:
        print(f"{VARIABLE}={name!r} is none of {', '.join(MUTANTS)}", file=sys.stderr)
        return USAGE
    with apply_mutant(name, real=True):
        return child.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
