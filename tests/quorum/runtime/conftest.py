"""Lets the tests here import runtime_kit, and gives them a world."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from runtime_kit import World


@pytest.fixture
def world() -> Iterator[World]:
    """A controller over a log of one voter, in virtual time; nothing may have gone wrong behind the test's back."""
    world = World()
    yield world
    world.end()
