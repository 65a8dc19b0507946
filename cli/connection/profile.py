"""`kvorum profile`: several clusters, by name."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace

import click

from kvorum.cli.connection.profiles import (
    Profile,
    ProfileError,
    Profiles,
    complete_profile,
    load_profiles,
    profiles_file,
    save_profiles,
)
from kvorum.cli.output import Exit, fail, output_option, pairs, show, tell

SECRET = re.compile(r"password|secret|jaas|\.key$|\.pem$", re.IGNORECASE)
HIDDEN = "[hidden]"


def load() -> Profiles:
    """Read the profiles; a file that is none ends the command."""
    try:
        return load_profiles(profiles_file())
    except ProfileError as error:
        fail(str(error))


def save(profiles: Profiles) -> None:
    """Write the profiles; where they cannot be written, the command ends."""
    try:
        save_profiles(profiles_file(), profiles)
    except OSError as error:
        fail(f"{error.filename or profiles_file()}: {error.strerror or error}")


def is_secret(key: str, value: str) -> bool:
    """Return whether a property's value is a secret, and not a reference to one."""
    from kvorum.security.client_properties import is_reference

    return SECRET.search(key) is not None and not is_reference(value)


def check_secrets(properties: Mapping[str, str]) -> None:
    """End the command if a secret was typed: it would be visible to other users and kept in the shell's history."""
    for key, value in properties.items():
        if is_secret(key, value):
            advice = f"put it into a file (--command-config FILE), or refer to it: -X '{key}=${{env:NAME}}'"
            raise click.UsageError(f"{key} is a secret; {advice}")


@click.group()
def profile() -> None:
    """Manage named clusters.

    \b
    kvorum profile add staging -b staging-1:9092,staging-2:9092
    kvorum profile use staging                  for all following commands
    kvorum topics list --profile production     for this command only (or KVORUM_PROFILE)
    """


@profile.command()
@click.argument("name")
@click.option("-b", "--bootstrap", "--bootstrap-server", "bootstrap", required=True, help="HOST:PORT,HOST:PORT")
@click.option("-X", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Client property.")
@click.option("--command-config", type=click.Path(exists=True, dir_okay=False), help="File with client properties.")
@click.option("--use", "used", is_flag=True, help="Make it the profile in use.")
@output_option
def add(
    name: str, bootstrap: str, properties: tuple[str, ...], command_config: str | None, used: bool, output: str
) -> None:
    """Add or replace a profile. The first one becomes the profile in use.

    Secrets are in a file (--command-config), or in a file or variable to which a property refers.

    \b
    kvorum profile add staging -b staging-1:9092 --use
    kvorum profile add production -b prod-1:9092 --command-config client.properties
    kvorum profile add test -b test-1:9092 -X 'sasl.password=${env:PASSWORD}'
    """
    from kvorum.network.addresses import parse_bootstrap

    if not name.isprintable():
        raise click.BadParameter("a name must have printable characters only", param_hint="NAME")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap") from None
    there = load()
    made = Profile(
        bootstrap=bootstrap,
        properties=pairs(properties, "--property"),
        command_config=None if command_config is None else os.path.abspath(command_config),
    )
    check_secrets(made.properties)
    current = name if used or not there.profiles else there.current
    save(Profiles(profiles={**there.profiles, name: made}, current=current))
    text = f"{name}: {bootstrap}" + (" (in use)" if current == name else "")
    tell({"name": name, "bootstrap": bootstrap, "in_use": current == name}, output, text)


@profile.command("show")
@click.argument("name", required=False, shell_complete=complete_profile)
@output_option
def show_(name: str | None, output: str) -> None:
    """Show a profile with its properties (default: the one in use). Secrets are hidden.

    \b
    kvorum profile show staging
    """
    there = load()
    try:
        if name is None and there.current is None:
            raise ProfileError("no profile is in use")
        found = there.get(name or there.current or "")
    except ProfileError as error:
        fail(str(error), Exit.NOT_FOUND)
    hidden = {key: HIDDEN if is_secret(key, value) else value for key, value in found.properties.items()}
    shown = name or there.current
    row = {
        "name": shown,
        "bootstrap": found.bootstrap,
        "in_use": there.current == shown,
        "command_config": found.command_config,
        "properties": hidden,
    }
    show(row, output)


@profile.command()
@click.argument("name", shell_complete=complete_profile)
@output_option
def use(name: str, output: str) -> None:
    """Make a profile the default for commands without -b and --profile.

    \b
    kvorum profile use staging
    """
    there = load()
    try:
        there.get(name)
    except ProfileError as error:
        fail(str(error), Exit.NOT_FOUND)
    save(replace(there, current=name))
    tell({"name": name, "in_use": True}, output, f"{name} is in use")


@profile.command("list")
@output_option
def list_(output: str) -> None:
    """List the profiles.

    \b
    kvorum profile list -o json
    """
    there = load()
    rows = [
        {"name": name, "bootstrap": each.bootstrap, "in_use": name == there.current}
        for name, each in sorted(there.profiles.items())
    ]
    show(rows, output, ("name", "bootstrap", "in_use"))


@profile.command()
@click.argument("name", shell_complete=complete_profile)
@output_option
def remove(name: str, output: str) -> None:
    """Remove a profile.

    \b
    kvorum profile remove staging
    """
    there = load()
    try:
        there.get(name)
    except ProfileError as error:
        fail(str(error), Exit.NOT_FOUND)
    left = {key: each for key, each in there.profiles.items() if key != name}
    save(Profiles(profiles=left, current=None if there.current == name else there.current))
    tell({"name": name, "removed": True}, output, f"{name} is removed")
