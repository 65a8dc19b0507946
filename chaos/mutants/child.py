"""A node's process with a mutant in place: run instead of kvorum.cluster.child, the mutant's name in the environment.

    KVORUM_CHAOS_MUTANT=ignore-min-isr python -m kvorum.chaos.mutants.child node --config ... --dir ...

The supervisor (role `node`) starts its roles' processes by this module too: each of them carries the mutant.
"""

import os
import sys
from typing import Final

from kvorum.chaos.mutants.catalogue import MUTANTS, mutated
from kvorum.chaos.mutants.patches import Patches
from kvorum.cluster import child, supervisor
from kvorum.cluster.paths import NodePaths

VARIABLE: Final = "KVORUM_CHAOS_MUTANT"
MODULE: Final = "kvorum.chaos.mutants.child"
USAGE: Final = 64
"""Exit code: no such mutant (EX_USAGE)."""


def main(arguments: list[str] | None = None) -> int:
    """Run a role with the mutant in place until it ends; returns its exit code."""
    name = os.environ.get(VARIABLE, "")
    if name not in MUTANTS:
        print(f"{VARIABLE}={name!r} is none of {', '.join(MUTANTS)}", file=sys.stderr)
        return USAGE
    with mutated(name, real=True), Patches() as patches:
        carry_on(patches)
        return child.main(arguments)


def carry_on(patches: Patches) -> None:
    """Let supervisors start their children by this module."""
    command_of = supervisor.child_command

    def mutated_command(role: str, paths: NodePaths, config: str, overrides: list[str]) -> list[str]:
        command = command_of(role, paths, config, overrides)
        assert child.__name__ in command, "it runs kvorum.cluster.child"
        return [MODULE if word == child.__name__ else word for word in command]

    patches.replace(supervisor, "child_command", mutated_command)


if __name__ == "__main__":
    sys.exit(main())
