"""Users and delegation tokens on the command line, of our own and of Kafka's scripts; passwords are never printed."""

from datetime import datetime
from pathlib import Path

import pytest

from kvorum.cli.output import Exit
from kvorum.security.credentials import ScramMechanism
from kvorum.security.delegation_tokens import token_password
from kvorum.security.scram_keys import derive_credential
from tests.unit.cli.fake_cluster import FakeCluster, Printed, run
from tests.unit.client.credentials_kit import NOW_MS

PASSWORD = "hunter2-hunter2"
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def configs(cluster: FakeCluster, *words: str) -> Printed:
    return run(cluster, "kafka-configs", "--bootstrap-server", "broker:9092", *words)


def tokens(cluster: FakeCluster, *words: str) -> Printed:
    return run(cluster, "kafka-delegation-tokens", "--bootstrap-server", "broker:9092", *words)


def has_password(cluster: FakeCluster, user: str, mechanism: ScramMechanism, password: str = PASSWORD) -> bool:
    stored = cluster.credentials.image.scram.of(user)[mechanism]
    return stored == derive_credential(mechanism, password.encode(), stored.salt, stored.iterations)


def test_a_user_is_created_from_a_file_listed_and_deleted(cluster: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    words = ("users", "create", "ann", "--password-file", str(file))
    assert run(cluster, *words).out == "ann created\n"
    run(cluster, *words, "--mechanism", "SCRAM-SHA-256", "--iterations", "8192")
    assert has_password(cluster, "ann", SHA_256) and has_password(cluster, "ann", SHA_512)
    listed = run(cluster, "users", "list")
    assert "ann" in listed.out and "8192" in listed.out and PASSWORD not in listed.out
    assert run(cluster, "users", "delete", "ann", "--mechanism", "SCRAM-SHA-512").out == "ann deleted\n"
    assert cluster.credentials.users() == {"ann": [1]}
    assert run(cluster, "users", "delete", "ann").code == Exit.DONE
    assert run(cluster, "users", "delete", "ann").code == Exit.NOT_FOUND


def test_without_a_readable_password_no_user_is_created(cluster: FakeCluster, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for words, message in (
        ((), "standard input is not a terminal"),
        (("--password-file", str(empty)), "the password is empty"),
        (("--password-file", str(tmp_path / "none")), "No such file or directory"),
        (("--password-file", str(empty), "--iterations", "4095"), "4096"),
    ):
        printed = run(cluster, "users", "create", "ann", *words)
        assert printed.code != Exit.DONE and message in printed.err, printed.err
    assert cluster.credentials.users() == {}


def test_tokens_are_created_listed_renewed_and_deleted(cluster: FakeCluster) -> None:
    made = run(cluster, "tokens", "create", "--renewers", "User:bob", "--max-lifetime-ms", "5000", "-o", "json")
    assert made.code == Exit.DONE and '"hmac"' in made.out
    (token_id,) = cluster.credentials.tokens()
    listed = run(cluster, "tokens", "list", "-o", "json")
    assert token_id in listed.out and "hmac" not in listed.out
    renewed = run(cluster, "tokens", "renew", token_id, "--period-ms", "1000")
    assert str(NOW_MS + 1000) in renewed.out
    assert run(cluster, "tokens", "delete", token_id).out == f"{token_id} deleted\n"
    assert run(cluster, "tokens", "delete", token_id).code == Exit.NOT_FOUND


# Kafka's scripts


def test_kafka_configs_sets_describes_and_deletes_credentials(cluster: FakeCluster) -> None:
    user = ("--entity-type", "users", "--entity-name", "u")
    set_one = configs(cluster, "--alter", *user, "--add-config", f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD}]")
    assert set_one.out == "Completed updating config for user u.\n"
    configs(cluster, "--alter", "--user", "u", "--add-config", f"SCRAM-SHA-512=[password={PASSWORD}]")
    configs(cluster, "--alter", "--user", "v", "--add-config", "SCRAM-SHA-512=[iterations=-1,password=a=b]")
    assert has_password(cluster, "u", SHA_256) and has_password(cluster, "v", SHA_512, "a=b")
    line = (
        "SCRAM credential configs for user-principal 'u' are "
        "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    )
    assert configs(cluster, "--describe", *user).lines == [line]
    cluster.quotas[("user", "u"),] = {"producer_byte_rate": 1.0}
    everybody = configs(cluster, "--describe", "--entity-type", "users").lines
    assert everybody == [
        "Quota configs for user-principal 'u' are producer_byte_rate=1.0",
        line,
        "SCRAM credential configs for user-principal 'v' are SCRAM-SHA-512=iterations=4096",
    ]
    assert configs(cluster, "--describe", "--user", "nobody").lines == []
    assert configs(cluster, "--describe", "--user-defaults").lines == []
    gone = configs(cluster, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert gone.out == "Completed updating config for user u.\n"
    assert cluster.credentials.users() == {"u": [2], "v": [2]}
    again = configs(cluster, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert (again.code, "does not exist" in again.err) == (Exit.FAILED, True)


def test_kafka_configs_reads_credentials_of_a_file(cluster: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "user.properties"
    file.write_text(f"SCRAM-SHA-256=[iterations=4096,password={PASSWORD}]\nSCRAM-SHA-512=password={PASSWORD}\n")
    assert configs(cluster, "--alter", "--user", "u", "--add-config-file", str(file)).code == Exit.DONE
    assert has_password(cluster, "u", SHA_256) and has_password(cluster, "u", SHA_512)


QUOTA = ("--add-config", f"SCRAM-SHA-256=[password={PASSWORD}],producer_byte_rate=1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--user", "u", "--add-config", f"SCRAM-SHA-256=[iterations=100,password={PASSWORD}]"],
            "Iterations 100 is less than the minimum 4096 required for SCRAM-SHA-256",
        ),
        (
            ["--user", "u", "--add-config", f"SCRAM-SHA-256=[iterations=20000,password={PASSWORD}]"],
            "Too many iterations",
        ),
        (["--user", "u", "--add-config", f"SCRAM-SHA-256=[secret={PASSWORD}]"], "Invalid credential property"),
        (["--user", "u", "--add-config", f"SCRAM-SHA-256={PASSWORD}"], "Invalid credential property SCRAM_SHA_256"),
        (["--user", "u", "--add-config", "SCRAM-SHA-256=[password=]"], "Invalid credential property"),
        (
            ["--user-defaults", "--add-config", f"SCRAM-SHA-256=[password={PASSWORD}]"],
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials",
        ),
        (["--user", "u", *QUOTA], "Cannot alter both quota and SCRAM credential configs simultaneously for 'users'"),
        (["--client", "c", "--delete-config", "SCRAM-SHA-256"], "Only quota configs can be deleted for 'clients'"),
        (["--user", "u", "--client", "c", *QUOTA], "Only quota configs can be added for 'clients'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_kafka_configs_rejects_credentials_without_an_echo(
    cluster: FakeCluster, words: list[str], message: str
) -> None:
    printed = configs(cluster, "--alter", *words)
    assert (printed.code, message in printed.err) == (Exit.FAILED, True), printed.err
    assert PASSWORD not in printed.err + printed.out
    assert cluster.credentials.users() == {}


def date(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000).strftime("%Y-%m-%dT%H:%M")


def test_kafkas_script_manages_tokens_in_its_words(cluster: FakeCluster) -> None:
    made = tokens(cluster, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    (token_id,) = cluster.credentials.tokens()
    hmac = cluster.credentials.hmacs.of(token_id)
    password = token_password(hmac)
    title = (
        "TOKENID         HMAC                           OWNER           REQUESTER       RENEWERS                  "
        "ISSUEDATE       EXPIRYDATE      MAXDATE        "
    )
    row = (
        f"{token_id:15} {password} {'User:admin':15} {'User:admin':15} {'[User:bob]':25} {date(NOW_MS):15} "
        f"{date(NOW_MS + 86_400_000):15} {date(NOW_MS + 604_800_000):15}"
    )
    assert made.out.splitlines() == [
        "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1",
        f"Created delegation token with tokenId : {token_id}",
        *("", title, "", row),
    ]
    found = tokens(cluster, "--describe", "--owner-principal", "User:bob")
    assert found.out.splitlines() == [
        "Calling describe token operation for owners: [User:bob]",
        *("Total number of tokens : 1", title, "", row),
    ]
    assert tokens(cluster, "--describe").out.splitlines()[:2] == [
        "Calling describe token operation for current user.",
        "Total number of tokens : 0",
    ]
    renewed = tokens(cluster, "--renew", "--hmac", password, "--renew-time-period", "60000")
    assert renewed.out == (
        f"Calling renew token operation with hmac :{password} , renew-time-period :60000\n"
        f"Completed renew operation. New expiry date : {date(NOW_MS + 60_000)}"
    )
    expired = tokens(cluster, "--expire", "--hmac", password, "--expiry-time-period", "-1")
    assert expired.out == (
        f"Calling expire token operation with hmac :{password} , expire-time-period :-1\n"
        f"Completed expire operation. New expiry date : {date(NOW_MS)}"
    )
    assert cluster.credentials.tokens() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Command must include exactly one action: --create, --renew, --expire, --describe"),
        (["--create"], 'Missing required argument "[max-life-time-period]"'),
        (["--renew", "--hmac", "AA=="], 'Missing required argument "[renew-time-period]"'),
        (["--expire", "--expiry-time-period", "1"], 'Missing required argument "[hmac]"'),
        (["--describe", "--hmac", "AA=="], 'can\'t be used with option "[hmac]"'),
        (["--create", "--max-life-time-period", "1", "--renewer-principal", "bob"], "principalType:principalName"),
        (["--renew", "--hmac", "?", "--renew-time-period", "1"], "not valid base64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage_of_kafka_delegation_tokens_is_reported(
    cluster: FakeCluster, words: list[str], message: str
) -> None:
    printed = tokens(cluster, *words)
    assert (printed.code, message in printed.err) == (Exit.FAILED, True), printed.err


def test_an_unknown_token_is_reported_by_its_code(cluster: FakeCluster) -> None:
    printed = tokens(cluster, "--renew", "--hmac", "AA==", "--renew-time-period", "1")
    assert printed.code == Exit.FAILED and "DELEGATION_TOKEN_NOT_FOUND" in printed.err
