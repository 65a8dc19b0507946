"""Profiles: named clusters with their addresses. The user's file, and the profile in use.

`$XDG_CONFIG_HOME/kvorum/profiles.json` (~/.config without it): {"current": NAME, "profiles": {NAME: {...}}}.
Precedence: -b, then --profile, $KVORUM_BOOTSTRAP, $KVORUM_PROFILE, and the one in use.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])
FILE_VERSION = 1
PROFILE_KEY = "kvorum.profile"
"""Key of the --profile name in click's context."""


class ProfileError(Exception):
    """A missing profile, or an unreadable file; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A cluster: its brokers, and properties of Kafka's clients (as in a --command-config file)."""

    bootstrap: str
    properties: dict[str, str] = field(default_factory=dict)
    command_config: str | None = None
    """File with more properties, read when they are needed: a profile need not hold secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """All profiles, and the name of the one in use."""

    profiles: dict[str, Profile] = field(default_factory=dict)
    current: str | None = None

    def get(self, name: str) -> Profile:
        """Return a profile. Raises ProfileError."""
        found = self.profiles.get(name)
        if found is None:
            there = ", ".join(sorted(self.profiles)) or "there are no profiles"
            raise ProfileError(f"profile {name!r} does not exist ({there})")
        return found


def profiles_file(environment: "os._Environ[str] | dict[str, str]" = os.environ) -> Path:
    """Return where the profiles are kept."""
    base = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME", "~"), ".config")
    return Path(base).expanduser() / "kvorum" / "profiles.json"


def load_profiles(path: Path) -> Profiles:
    """Read the file; one that is not there is empty. Raises ProfileError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles()
    except (OSError, ValueError) as error:
        raise ProfileError(f"{path} cannot be read: {error}") from error
    try:
        if data["version"] != FILE_VERSION:
            raise ProfileError(f"{path} has version {data['version']}; this release supports {FILE_VERSION}")
        found = {
            str(name): Profile(
                bootstrap=str(each["bootstrap"]),
                properties={str(key): str(value) for key, value in each.get("properties", {}).items()},
                command_config=each.get("command_config"),
            )
            for name, each in data["profiles"].items()
        }
        return Profiles(profiles=found, current=data.get("current"))
    except (KeyError, TypeError, AttributeError) as error:
        raise ProfileError(f"{path} contains no profiles: {error!r}") from error


def save_profiles(path: Path, profiles: Profiles) -> None:
    """Write the file, for its owner's eyes alone: properties may hold passwords. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "version": FILE_VERSION,
        "current": profiles.current,
        "profiles": {
            name: {"bootstrap": each.bootstrap, "properties": each.properties, "command_config": each.command_config}
            for name, each in sorted(profiles.profiles.items())
        },
    }
    part = path.with_suffix(".part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=2) + "\n")
    part.replace(path)


def choose_profile(given: str | None, environment: "os._Environ[str] | dict[str, str]" = os.environ) -> Profile | None:
    """Return the profile that counts: the given one, $KVORUM_PROFILE, or the one in use. Raises ProfileError.

    Without one that is given, $KVORUM_BOOTSTRAP comes before all profiles.
    """
    if given is None and "KVORUM_BOOTSTRAP" in environment:
        return None
    found = load_profiles(profiles_file(environment))
    if given is None:
        given = environment.get("KVORUM_PROFILE")
    if given == "":
        raise ProfileError("the profile's name is empty: give --profile (or KVORUM_PROFILE) a value, or leave it out")
    name = found.current if given is None else given
    return None if name is None else found.get(name)


def profile_option(command: F) -> F:
    """Add --profile; `profile_in_use` returns its value."""
    return click.option(
        "--profile",
        help="Named cluster (see kvorum profile).",
        shell_complete=complete_profile,
        expose_value=False,
        is_eager=True,
        callback=remember_profile,
    )(command)


def complete_profile(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a profile."""
    try:
        return sorted(name for name in load_profiles(profiles_file()).profiles if name.startswith(incomplete))
    except ProfileError:
        return []


def remember_profile(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Store the profile's name for the lookup of the cluster's address."""
    if value is not None:
        ctx.meta[PROFILE_KEY] = value
