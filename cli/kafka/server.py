"""`kafka-server-start` and `kafka-server-stop`: a node of this machine, as `kvorum node` runs it.

Source: Kafka's bin/kafka-server-start.sh, kafka-server-stop.sh, kafka.Kafka.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from kvorum.cli.output import say

PROC: Final = Path("/proc")
STARTERS: Final = ("node", "kafka-server-start", "kafka-server-start.sh")
OUT: Final = "kafkaServer.out"


class NodeProcess(NamedTuple):
    """A node that runs: its process, and the words it was started with, behind the command's name."""

    pid: int
    words: Sequence[str]


class Daemon(click.Command):
    """A command that takes -daemon before its file, as Kafka's script does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spell it with two dashes."""
        return super().parse_args(ctx, ["--daemon" if word == "-daemon" else word for word in args])


@click.command("kafka-server-start", cls=Daemon)
@click.argument("config", type=click.Path(exists=True, dir_okay=False), metavar="server.properties")
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="Override a config. Repeatable.")
@click.option("--daemon", is_flag=True, help="Run in the background, with output in $LOG_DIR (./logs).")
def start(config: str, override: tuple[str, ...], daemon: bool) -> None:
    """Run a node that was formatted, until SIGTERM: `kvorum node`.

    \b
    kvorum kafka-server-start node.properties
    kvorum kafka-server-start -daemon node.properties --override num.partitions=3
    """
    from kvorum.cli.local.node import node

    if not daemon:
        context = click.get_current_context()
        context.invoke(node, config=config, folder=None, override=override)
        return
    folder = Path(os.environ.get("LOG_DIR") or "logs")
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "kvorum.cli.main", "node", config]
    words += [word for each in override for word in ("--override", each)]
    with open(folder / OUT, "ab") as out:
        # It outlives this command; kafka-server-stop stops it.
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


@click.command("kafka-server-stop")
@click.option("--process-role", type=click.Choice(["broker", "controller"]), help="Only nodes of this role.")
@click.option("--node-id", type=click.IntRange(0), help="Only this node.")
def stop(process_role: str | None, node_id: int | None) -> None:
    """Stop the nodes of this machine and this user that `kvorum node` runs, each by a controlled shutdown.

    \b
    kvorum kafka-server-stop
    kvorum kafka-server-stop --node-id=3
    """
    found = [each for each in find_nodes(PROC) if is_meant(each, process_role, node_id)]
    if not found:
        say("No kafka server to stop")
        raise SystemExit(1)
    for each in found:
        os.kill(each.pid, signal.SIGTERM)


def find_nodes(proc: Path) -> Iterator[NodeProcess]:
    """Yield the independent nodes of this user; those of `kvorum up` and `dev` belong to them."""
    for folder in sorted(proc.iterdir(), key=lambda path: path.name):
        try:
            if not folder.name.isdecimal() or folder.stat().st_uid != os.getuid():
                continue
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended meanwhile
        behind = behind_command(words)
        if behind is not None and not is_child(folder, proc):
            yield NodeProcess(int(folder.name), behind)


def behind_command(words: Sequence[str]) -> Sequence[str] | None:
    """Return the words behind `kvorum node` or `kvorum kafka-server-start`, None of any other command."""
    for place in range(len(words) - 1):
        is_kvorum = os.path.basename(words[place]) == "kvorum" or words[place] == "kvorum.cli.main"
        if is_kvorum and words[place + 1] in STARTERS:
            return words[place + 2 :]
    return None


def is_child(folder: Path, proc: Path) -> bool:
    """Return whether a process was forked by a node: it has the node's arguments, and ends with it."""
    try:
        parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        words = (proc / parent / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError, PermissionError, IndexError):
        return False
    return behind_command(words) is not None


def is_meant(node: NodeProcess, role: str | None, node_id: int | None) -> bool:
    """Return whether a node has this role and this id, by its configuration file."""
    from kvorum.runtime.properties import PropertiesError, parse_properties

    if role is None and node_id is None:
        return True
    path = next((word for word in node.words if not word.startswith("-")), "")
    try:
        text = (PROC / str(node.pid) / "cwd" / path).read_text()
        properties = {each.key: each.text for each in parse_properties(text)}
    except (OSError, PropertiesError, UnicodeDecodeError):
        return False
    for place, word in enumerate(node.words[:-1]):
        if word == "--override":
            key, _, value = node.words[place + 1].partition("=")
            properties[key] = value
    roles = [each.strip() for each in properties.get("process.roles", "").split(",")]
    return role in (None, *roles) and node_id in (None, int(properties.get("node.id", "-1")))
