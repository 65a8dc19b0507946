"""Bars are for people at a terminal."""

import io
import sys

import pytest

from kvorum.cli.progress import bar


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("err", "out", "beside_output", "shown"),
    [
        (Terminal, Terminal, False, True),
        (Terminal, io.StringIO, True, True),
        (Terminal, Terminal, True, False),
        (io.StringIO, Terminal, False, False),
    ],
    ids=["at a terminal", "output to a file", "output to the terminal", "errors to a file"],
)
def test_a_bar_is_shown_at_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, err: type[io.StringIO], out: type[io.StringIO], beside_output: bool, shown: bool
) -> None:
    errors, output = err(), out()
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr(sys, "stdout", output)
    with bar(10, "reading", beside_output=beside_output) as step:
        step(4)
        step(6)
    assert output.getvalue() == ""
    assert ("reading" in errors.getvalue() and "100%" in errors.getvalue()) is shown
    if not shown:
        assert errors.getvalue() == ""
