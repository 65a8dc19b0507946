"""`kvorum chaos check`: the verdict as text and as JSON, the exit codes, what it says of a broken file."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.main import main

SOUND = [
    {"kind": "invoke", "t": 1, "op": 1, "process": 1, "f": "send", "value": [["send", "orders-0", 12]]},
    {"kind": "ok", "t": 2, "op": 1, "process": 1, "f": "send", "value": [["send", "orders-0", 12, 0]]},
    {"kind": "invoke", "t": 3, "op": 2, "process": 2, "f": "poll", "value": [["poll"]]},
    {"kind": "ok", "t": 4, "op": 2, "process": 2, "f": "poll", "value": [["poll", {"orders-0": [[0, 12]]}]]},
]
DUPLICATE = {"kind": "ok", "t": 5, "op": 3, "process": 3, "f": "poll", "value": [["poll", {"orders-0": [[7, 12]]}]]}


def history(path: Path, *events: object) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def test_a_sound_history(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["chaos", "check", history(tmp_path / "h.jsonl", *SOUND)])
    assert result.exit_code == 0, result.output
    assert "Verdict: no violation was found" in result.output
    assert "acknowledged  1" in result.output


def test_a_violation_is_reported_and_is_exit_code_1(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["chaos", "check", history(tmp_path / "h.jsonl", *SOUND, DUPLICATE)])
    assert result.exit_code == 1
    assert "VIOLATION duplicate in orders-0" in result.output
    assert "value 12 is at 2 offsets: 0, 7" in result.output
    assert "Verdict: 1 violation;" in result.output


def test_as_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["chaos", "check", history(tmp_path / "h.jsonl", *SOUND, DUPLICATE), "-o", "json"]
    )
    assert result.exit_code == 1
    verdict = json.loads(result.stdout)
    assert verdict["valid"] is False
    assert [violation["anomaly"] for violation in verdict["violations"]] == ["duplicate"]
    assert verdict["figures"]["operations"]["poll"] == {"ok": 2}


@pytest.mark.parametrize("text", ["nonsense\n", '{"kind":"ok","t":1}\n{}\n'])
def test_a_broken_file_is_named_and_is_exit_code_2(tmp_path: Path, text: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    result = CliRunner().invoke(main, ["chaos", "check", str(path)])
    assert result.exit_code == 2
    assert f"{path}: line 1" in result.stderr


def test_skipped_lines_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    history(path, *SOUND, {"kind": "weather", "t": 9})
    path.write_text(path.read_text() + '{"kind":"no')
    result = CliRunner().invoke(main, ["chaos", "check", str(path)])
    assert result.exit_code == 0
    assert "unknown kinds were ignored: weather (1)" in result.stderr
    assert "the last line is incomplete" in result.stderr


def test_a_command_with_a_slip_is_guessed() -> None:
    result = CliRunner().invoke(main, ["chaos", "chek"])
    assert result.exit_code == 2
    assert "Did you mean 'check'?" in result.output
