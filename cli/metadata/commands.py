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


def found(path: str, folder: str | None, bootstrap: str, at: int | None) -> "list[tuple[str, Tree | str]]":
    """Return the entries at a path, which may be a pattern."""
    from kvorum.client.metadata_log.metadata_tree import NoSuchPath, matching

    tree = tree_at(source_of(folder, bootstrap), at)
    try:
        return matching(tree, path)
    except NoSuchPath:
        fail(f"{path}: does not exist", Exit.NOT_FOUND)


@metadata.command()
@options
@output_option
def ls(path: str, folder: str | None, bootstrap: str, at: int | None, output: str) -> None:
    """List the names in a folder.

    \b
    kvorum metadata ls /image/topics/byName
    """
    from kvorum.cli.metadata.walk import ls_lines, ls_rows

    each_with_title = found(path, folder, bootstrap, at)
    if output != "table":
        show(ls_rows(each_with_title), output)
        return
    for line in ls_lines(each_with_title):
        say(line)


@metadata.command()
@options
@output_option
def cat(path: str, folder: str | None, bootstrap: str, at: int | None, output: str) -> None:
    """Print values.

    \b
    kvorum metadata cat /image/topics/byName/orders/0/leader
    kvorum metadata cat '/image/topics/byName/orders/*/isr'
    """
    each_with_path = found(path, folder, bootstrap, at)
    values = [(where, node) for where, node in each_with_path if isinstance(node, str)]
    if not values:
        fail(f"{path} is a folder: use ls or tree", Exit.USAGE)
    if output != "table":
        show(dict(values), output)
        return
    for where, value in values:
        say(value if len(values) == 1 else f"{where}: {value}")


@metadata.command()
@options
@output_option
def find(path: str, folder: str | None, bootstrap: str, at: int | None, output: str) -> None:
    """Print all paths below a path.

    \b
    kvorum metadata find /image/configs
    """
    from kvorum.client.metadata_log.metadata_tree import walk

    paths = [each for where, node in found(path, folder, bootstrap, at) for each, _ in walk(node, where)]
    if output != "table":
        show(paths, output)
        return
    for each in paths:
        say(each)


@metadata.command()
@options
@output_option
def tree(path: str, folder: str | None, bootstrap: str, at: int | None, output: str) -> None:
    """Print the tree below a path, with values.

    \b
    kvorum metadata tree /image/topics/byName/orders
    kvorum metadata tree -o json --dir data/controller --at 1200
    """
    from kvorum.client.metadata_log.metadata_tree import indented

    each_with_path = found(path, folder, bootstrap, at)
    if output != "table":
        (_, only), several = each_with_path[0], len(each_with_path) > 1
        show(dict(each_with_path) if several or isinstance(only, str) else only, output)
        return
    for where, node in each_with_path:
        say(f"{where}: {node}" if isinstance(node, str) else f"{where}:")
        for line in indented(node, 1) if isinstance(node, dict) else ():
            say(line)


@metadata.command()
@click.option("--at", type=click.IntRange(0), help="State after the record at this offset.")
@source_options
def shell(at: int | None, folder: str | None, bootstrap: str) -> None:
    """Browse interactively: ls, cd, cat, tree, find, pwd, history, man, help, exit.

    \b
    kvorum metadata shell
    kvorum metadata shell --dir data/controller --at 1200
    """
    from kvorum.cli.metadata.session import hold

    hold(tree_at(source_of(folder, bootstrap), at))


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
