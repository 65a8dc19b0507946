"""`kvorum metadata`: what Kafka's metadata shell shows, at any offset, and what changed between two."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from kvorum.cli.connection.client import bootstrap_option, with_cluster
from kvorum.cli.output import Exit, fail, output_option, say, show

if TYPE_CHECKING:
    from kvorum.client.metadata_log.metadata_image import Source
    from kvorum.client.metadata_log.metadata_tree import Tree
    from kvorum.client.wire.cluster_client import ClusterClient

F = TypeVar("F", bound=Callable[..., object])
DIFF_COLUMNS = ("path", "before", "after")


@click.group()
def metadata() -> None:
    """Browse the metadata of a cluster, or of a controller's files (--dir), as a tree.

    The commands and their output are those of Kafka's metadata shell; --output json prints the part of the tree.

    \b
    kvorum metadata ls /image/topics/byName
    kvorum metadata cat '/image/topics/byName/orders/*/isr'
    kvorum metadata tree /image/cluster --dir data/controller --at 1200
    kvorum metadata diff 1000 1200 --dir data/controller
    """


def source_options(command: F) -> F:
    """Add --dir and --bootstrap."""
    command = click.option(
        "-d",
        "--dir",
        "folder",
        type=click.Path(exists=True, file_okay=False),
        help="Folder of a metadata log (__cluster_metadata-0), or its parent.",
    )(command)
    return bootstrap_option(command)


def options(command: F) -> F:
    """Add the options that select metadata and a part of them."""
    command = click.option("--at", type=click.IntRange(0), help="State after the record at this offset.")(command)
    command = source_options(command)
    return click.argument("path", default="/")(command)


def source_of(folder: str | None, bootstrap: str) -> "Source":
    """Return where the metadata come from."""
    from kvorum.cli.metadata.files import folder_source
    from kvorum.client.metadata_log.metadata_fetch import fetch_source
    from kvorum.client.metadata_log.metadata_image import MetadataProblem

    async def work(cluster: "ClusterClient") -> "Source":
        return await fetch_source(cluster)

    try:
        return with_cluster(bootstrap, work) if folder is None else folder_source(folder)
    except MetadataProblem as problem:
        fail(str(problem))
    except OSError as error:
        fail(f"{error.filename or folder}: {error.strerror or error}")


def tree_at(source: "Source", at: int | None) -> "Tree":
    """Return the tree at an offset."""
    from kvorum.cli.dump.log_files import FileProblem
    from kvorum.client.metadata_log.metadata_image import MetadataProblem, image_at
    from kvorum.client.metadata_log.metadata_tree import tree_of

    try:
        return tree_of(image_at(source, at))
    except (MetadataProblem, FileProblem) as problem:
        fail(str(problem))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror or error}")


def run_in_shell(name: str, path: str, root: "Tree", output: str) -> None:
    """Print what a command of the shell prints for a path; as JSON or YAML the part of the tree itself."""
    from kvorum.cli.metadata.shell import Shell
    from kvorum.client.metadata_log.metadata_tree import NoSuchPath, find_matches

    try:
        found = find_matches(root, path)
    except NoSuchPath:
        fail(f"{path}: does not exist", Exit.NOT_FOUND)
    if name == "cat" and not any(isinstance(node, str) for _, node in found):
        fail(f"{path} is a folder: use ls or tree", Exit.USAGE)
    if output != "table":
        _, first = found[0]
        show(dict(found) if len(found) > 1 or isinstance(first, str) else first, output)
        return
    for line in Shell(root).run([name, path]):
        say(line)


def add_shell_command(name: str, text: str, example: str) -> None:
    """Add a command of the shell to `kvorum metadata`."""

    @metadata.command(name, help=f"{text}\n\n\b\nkvorum metadata {name} {example}")
    @options
    @output_option
    def command(path: str, folder: str | None, bootstrap: str, at: int | None, output: str) -> None:
        run_in_shell(name, path, tree_at(source_of(folder, bootstrap), at), output)


add_shell_command("ls", "List the names in a folder.", "/image/topics/byName")
add_shell_command("cat", "Print values.", "'/image/topics/byName/orders/*/isr'")
add_shell_command("find", "Print all paths below a path.", "/image/configs")
add_shell_command("tree", "Print the tree below a path, with values.", "-o json --dir data/controller --at 1200")


@metadata.command()
@click.option("--at", type=click.IntRange(0), help="State after the record at this offset.")
@source_options
def shell(at: int | None, folder: str | None, bootstrap: str) -> None:
    """Browse interactively: ls, cd, cat, tree, find, pwd, history, man, help, exit.

    \b
    kvorum metadata shell
    kvorum metadata shell --dir data/controller --at 1200
    """
    from kvorum.cli.metadata.session import run_session

    run_session(tree_at(source_of(folder, bootstrap), at))


@metadata.command()
@click.argument("before", type=click.IntRange(0))
@click.argument("after", type=click.IntRange(0))
@source_options
@output_option
def diff(before: int, after: int, folder: str | None, bootstrap: str, output: str) -> None:
    """Print the differences of the metadata between the offsets BEFORE and AFTER.

    \b
    kvorum metadata diff 1000 1200 --dir data/controller -o json
    """
    from kvorum.client.metadata_log.metadata_tree import difference

    source = source_of(folder, bootstrap)
    old, new = tree_at(source, before), tree_at(source, after)
    rows = [
        {"path": path, "before": was, "after": now}
        for path, was, now in difference({"image": old["image"]}, {"image": new["image"]})
    ]
    show(rows, output, DIFF_COLUMNS)
