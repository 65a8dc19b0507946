"""`kvorum dev --secure`: its files, and what a second start keeps, renews or refuses."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvorum.cli.local.secure import DevSecurity
from kvorum.cli.main import main
from kvorum.cluster.local.plan import ClusterError
from kvorum.quorum.records import UserScramCredential
from kvorum.runtime.cluster_file import ClusterSpec, dev_cluster
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.runtime.properties import parse_properties
from kvorum.security.certificate_folder import CertificateFolder, read_certificates
from kvorum.security.client_files import client_files
from kvorum.security.client_properties import client_settings
from kvorum.security.config_checks import check_security
from kvorum.security.outgoing import login_user
from kvorum.security.settings import own_listeners


def cluster_of(security: DevSecurity, place: Path) -> ClusterSpec:
    return dev_cluster(3, 0, str(place), security.overrides(), broker_listeners=security.listeners)


def serials(folder: Path) -> dict[str, int]:
    return {path.stem: each.serial_number for path, each in read_certificates(sorted(folder.glob("*.pem")))}


def test_every_listener_is_encrypted_and_authenticates(tmp_path: Path) -> None:
    security = DevSecurity(str(tmp_path), 3)
    security.prepare()
    for node in cluster_of(security, tmp_path).nodes:
        assert check_security(node.settings) == []
        protocols = {each.listener: (each.protocol, each.client_auth) for each in own_listeners(node.settings)}
        assert protocols == {
            "SASL_SSL": (SecurityProtocol.SASL_SSL, "none"),
            "INTERNAL": (SecurityProtocol.SSL, "required"),
            "CONTROLLER": (SecurityProtocol.SSL, "required"),
        }


def test_a_second_start_keeps_certificates_and_password(tmp_path: Path) -> None:
    security = DevSecurity(str(tmp_path), 3)
    (user,) = security.prepare()
    assert isinstance(user, UserScramCredential) and user.name == "dev"
    security.write_client_files("127.0.0.1:1")
    before = {path: path.read_bytes() for path in (tmp_path / "security").iterdir()}
    again = DevSecurity(str(tmp_path), 3)
    again.prepare()
    again.write_client_files("127.0.0.1:1")
    assert {path: path.read_bytes() for path in (tmp_path / "security").iterdir()} == before
    assert {path.stat().st_mode & 0o777 for path in before} == {0o600}


def test_a_certificate_that_expires_soon_is_renewed(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path / "security")
    security = DevSecurity(str(tmp_path), 2)
    security.prepare()
    before = serials(folder.folder)
    folder.rotate("node-2", timedelta(days=20))
    soon = serials(folder.folder)["node-2"]
    security.prepare()
    after = serials(folder.folder)
    assert after["node-2"] not in (soon, before["node-2"])
    assert after == before | {"node-2": after["node-2"]}


def test_a_start_that_was_interrupted_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "ca.pem").write_text("half")
    DevSecurity(str(tmp_path), 1).prepare()
    assert "node-1" in serials(tmp_path / "security")


def test_a_cluster_without_security_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(ClusterError, match="made without --secure; choose another --dir"):
        DevSecurity(str(tmp_path), 1).prepare()
    assert not (tmp_path / "security").exists()


def dev(folder: Path) -> Result:
    return CliRunner().invoke(main, ["dev", "--secure", "--port", "0", "--admin-port", "0", "--dir", str(folder)])


def test_a_folder_of_others_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    done = dev(tmp_path)
    assert done.exit_code != 0 and "it has letters" in done.stderr, done.output
    assert not (tmp_path / "security").exists()


def test_the_files_of_clients_have_the_settings_under_their_names() -> None:
    texts = client_files("a:1,b:2", "dev", "secret", "/x/ca.pem")
    for name, mechanism in (("java.properties", "sasl.mechanism"), ("librdkafka.properties", "sasl.mechanisms")):
        found = {each.key: each.text for each in parse_properties(texts[name])}
        assert (found["bootstrap.servers"], found[mechanism]) == ("a:1,b:2", "SCRAM-SHA-512")
        assert "/x/ca.pem" in found.values()
    java = {each.key: each.text for each in parse_properties(texts["java.properties"])}
    client = client_settings({key: text for key, text in java.items() if "truststore" not in key})
    assert login_user(client.settings, client.mechanism) == ("dev", "secret")
    assert json.loads(texts["spark.json"]) == {f"kafka.{key}": text for key, text in java.items()}
    python = json.loads(texts["kafka-python.json"])
    assert (python["bootstrap_servers"], python["sasl_plain_password"]) == (["a:1", "b:2"], "secret")
