"""Unit tests in a process with a mistake: `python -m sim.mutants.witness FUNCTION TEST...`; pytest's exit code.

FUNCTION is one of sim.mutants.security. The catalogue of all mutants, which loads the simulator, is not needed.
"""

import sys
from typing import Final

import pytest

from sim.mutants import security
from sim.mutants.patches import Patches

OPTIONS: Final = ("-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist")


def main(function: str, *tests: str) -> int:
    """Run the tests with the mistake in place."""
    with Patches() as patches:
        getattr(security, function)(patches)
        return int(pytest.main([*OPTIONS, *tests]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
