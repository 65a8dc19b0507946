"""Lets the tests here import runtime_kit, and gives them a world."""

from collections.abc import Iterator

import pytest

from tests.unit.quorum.runtime.runtime_kit import World


@pytest.fixture
def world() -> Iterator[World]:
    """A controller over a log of one voter, in virtual time; nothing may have gone wrong behind the test's back."""
    world = World()
    yield world
    world.end()
