"""The metadata shell: what is typed, where one is, and what it prints; and Kafka's script around it."""

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvorum.cli.main import main
from kvorum.cli.metadata.shell import WORDS, Ended, Shell, in_columns
from kvorum.cli.output import Exit
from kvorum.client.metadata_log.metadata_tree import Tree
from tests.unit.cli.test_metadata import encoded, snapshot_of_first

ROOT: Tree = {
    "image": {
        "topics": {"byName": {"a": {"0": {"isr": "[1,2]", "leader": "1"}, "id": "X"}, "b": {"id": "Y"}}},
        "empty": {},
    },
    "local": {"epoch": "3", "offset": "13"},
}


def walked(*lines: str, width: int | None = None) -> list[str]:
    """Return what the last line prints."""
    shell = Shell(ROOT, width)
    found: list[str] = []
    for line in lines:
        found = shell.run_line(line)
    return found


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        (["ls"], ["image", "local"]),
        (["ls /local"], ["epoch", "offset"]),
        (["ls local/offset"], ["offset"]),
        (["ls local image/topics/byName/a/id"], ["id", "", "local:", "epoch", "offset"]),
        (["ls local image/topics/byName/b"], ["local:", "epoch", "offset", "", "b:", "id"]),
        (["ls image/topics/byName/*/id"], ["id", "id"]),
        (["ls nope"], ["ls: nope: no such file or directory."]),
        (["ls image/empty"], []),
        (["cd image/topics", "pwd"], ["/image/topics"]),
        (["cd image/topics", "cd ../../local", "cat offset"], ["13"]),
        (["cd image", "cd", "pwd"], ["/"]),
        (["cd /local/.././image/topics/.", "pwd"], ["/image/topics"]),
        (["cd ../..", "pwd"], ["/"]),
        (["cd nope"], ["cd: nope: no such directory."]),
        (["cd local/offset"], ["cd: local/offset: not a directory."]),
        (["cat /local/*"], ["3", "13"]),
        (["cat local"], ["cat: local: Is a directory"]),
        (["cat nope"], ["cat: nope: No such file or directory."]),
        (["cat"], ["cat: give TARGET..."]),
        (["find local"], ["local", "local/epoch", "local/offset"]),
        (["cd local", "find"], [".", "./epoch", "./offset"]),
        (["find nope"], ["find: nope: no such file or directory."]),
        (["tree local"], ["epoch:", "  3", "offset:", "  13"]),
        (["tree image/topics/byName/b"], ["id:", "  Y"]),
        (["tree local/offset"], ["13"]),
        (["tree nope"], ["tree: nope: No such file or directory."]),
        (["man ls"], ["ls: List metadata nodes.", "", "usage: ls [TARGET...]"]),
        (["man nope"], ["man: unknown command nope. Type help to get a list of commands."]),
        (["dance"], ["dance: unknown command. Type help to get a list of commands."]),
        (['cat "local'], ['cat "local: No closing quotation']),
        (['cat "local/offset"'], ["13"]),
        (["pwd", "", "history"], ["    0  pwd", "    1  history"]),
        (["pwd", "ls", "history 1"], ["    2  history 1"]),
        (["history 0"], []),
        (["history x"], ["history: x is not a number"]),
        ([""], []),
    ],
)
def test_commands_have_kafkas_output(lines: list[str], printed: list[str]) -> None:
    assert walked(*lines) == printed


def test_help_names_every_command_and_exit_ends_it() -> None:
    shown = "\n".join(walked("help"))
    assert all(f"  {name}" in shown for name in WORDS)
    with pytest.raises(Ended):
        walked("exit")


def test_names_are_in_as_many_columns_as_fit() -> None:
    names = [f"name{number:02d}" for number in range(7)]
    assert in_columns(names, None) == names and in_columns([], 80) == []
    assert in_columns(names, 3) == names, "a screen too narrow for columns"
    assert in_columns(names, 18) == ["name00  name04", "name01  name05", "name02  name06", "name03"]
    assert in_columns(names, 80) == ["  ".join(names)]
    assert in_columns(["a" * 50, "b"], 30) == ["a" * 50, "b"]


def test_the_word_that_is_typed_is_completed() -> None:
    shell = Shell(ROOT)
    assert shell.completions("", "h") == ["help ", "history "]
    assert shell.completions("cat ", "lo") == ["local/"]
    assert shell.completions("cat ", "local/") == ["local/epoch ", "local/offset "]
    assert shell.completions("cat ", "/image/topics/byName/a/0/l") == ["/image/topics/byName/a/0/leader "]
    assert shell.completions("cat ", "nope/x") == [] and shell.completions("cat ", "local/offset/") == []


def run(*words: str, given: str = "") -> Result:
    result = CliRunner().invoke(main, words, input=given, prog_name="kvorum")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000006-0000000003.checkpoint"
    path.write_bytes(snapshot_of_first())
    return path


def test_kafkas_script_takes_one_command_or_lines(snapshot: Path) -> None:
    one = run("kafka-metadata-shell", "-s", str(snapshot), "cat", "/image/topics/byName/orders/0/leader")
    assert (one.exit_code, one.stdout) == (Exit.DONE, "2\n")
    many = run("kafka-metadata-shell.sh", "--snapshot", str(snapshot), given="cd image/topics\nls\nexit\npwd\n")
    assert many.stdout.splitlines() == ["Loading...", "Starting...", "byId", "byName"]
    assert run("kafka-metadata-shell", "ls").exit_code == Exit.FAILED, "as Kafka's, it needs a snapshot"


def test_a_segment_or_a_folder_will_do_and_other_files_will_not(tmp_path: Path, snapshot: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(b"".join(data for _, data in encoded(0)))
    words = ("cat", "/image/topics/byName/orders/id")
    whole = run("kafka-metadata-shell", "-s", str(segment), *words)
    assert whole.exit_code == Exit.DONE and whole.stdout.strip()
    snapshot.unlink()
    assert run("kafka-metadata-shell", "-s", str(tmp_path), *words).stdout == whole.stdout
    other = tmp_path / "notes.txt"
    other.touch()
    refused = run("kafka-metadata-shell", "-s", str(other), "ls")
    assert (refused.exit_code, refused.stderr.count("\n")) == (Exit.FAILED, 1), refused.stderr
    other = tmp_path / "00000000000000000007-0000000003.checkpoint"
    other.write_bytes(b"x" * 100)
    damaged = run("kafka-metadata-shell", "-s", str(other), "ls")
    assert damaged.exit_code == Exit.FAILED and damaged.stderr.startswith("Error: ")


def test_the_shell_walks_at_an_offset_and_programs_read_lists(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"".join(data for _, data in encoded(0)))
    where = ("--dir", str(tmp_path))
    typed = "cat /image/topics/byName/orders/0/leader\n"
    assert run("metadata", "shell", *where, "--at", "4", given=typed).stdout == "1\n"
    assert run("metadata", "shell", *where, given=typed).stdout == "2\n"
    rows = json.loads(run("metadata", "ls", "/local", *where, "-o", "json").stdout)
    assert rows == [{"path": "/local/epoch", "folder": False}, {"path": "/local/offset", "folder": False}]
    assert json.loads(run("metadata", "cat", "/local/offset", *where, "-o", "json").stdout) == {"/local/offset": "13"}
    found = json.loads(run("metadata", "find", "/local", *where, "-o", "json").stdout)
    assert found == ["/local", "/local/epoch", "/local/offset"]


def test_at_a_terminal_it_prompts_and_outlives_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvorum.cli.metadata import session as metadata_session

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    typed = iter(["pwd", KeyboardInterrupt, "cd local", "pwd", EOFError])

    def read(prompt: str) -> str:
        each = next(typed)
        if isinstance(each, str):
            return each
        raise each

    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", out)
    metadata_session.hold(ROOT)
    assert out.getvalue().splitlines() == ["/", "^C", "/local"]
