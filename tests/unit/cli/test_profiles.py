"""Profiles: several clusters by name, which one counts, and what completion asks of it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.connection.profiles import (
    ProfileError,
    Profiles,
    choose_profile,
    load_profiles,
    profiles_file,
    save_profiles,
)
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from tests.unit.cli.fake_cluster import FakeCluster, Printed, in_place_of_the_network, run


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Profiles of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("KVORUM_BOOTSTRAP", "KVORUM_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def profile(*words: str) -> Printed:
    return run(FakeCluster(), "profile", *words)


def test_the_first_profile_is_the_default_and_another_can_be_chosen(home: Path) -> None:
    assert profile("list").out == "NAME  BOOTSTRAP  IN_USE\n"
    assert profile("add", "one", "-b", "one:1,two:2").out == "one: one:1,two:2 (in use)\n"
    assert profile("add", "two", "-b", "two:2", "-X", "sasl.username=x").out == "two: two:2\n"
    assert profile("use", "two").code == Exit.DONE
    rows = json.loads(profile("list", "-o", "json").out)
    assert [(row["name"], row["in_use"]) for row in rows] == [("one", False), ("two", True)]
    assert profile("remove", "two").code == Exit.DONE and load_profiles(profiles_file()).current is None
    assert profile("use", "two").code == Exit.NOT_FOUND
    assert profile("remove", "two").code == Exit.NOT_FOUND
    assert profile("add", "bad", "-b", "nonsense").code == Exit.USAGE
    assert (home / "kvorum" / "profiles.json").stat().st_mode & 0o777 == 0o600, "properties may hold passwords"


def test_the_more_specific_setting_counts() -> None:
    environment = {"XDG_CONFIG_HOME": str(profiles_file().parent.parent)}
    assert choose_profile(None, environment) is None
    for name in ("used", "named", "given"):
        profile("add", name, "-b", f"{name}:1")

    def bootstrap(given: str | None, **variables: str) -> str | None:
        found = choose_profile(given, environment | variables)
        return None if found is None else found.bootstrap

    assert bootstrap(None) == "used:1"
    assert bootstrap(None, KVORUM_PROFILE="named") == "named:1"
    assert bootstrap(None, KVORUM_PROFILE="named", KVORUM_BOOTSTRAP="x:1") is None
    assert bootstrap("given", KVORUM_PROFILE="named", KVORUM_BOOTSTRAP="x:1") == "given:1"
    with pytest.raises(ProfileError, match="profile 'nope' does not exist"):
        choose_profile("nope", environment)


def test_a_profile_may_precede_or_follow_the_command() -> None:
    profile("add", "one", "-b", "127.0.0.1:1")
    profile("add", "other", "-b", "127.0.0.1:2")
    for words in (["--profile", "other", "topics", "list"], ["topics", "list", "--profile", "other"]):
        result = CliRunner().invoke(main, words)
        assert (result.exit_code, "127.0.0.1:2" in result.stderr) == (Exit.UNREACHABLE, True)
    assert "127.0.0.1:1" in CliRunner().invoke(main, ["topics", "list"]).stderr
    assert CliRunner().invoke(main, ["topics", "list", "--profile", "nope"]).exit_code == Exit.USAGE


def test_a_profile_has_the_security_of_its_cluster_only(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.mechanism=PLAIN\nsecurity.protocol=SASL_SSL\n")
    profile("add", "safe", "-b", "127.0.0.1:1", "--command-config", str(file))
    result = CliRunner().invoke(main, ["topics", "list"])
    assert (result.exit_code, "sasl.jaas.config: is not set" in result.stderr) == (Exit.USAGE, True), result.stderr
    other = CliRunner().invoke(main, ["topics", "list", "-b", "127.0.0.1:2"])
    assert (other.exit_code, "127.0.0.1:2" in other.stderr) == (Exit.UNREACHABLE, True), "no other cluster's properties"


def test_a_secret_is_not_typed_but_referred_to() -> None:
    refused = profile("add", "safe", "-b", "127.0.0.1:1", "-X", "sasl.password=pa55word")
    assert refused.code == Exit.USAGE and "--command-config FILE" in refused.err and "pa55word" not in refused.err
    assert profile("add", "safe", "-b", "127.0.0.1:1", "-X", "sasl.password=${env:PASSWORD}").code == Exit.DONE
    assert "${env:PASSWORD}" in profile("show", "safe").out


def test_an_invalid_file_is_reported_and_kept(home: Path) -> None:
    file = profiles_file()
    save_profiles(file, Profiles())
    for text in ("{", "[]", '{"version": 2, "profiles": {}}', '{"version": 1, "profiles": {"a": {}}}'):
        file.write_text(text)
        printed = profile("list")
        assert (printed.code, str(file) in printed.err) == (Exit.FAILED, True)
        assert file.read_text() == text


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("topics describe or", "plain,orders\n"),
        ("topics describe ", "plain,orders\n"),
        ("consume __", "plain,__internal\n"),
        ("groups describe p", "plain,pay\n"),
        ("groups reset-offsets pay --topic o", "plain,orders\n"),
        ("kafka-consumer-groups --group ", "plain,pay\n"),
        ("kafka-top", "plain,kafka-topics\n"),
    ],
)
def test_the_shell_completes_names_of_topics_and_groups(typed: str, offered: str) -> None:
    from kvorum.protocol.messages.describe_groups import DescribedGroup

    cluster = FakeCluster(logs={("orders", 0): (0, 0, {}), ("__internal", 0): (0, 0, {})})
    cluster.groups["pay"] = DescribedGroup(group_id="pay", group_state="Empty", protocol_type="consumer")
    assert completed(cluster, typed) == offered


def test_without_a_cluster_completion_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVORUM_BOOTSTRAP", "127.0.0.1:1")
    assert completed(None, "topics describe o").strip() == ""


def completed(cluster: FakeCluster | None, typed: str) -> str:
    """Return what is offered behind `kvorum TYPED`."""
    given = {
        "_KVORUM_COMPLETE": "bash_complete",
        "COMP_WORDS": f"kvorum {typed}",
        "COMP_CWORD": str(len(typed.split(" "))),
    }
    if cluster is None:
        return CliRunner().invoke(main, [], prog_name="kvorum", env=given).output
    with in_place_of_the_network(cluster):
        return CliRunner().invoke(main, [], prog_name="kvorum", env=given).output
