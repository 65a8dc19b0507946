"""`kvorum --help` and that of each command: quick, without what it does not need, with an example; wrong usage."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from kvorum.cli.main import COMMANDS, main
from kvorum.cli.output import Exit

HEAVY = {"aiohttp", "asyncio", "confluent_kafka", "cramjam", "kio", "pydantic", "pysyncobj", "uvloop", "yaml"}
CPU_SECONDS_MAX = 0.6


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


def test_help_imports_nothing_heavy_and_takes_well_under_a_second() -> None:
    """In a process of its own; CPU time, so that a busy machine does not matter."""
    code = "import sys; from kvorum.cli.main import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert "kvorum dev --nodes 3" in printed
    modules = {name.partition(".")[0] for name in printed.splitlines()[-1].split()}
    assert "click" in modules and not modules & HEAVY
    assert usage.ru_utime + usage.ru_stime < CPU_SECONDS_MAX


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


def test_the_list_of_commands_says_what_each_does() -> None:
    code, printed = run("--help")
    assert code == Exit.DONE
    for name, (_, text) in COMMANDS.items():
        assert any(line.split()[:1] == [name] for line in printed.splitlines()), name
        assert text.split()[0] in printed


def test_no_command_at_all_shows_the_help() -> None:
    assert "Commands:" in run()[1]


def test_the_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert run("--version") == (Exit.DONE, f"kvorum, version {version('kvorum')}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topcs"], "There is no command 'topcs'. Did you mean 'topics'?"),
        (["xyzzy"], "There is no command 'xyzzy'."),
        (["topics", "lst"], "Did you mean 'list'?"),
        (["dev", "--node", "3"], "--nodes"),
        (["topics", "create"], "Missing argument 'NAMES...'"),
        (["topics", "create", "a", "--partitions", "0"], "0 is not in the range x>=1"),
        (["topics", "create", "a", "--config", "nonsense"], "'nonsense' is not KEY=VALUE"),
        (["topics", "alter", "a"], "nothing to change"),
        (["topics", "list", "-o", "xml"], "'xml' is not one of 'table', 'json', 'yaml'"),
        (["topics", "list", "-b", "nonsense"], "'nonsense' is not HOST:PORT"),
        (["consume"], "Missing argument 'TOPIC'"),
        (["produce", "t", "--acks", "2"], "'2' is not one of '0', '1', 'all'"),
        (["dev", "--set", "nonsense"], "'nonsense' is not KEY=VALUE"),
        (["dev", "--nodes", "0"], "must be between 1 and 100"),
        (["dev", "--set", "num.partitions=three"], "num.partitions=three"),
        (["up", "nowhere.yaml"], "'nowhere.yaml' does not exist"),
        (["format"], "give CONFIG and --cluster-id"),
        (["config", "validate"], "Missing argument 'PATH'"),
        (["quorum", "readmit", "2"], "Missing argument 'DIRECTORY_ID'"),
        (["protocol", "--listener", "admin"], "'admin' is not one of 'broker', 'controller'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_says_what_was_meant(arguments: list[str], said: str) -> None:
    code, printed = run(*arguments)
    assert (code, said in printed) == (Exit.USAGE, True), printed


def test_an_unreachable_cluster_and_an_unknown_one_have_exit_codes_of_their_own(tmp_path: object) -> None:
    code, printed = run("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert (code, "127.0.0.1:1" in printed) == (Exit.UNREACHABLE, True)
    for words in (["status"], ["down"], ["nodes", "kill", "node-1"]):
        code, printed = run(*words, "--dir", str(tmp_path))
        assert (code, "there is no cluster in" in printed) == (Exit.NOT_FOUND, True), printed


@pytest.mark.parametrize(("typed", "offered"), [("top", "topics"), ("topics cr", "create"), ("quorum re", "readmit")])
def test_the_shell_completes_commands(typed: str, offered: str) -> None:
    given = {
        "_KVORUM_COMPLETE": "bash_complete",
        "COMP_WORDS": f"kvorum {typed}",
        "COMP_CWORD": str(typed.count(" ") + 1),
    }
    result = CliRunner().invoke(main, [], prog_name="kvorum", env=given)
    assert result.output == f"plain,{offered}\n"
