"""`kvorum --help` and that of each command: quick, without what it does not need, with an example; wrong usage."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kvorum.cli.commands import COMMANDS, SECTIONS
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.cluster.process.exits import Exit as NodeExit

HEAVY = {"aiohttp", "asyncio", "confluent_kafka", "cramjam", "kio", "pydantic", "pysyncobj", "uvloop", "yaml"}
MODULES_MAX = 200
"""Loaded for `kvorum --help`, Python's own included: each costs about a millisecond."""


def commands() -> list[list[str]]:
    """Return the words of every command: `topics create`, ..."""
    found = []
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        found.append([name])
        if isinstance(command, click.Group):
            found += [[name, each] for each in command.list_commands(context)]
    return found


ALL = commands()
every_command = pytest.mark.parametrize("words", ALL, ids=[" ".join(words) for words in ALL])


def run(*arguments: str) -> tuple[int, str]:
    """Run the command line in this process; return exit code and all that was printed."""
    result = CliRunner().invoke(main, arguments, prog_name="kvorum", terminal_width=110)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture(autouse=True)
def starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the commands here gets as far as to start a node."""

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("a node was about to be started")

    monkeypatch.setattr("kvorum.cluster.local.foreground.run_until_signal", refuse)
    monkeypatch.setattr("kvorum.cluster.local.local.LocalCluster.start", refuse)


def test_help_imports_nothing_heavy_and_few_modules() -> None:
    """In a process of its own: what takes time before help appears are imports."""
    code = "import sys; from kvorum.cli.main import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "kvorum dev --nodes 3" in printed
    modules = printed.splitlines()[-1].split()
    packages = {name.partition(".")[0] for name in modules}
    assert "click" in packages and not packages & HEAVY
    assert len(modules) <= MODULES_MAX


@pytest.mark.parametrize("words", [[name] for name in COMMANDS if name not in ("quickstart",)], ids=lambda w: w[0])
def test_no_commands_module_imports_a_client_or_a_server_before_it_runs(words: list[str]) -> None:
    """So that completion and help stay quick; checked on the modules of the command line alone."""
    module = sys.modules[f"kvorum.{COMMANDS[words[0]][0].partition(':')[0]}"]
    names = {value.__name__.partition(".")[0] for value in vars(module).values() if hasattr(value, "__path__")}
    assert not names & HEAVY


@every_command
def test_every_command_has_help_with_an_example(words: list[str]) -> None:
    code, printed = run(*words, "--help")
    assert code == Exit.DONE
    examples = [line for line in printed.splitlines() if line.strip().startswith((f"kvorum {words[0]}", "printf"))]
    assert examples, printed
    assert all(words[-1] in line for line in examples[:1])
    assert printed.splitlines()[0].startswith(f"Usage: kvorum {' '.join(words)}")


def test_the_list_of_commands_describes_each() -> None:
    code, printed = run("--help")
    assert code == Exit.DONE
    for name, (_, text) in COMMANDS.items():
        assert any(line.split()[:1] == [name] for line in printed.splitlines()), name
        assert text.split()[0] in printed


def test_no_command_at_all_shows_the_help() -> None:
    printed = run()[1]
    assert [heading for heading in SECTIONS if f"{heading}:" not in printed] == []


def test_the_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert run("--version") == (Exit.DONE, f"kvorum, version {version('kvorum')}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topcs"], "There is no command 'topcs'. Did you mean 'topics'?"),
        (["xyzzy"], "There is no command 'xyzzy'."),
        (["topics", "lst"], "Did you mean 'list'?"),
        (["dev", "--node", "3"], "--nodes"),
        (["topics", "create"], "Missing argument 'NAME...'"),
        (["topics", "create", "a", "--partitions", "0"], "0 is not in the range 1<=x<=100000"),
        (["topics", "create", "a", "--config", "nonsense"], "'nonsense' is not KEY=VALUE"),
        (["topics", "alter", "a"], "nothing to change"),
        (["topics", "list", "-o", "xml"], "'xml' is not one of 'table', 'json', 'yaml'"),
        (["topics", "list", "-b", "nonsense"], "'nonsense' is not HOST:PORT"),
        (["consume"], "Missing argument 'TOPIC...'"),
        (["consume", "t", "--offset", "soon"], "'soon' is not an offset: use start, end, N, -N, +N, @TIME"),
        (["consume", "t", "-p", "-1", "-e"], "-1 is not in the range 0<=x<=2147483647"),
        (["consume", "t", "-X", "nosuch=1"], 'No such configuration property: "nosuch"'),
        (["produce", "t", "-X", "nosuch=1"], 'No such configuration property: "nosuch"'),
        (["produce", "t", "-k", ""], "must not be empty"),
        (["produce", "t", "-p", "-1"], "-1 is not in the range 0<=x"),
        (["dev", "--port", "70000"], "70000 is not in the range"),
        (["produce", "t", "--acks", "2"], "'2' is not one of '0', '1', 'all'"),
        (["dev", "--set", "nonsense"], "'nonsense' is not KEY=VALUE"),
        (["dev", "--nodes", "0"], "0 is not in the range x>=1"),
        (["up", "nowhere.yaml"], "'nowhere.yaml' does not exist"),
        (["format"], "give CONFIG and --cluster-id"),
        (["configs", "validate"], "Missing argument 'PATH'"),
        (["quorum", "readmit", "2"], "Missing argument 'DIRECTORY_ID'"),
        (["dev", "--nodes", "0"], "0 is not in the range"),
        (["protocol", "--listener", "admin"], "'admin' is not one of 'broker', 'controller'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_has_a_suggestion(arguments: list[str], message: str) -> None:
    code, printed = run(*arguments)
    assert (code, message in printed) == (Exit.USAGE, True), printed


def test_config_is_an_alias_of_configs(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text("nosuch.key=1\n")
    assert run("config", "validate", str(path)) == run("configs", "validate", str(path))
    assert ["config"] not in commands() and ["configs", "validate"] in commands()


def test_the_folder_of_pipelines_is_given_by_state(tmp_path: Path) -> None:
    """`--state` as of the worker and the manager; the older names are aliases."""
    for option in ("--state", "--dir", "-d"):
        assert "No such option" not in run("pipelines", "list", option, str(tmp_path))[1]


SSL = "listener.security.protocol.map=PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (SSL, "ssl.keystore.location: is not set"),
        ("num.partitions=three", "num.partitions=three"),
        ("node-9:a=1", "no node 'node-9'"),
    ],
)
def test_a_wrong_config_has_the_same_exit_code_in_every_command(setting: str, message: str) -> None:
    code, printed = run("dev", "--set", setting)
    assert (code, printed.count("\n"), message in printed) == (NodeExit.CONFIG, 1, True), printed


def test_an_unreachable_cluster_and_an_unknown_one_have_exit_codes_of_their_own(tmp_path: object) -> None:
    code, printed = run("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert (code, "127.0.0.1:1" in printed) == (Exit.UNREACHABLE, True)
    for words in (["status"], ["down"], ["nodes", "kill", "node-1"]):
        code, printed = run(*words, "--dir", str(tmp_path))
        assert (code, "there is no cluster in" in printed) == (Exit.NOT_FOUND, True), printed


def test_an_invalid_folder_is_a_one_line_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    cluster = tmp_path / "one.yaml"
    cluster.write_text("nodes: [{id: 1}]\n")
    for folder in ("/proc/nope", str(file), str(file / "below")):
        for words in (["dev"], ["up", str(cluster)], ["up", str(cluster), "--detach"]):
            code, printed = run(*words, "--dir", folder)
            assert (code, printed.count("\n"), "kvorum: " in printed) == (NodeExit.DATA_REFUSED, 1, True), printed
            assert folder in printed or str(file) in printed


def test_a_folder_with_remains_of_a_cluster_is_a_one_line_error(tmp_path: Path) -> None:
    identity = "version=1\ncluster.id=q2dDxX0qSi6ZGo5pjBP2lw\nnode.id=1\ndirectory.id=q2dDxX0qSi6ZGo5pjBP2lg\n"
    for name in ("data", "data-controller"):
        folder = tmp_path / "node-1" / name
        folder.mkdir(parents=True)
        (folder / "meta.properties").write_text(identity)
    code, printed = run("dev", "--port", "0", "--dir", str(tmp_path))
    assert (code, printed.count("\n"), "has data, but no cluster.json" in printed) == (
        NodeExit.DATA_REFUSED,
        1,
        True,
    ), printed


def test_a_cluster_that_is_already_running_is_left_alone(tmp_path: Path) -> None:
    """Seen from a second process: the first one holds the folder."""
    from kvorum.cluster.local.foreground import hold

    cluster = tmp_path / "one.yaml"
    cluster.write_text("nodes: [{id: 1}]\n")
    folder = tmp_path / "folder"
    with hold(str(folder)):
        for words in (["dev"], ["up", str(cluster)], ["up", str(cluster), "--detach"]):
            code, printed = run(*words, "--dir", str(folder))
            assert (code, "already running" in printed) == (NodeExit.BUSY, True), printed
    assert [path.name for path in folder.iterdir()] == [".lock"]


@pytest.mark.parametrize(("typed", "offered"), [("top", "topics"), ("topics cr", "create"), ("quorum rea", "readmit")])
def test_the_shell_completes_commands(typed: str, offered: str) -> None:
    given = {
        "_KVORUM_COMPLETE": "bash_complete",
        "COMP_WORDS": f"kvorum {typed}",
        "COMP_CWORD": str(typed.count(" ") + 1),
    }
    result = CliRunner().invoke(main, [], prog_name="kvorum", env=given)
    assert result.output == f"plain,{offered}\n"
