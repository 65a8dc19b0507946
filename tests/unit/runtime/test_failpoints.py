"""Failpoints do nothing unless armed, and then act on the hit they were armed for."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from kvorum.runtime import failpoints
from kvorum.runtime.failpoints import Armed

SCRIPT = """
from kvorum.runtime import failpoints
for name in ("log.roll.before", "other", "log.roll.before", "log.roll.before"):
    print(name, flush=True)
    failpoints.hit(name)
print("end")
"""


def run(setting: str | None) -> "subprocess.CompletedProcess[str]":
    environment = {key: value for key, value in os.environ.items() if key != failpoints.VARIABLE}
    if setting is not None:
        environment[failpoints.VARIABLE] = setting
    return subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=30)


def test_unarmed_places_do_nothing() -> None:
    hit = failpoints.armed("")
    hit("log.roll.before")
    assert hit is failpoints.armed("")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("a=kill", {"a": Armed("kill", 1)}),
        ("a.b=raise@3", {"a.b": Armed("raise", 3)}),
        (" a=kill ; b=raise@2 ;", {"a": Armed("kill", 1), "b": Armed("raise", 2)}),
        ("a=delay:20", {"a": Armed("delay", failpoints.EVERY, 20)}),
        ("a=delay:60000@4;b=kill", {"a": Armed("delay", 4, 60_000), "b": Armed("kill", 1)}),
        ("", {}),
    ],
)
def test_settings_are_read(setting: str, expected: dict[str, Armed]) -> None:
    assert failpoints.parse(setting) == expected


@pytest.mark.parametrize(
    "setting",
    [
        *("a", "a=explode", "a=kill@x", "a=kill@", "a=kill@0", "=kill", "a=kill@-1", "a=kill:3", "a=raise:"),
        *("a=delay", "a=delay:", "a=delay:x", "a=delay:0", "a=delay:-1", "a=delay:60001", "a=delay:5@0", "a=delay:5@"),
        "a=delay:" + "9" * 5_000,
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=failpoints.VARIABLE):
        failpoints.parse(setting)


def test_raise_happens_on_the_nth_hit_only() -> None:
    hit = failpoints.armed("place=raise@2")
    hit("place")
    hit("elsewhere")
    with pytest.raises(OSError, match="failpoint place") as error:
        hit("place")
    assert error.value.errno == errno.EIO
    hit("place")


def test_a_delay_keeps_every_hit_or_the_nth_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(failpoints.time, "sleep", slept.append)
    hit = failpoints.armed("slow=delay:20;once=delay:3@2")
    for name in ("slow", "once", "other", "slow", "once", "once", "slow"):
        hit(name)
    assert slept == [0.02, 0.02, 0.003, 0.02]


def test_a_delay_does_not_stop_a_failpoints_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(failpoints.time, "sleep", slept.append)
    try:
        failpoints.arm("place=raise@3")
        failpoints.hit("place")
        failpoints.slow("place=delay:20;other=delay:5")
        assert failpoints.setting == "place=raise@3;place=delay:20;other=delay:5"
        failpoints.hit("place")
        with pytest.raises(OSError, match="failpoint place"):
            failpoints.hit("place")
        failpoints.arm("")
        failpoints.hit("other")
        assert slept == [0.02, 0.02, 0.005]
        with pytest.raises(ValueError, match="other than delays"):
            failpoints.slow("place=kill")
        failpoints.slow("")
        assert failpoints.hit is failpoints.armed("") and failpoints.setting == ""
    finally:
        failpoints.slow("")
        failpoints.arm("")


def test_kill_ends_the_process_at_the_place_as_kill_9_does() -> None:
    done = run("log.roll.before=kill@2")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["log.roll.before", "other", "log.roll.before"]


def test_a_process_without_the_variable_runs_through() -> None:
    done = run(None)
    assert done.returncode == 0
    assert done.stdout.split()[-1] == "end"
