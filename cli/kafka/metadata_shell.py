"""`kafka-metadata-shell`. Source: Kafka's MetadataShell."""

import os

import click

from kvorum.cli.connection.profiles import profile_option
from kvorum.cli.output import say


@click.command("kafka-metadata-shell")
@click.option(
    "-s",
    "--snapshot",
    required=True,
    type=click.Path(exists=True),
    help="A .checkpoint file, a .log file, or a folder.",
)
@click.argument("command", nargs=-1)
@profile_option
def metadata_shell(snapshot: str, command: tuple[str, ...]) -> None:
    """Walk through a snapshot of the metadata, or carry out one command in it.

    \b
    kvorum kafka-metadata-shell -s 00000000000000000100-0000000003.checkpoint
    kvorum kafka-metadata-shell -s 00000000000000000100-0000000003.checkpoint ls /image/topics/byName
    """
    from kvorum.cli.dump.log_files import FileProblem
    from kvorum.cli.metadata.files import file_source, folder_source
    from kvorum.cli.metadata.session import hold
    from kvorum.cli.metadata.shell import Ended, Shell
    from kvorum.client.metadata_log.metadata_image import MetadataProblem, image_at
    from kvorum.client.metadata_log.metadata_tree import tree_of

    try:
        source = folder_source(snapshot) if os.path.isdir(snapshot) else file_source(snapshot)
        root = tree_of(image_at(source, None))
    except (MetadataProblem, FileProblem) as problem:
        click.echo(f"Error: {problem}", err=True)
        raise SystemExit(1) from None
    except OSError as error:
        click.echo(f"Error: {error.filename or snapshot}: {error.strerror or error}", err=True)
        raise SystemExit(1) from None
    if not command:
        say("Loading...\nStarting...")
        hold(root)
        return
    try:
        for line in Shell(root).run(command):
            say(line)
    except Ended:
        return
