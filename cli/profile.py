"""`kvorum profile`: several clusters, by name."""

from dataclasses import replace

import click

from kvorum.cli.output import Exit, fail, output_option, pairs, show
from kvorum.cli.profiles import Profile, ProfileError, Profiles, load_profiles, profiles_file, save_profiles


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


@click.group()
def profile() -> None:
    """Keep the addresses of several clusters by name.

    \b
    kvorum profile add staging -b staging-1:9092,staging-2:9092
    kvorum profile use staging                  every command from now on
    kvorum topics list --profile production     this command only (or KVORUM_PROFILE)
    """


@profile.command()
@click.argument("name")
@click.option("-b", "--bootstrap", "--bootstrap-server", "bootstrap", required=True, help="HOST:PORT,HOST:PORT")
@click.option("-X", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Any property of a client.")
@click.option("--use", "used", is_flag=True, help="Use it from now on.")
def add(name: str, bootstrap: str, properties: tuple[str, ...], used: bool) -> None:
    """Add a profile, or put another in its place. The first one is used at once.

    \b
    kvorum profile add staging -b staging-1:9092 --use
    """
    from kvorum.admin.client import parse_bootstrap

    if not name.isprintable():
        raise click.BadParameter("a name is of characters that can be printed", param_hint="NAME")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap") from None
    there = load()
    made = Profile(bootstrap=bootstrap, properties=pairs(properties, "--property"))
    current = name if used or not there.profiles else there.current
    save(Profiles(profiles={**there.profiles, name: made}, current=current))
    click.echo(f"{name}: {bootstrap}" + (" (in use)" if current == name else ""))


@profile.command()
@click.argument("name")
def use(name: str) -> None:
    """Use a profile from now on, wherever neither -b nor --profile says otherwise.

    \b
    kvorum profile use staging
    """
    there = load()
    try:
        there.get(name)
    except ProfileError as error:
        fail(str(error), Exit.NOT_FOUND)
    save(replace(there, current=name))
    click.echo(f"{name} is in use")


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
@click.argument("name")
def remove(name: str) -> None:
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
    click.echo(f"{name} is removed")
