"""`kvorum certs`: files of a CA with their modes; nothing is overwritten; renewal in place."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvorum.cli.configs.shipped import ROOT
from kvorum.cli.main import main
from kvorum.security.certificate_folder import CertificateFolder, read_certificates


def certs(*words: str) -> Result:
    return CliRunner().invoke(main, ["certs", *words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert certs("init").exit_code == 0
    return tmp_path / "certificates"


def test_files_belong_to_their_owner_alone(folder: Path) -> None:
    assert certs("node", "node-1").exit_code == certs("client", "app").exit_code == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == dict.fromkeys(("ca.pem", "ca.key", "node-1.pem", "app.pem"), 0o600)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "PRIVATE KEY" not in (folder / "ca.pem").read_text()


def test_nothing_is_overwritten(folder: Path) -> None:
    certs("node", "node-1")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for words in (["init"], ["node", "node-1"], ["client", "node-1"], ["client", "ca"]):
        done = certs(*words)
        assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1, done.output
    (folder / "ca.key").unlink()
    assert "not overwritten" in certs("init").stderr
    del before[folder / "ca.key"]
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_rotate_renews_all_certificates_or_those_named(folder: Path) -> None:
    certs("node", "node-1", "--host", "kafka.example", "--days", "10")
    certs("client", "app", "--days", "10")
    serials = {path: read_certificates([path])[0][1].serial_number for path in folder.glob("*.pem")}
    assert certs("rotate", "app").exit_code == 0
    changed = {path.stem for path, serial in serials.items() if read_certificates([path])[0][1].serial_number != serial}
    assert changed == {"app"}
    done = certs("rotate")
    assert done.stdout.count("renewed") == 2 and "CN=node-1 for kafka.example" in done.stdout
    assert (folder / "node-1.pem").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["app.pem", "ca.key", "ca.pem", "node-1.pem"]


def test_show_lists_names_hosts_issuer_and_days(folder: Path) -> None:
    certs("node", "node-1", "--host", "10.0.0.1")
    certs("client", "app", "--days", "5")
    done = certs("show", "-o", "json")
    rows = {Path(row["file"]).name: row for row in json.loads(done.stdout)}
    assert list(rows) == ["ca.pem", "app.pem", "node-1.pem"]
    node = rows["node-1.pem"]
    assert (node["subject"], node["issuer"], node["hosts"]) == ("CN=node-1", "CN=Kvorum CA", ["10.0.0.1"])
    assert (rows["ca.pem"]["days_left"], node["days_left"], rows["app.pem"]["days_left"]) == (3649, 364, 4)
    assert "app.pem: CN=app expires on" in done.stderr and "node-1" not in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["node", "a", "--dir", "none"], "none has no CA (ca.key); make one with: kvorum certs init --dir none"),
        (["rotate", "missing"], "certificates/missing.pem cannot be read: No such file or directory"),
        (["rotate"], "certificates has no certificate of a node or client"),
        (["show", "--dir", "none"], "none has no certificate"),
        (["node", "a", "--host", "a:9092"], "'a:9092' is neither an IP address nor a host name"),
    ],
)
def test_an_error_is_one_line(folder: Path, words: list[str], reason: str) -> None:
    done = certs(*words)
    assert done.exit_code == 1 and reason in done.stderr and len(done.stderr.splitlines()) == 1, done.output


def test_a_file_of_another_ca_is_not_renewed(folder: Path, tmp_path: Path) -> None:
    certs("init", "--dir", "other")
    certs("node", "node-1", "--dir", "other")
    (tmp_path / "other" / "node-1.pem").rename(folder / "node-1.pem")
    before = (folder / "node-1.pem").read_bytes()
    assert "another CA" in certs("rotate").stderr
    assert (folder / "node-1.pem").read_bytes() == before
    assert CertificateFolder(folder).names() == ["node-1"]


def test_security_check_lists_findings_and_is_silent_about_the_example(folder: Path) -> None:
    for name in ("node-1", "node-2", "node-3"):
        certs("node", name)
    done = CliRunner().invoke(main, ["security", "check", "configs/secure-three-nodes.yaml"])
    assert (done.exit_code, done.stdout.splitlines()) == (0, [f"{ROOT}/configs/secure-three-nodes.yaml: no finding"])
    (folder / "node-2.pem").chmod(0o644)
    done = CliRunner().invoke(main, ["security", "check", "configs/secure-three-nodes.yaml", "-o", "json"])
    assert done.exit_code == 1
    assert [(row["kind"], row["node"]) for row in json.loads(done.stdout)] == [("readable", "node-2")]
    done = CliRunner().invoke(main, ["security", "check", "configs/single.yaml"])
    assert done.exit_code == 1 and "without authentication" in done.stdout
