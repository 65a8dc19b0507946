"""References in configurations: the three config providers of Kafka, and their errors."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from kvorum.runtime.cluster_file import load_cluster
from kvorum.runtime.config import ConfigError
from kvorum.runtime.config_files import load_node
from kvorum.runtime.config_providers import ProviderError, configured_providers, replace_references

PACKAGE = "org.apache.kafka.common.config.provider."
ENVIRONMENT = {"PASSWORD": "of the environment", "OTHER": "o"}
KEY = "listener.name.client.plain.sasl.jaas.config"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secrets.properties").write_text("a=1\npassword=of the file\n")
    (tmp_path / "password").write_text("of the folder\n")
    return tmp_path


def texts_of(**parameters: str) -> dict[str, str]:
    """Return the configuration of all three providers, with parameters by name of the provider."""
    classes = {"file": "File", "dir": "Directory", "env": "EnvVar"}
    texts = {"config.providers": "file, dir,env"}
    texts |= {f"config.providers.{name}.class": f"{PACKAGE}{each}ConfigProvider" for name, each in classes.items()}
    names = {"file": "allowed.paths", "dir": "allowed.paths", "env": "allowlist.pattern"}
    return texts | {f"config.providers.{name}.param.{names[name]}": text for name, text in parameters.items()}


def replaced(text: str, texts: Mapping[str, str]) -> str:
    return replace_references(text, configured_providers(texts, ENVIRONMENT))


def test_references_are_replaced_within_a_value(folder: Path) -> None:
    texts = texts_of()
    assert replaced(f"a ${{file:{folder}/secrets.properties:password}}!", texts) == "a of the file!"
    assert replaced(f"${{dir:{folder}:password}}", texts) == "of the folder"
    assert replaced("${env:PASSWORD} and ${env:OTHER}", texts) == "of the environment and o"


@pytest.mark.parametrize("text", ["$1", "${PASSWORD}", "${vault:a:b}", "${env}", "$${", "RULE:^CN=(.*)$/${1}/"])
def test_other_texts_stay(text: str) -> None:
    assert replaced(text, texts_of()) == text


def test_a_value_is_not_searched_for_references(folder: Path) -> None:
    (folder / "password").write_text("${env:PASSWORD}")
    assert replaced(f"${{dir:{folder}:password}}", texts_of()) == "${env:PASSWORD}"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${env:NONE}", "environment variable NONE is not set"),
        ("${env:path:PASSWORD}", "${NAME:VARIABLE}"),
        ("${file:FOLDER/secrets.properties:none}", "has no key none"),
        ("${file:FOLDER/none:a}", "none cannot be read: No such file"),
        ("${file:a}", "${NAME:PATH:KEY}"),
        ("${dir:FOLDER:none}", "none cannot be read: No such file"),
        ("${dir:FOLDER:..}", ".. is not the name of a file"),
        ("${dir:FOLDER/none:../password}", "is not the name of a file"),
        ("${dir:password}", "${NAME:PATH:FILE}"),
    ],
)
def test_a_reference_to_nothing_is_an_error(folder: Path, reference: str, reason: str) -> None:
    with pytest.raises(ProviderError) as caught:
        replaced(reference.replace("FOLDER", str(folder)), texts_of())
    assert reason in str(caught.value)


def test_a_large_file_is_refused(folder: Path) -> None:
    with (folder / "password").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ProviderError, match="larger than 1048576 bytes"):
        replaced(f"${{dir:{folder}:password}}", texts_of())


def test_paths_and_variables_can_be_restricted(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "password").write_text("inner")
    texts = texts_of(dir=f"{folder}/inner", file=f"{folder}/secrets.properties", env="PASS.*")
    assert replaced(f"${{dir:{folder}/inner:password}}", texts) == "inner"
    assert replaced(f"${{file:{folder}/secrets.properties:a}}", texts) == "1"
    assert replaced("${env:PASSWORD}", texts) == "of the environment"
    for reference, reason in (
        (f"${{dir:{folder}:password}}", "is not below one of allowed.paths"),
        (f"${{dir:{folder}/inner/..:password}}", "is not below one of allowed.paths"),
        (f"${{file:{folder}/secrets.properties2:a}}", "is not below one of allowed.paths"),
        ("${env:OTHER}", "does not match allowlist.pattern"),
    ):
        with pytest.raises(ProviderError, match=reason):
            replaced(reference, texts)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"config.providers.env.class": "org.example.Vault"}, "config.providers.env.class"),
        ({"config.providers.env.class": ""}, "config.providers.env.class"),
        ({"config.providers.env.param.allowlist.pattern": "("}, "config.providers.env.param.allowlist.pattern"),
        ({"config.providers.dir.param.allowed.paths": "relative"}, "config.providers.dir.param.allowed.paths"),
        ({"config.providers.dir.param.allowed.paths": "/no/such"}, "config.providers.dir.param.allowed.paths"),
    ],
)
def test_a_provider_that_cannot_work_is_named(changes: dict[str, str], key: str) -> None:
    with pytest.raises(ProviderError) as caught:
        configured_providers(texts_of() | changes, {})
    assert caught.value.key == key


NODE = """\
node.id=1
process.roles=broker,controller
listeners=CLIENT://127.0.0.1:19091,CONTROLLER://127.0.0.1:19191
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:19191
config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
listener.name.client.plain.sasl.jaas.config=x required user_a="${env:KVORUM_TEST_PASSWORD}";
"""


def test_a_node_reads_its_secrets_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "node.properties"
    path.write_text(NODE)
    monkeypatch.setenv("KVORUM_TEST_PASSWORD", "planted-secret")
    settings = load_node(str(path), environment={}).settings
    assert settings.str(KEY) == 'x required user_a="planted-secret";'
    assert "planted-secret" not in repr(settings)
    monkeypatch.delenv("KVORUM_TEST_PASSWORD")
    with pytest.raises(ConfigError, match=f"node.properties:10: {KEY}: environment variable KVORUM_TEST_PASSWORD"):
        load_node(str(path), environment={})
    assert "${env:" in load_node(str(path), environment={}, has_secrets=False).settings.str(KEY)


def test_a_reference_without_its_provider_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(NODE.replace("config.providers=env", "config.providers="))
    loaded = load_node(str(path), environment={})
    assert "${env:" in loaded.settings.str(KEY), "as in Kafka"
    assert any("but env is not one of config.providers" in warning for warning in loaded.warnings)


def test_the_plan_of_a_cluster_has_references_and_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "cluster: {name: c}\n"
        "defaults:\n"
        "  config.providers: env\n"
        f"  config.providers.env.class: {PACKAGE}EnvVarConfigProvider\n"
        f"  {KEY}: x required user_a='${{env:KVORUM_TEST_PASSWORD}}';\n"
        "nodes:\n"
        "  - {id: 1}\n"
    )
    monkeypatch.setenv("KVORUM_TEST_PASSWORD", "planted-secret")
    (node,) = load_cluster(str(path), str(tmp_path)).nodes
    assert "planted-secret" not in node.properties() and "${env:KVORUM_TEST_PASSWORD}" in node.properties()
    assert "planted-secret" in node.with_secrets().str(KEY)
