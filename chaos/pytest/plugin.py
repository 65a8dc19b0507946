"""The pytest plugin: clusters of real processes as fixtures, with fault injection.

    def test_survives(kvorum_cluster):
        kvorum_cluster.kill(kvorum_cluster.leader_of("orders", 0))
        ...

    @pytest.mark.kvorum(brokers=5, configs={"min.insync.replicas": "2"}, links=True)
    def test_another(kvorum_cluster): ...

    kvorum_cluster             a cluster for this test
    kvorum_session_cluster     one for the whole run, repaired after each test that used it
    kvorum_cluster_factory     creates clusters for a test or a fixture; they end with the run

    pytest --kvorum-export KAFKA_SERVERS      starts kvorum_session_cluster before any conftest.py or test module is
                                              imported, with its address in that environment variable

Every process ends with its fixture, and with pytest's own process. No module of Kvorum is imported until a test uses a
cluster. See docs/testing-your-application.md.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kvorum.chaos.pytest.cluster import KvorumCluster

Factory = Callable[..., "KvorumCluster"]
OPTIONS: Final[Mapping[str, "type | UnionType"]] = {
    "brokers": int,
    "controllers": int | None,
    "configs": dict | None,
    "node_configs": dict | None,
    "links": bool,
    "secure": bool,
}
WORDS: Final = {
    "brokers": "a number",
    "controllers": "a number, or None",
    "configs": "{key: value}",
    "node_configs": "{node: {key: value}}",
    "links": "True or False",
    "secure": "True or False",
}
FIXTURES: Final = ("kvorum_cluster", "kvorum_session_cluster")
BROKERS: Final = 3
NO_TESTS: Final = ("help", "version", "markers", "showfixtures", "show_fixtures_per_test")
"""Options of a pytest that prints something and runs no test."""
EXPORTED: Final = pytest.StashKey["KvorumCluster"]()
"""The session's cluster, where it was started before the tests were imported."""
MARKER: Final = (
    "kvorum(brokers=3, controllers=None, configs={}, node_configs={}, links=False, secure=False): options of"
    " kvorum_cluster"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line; a marker overrides them."""
    group = parser.getgroup("kvorum", "Kafka clusters for tests (Kvorum)")
    group.addoption(
        "--kvorum-brokers", type=int, default=BROKERS, metavar="N", help=f"brokers of a cluster (default: {BROKERS})"
    )
    group.addoption(
        "--kvorum-config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Kafka config for all nodes of every cluster; repeatable",
    )
    group.addoption(
        "--kvorum-links",
        action="store_true",
        help="add a proxy to every link of every cluster, for cut, slow and isolate (needs Toxiproxy)",
    )
    group.addoption(
        "--kvorum-secure",
        action="store_true",
        help="TLS and SCRAM in every cluster; clients need its client_settings",
    )
    group.addoption(
        "--kvorum-export",
        metavar="NAME",
        help="start kvorum_session_cluster before the tests are imported, with its bootstrap address in the environment"
        " variable NAME",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start the session's cluster for an application that reads its address when it is imported."""
    options = early_config.known_args_namespace
    name = options.kvorum_export
    if name is None or any(getattr(options, each, False) for each in NO_TESTS) or runs_tests_elsewhere(options):
        return
    if not name or "=" in name:
        raise pytest.UsageError(f"--kvorum-export {name!r} is not a valid name of an environment variable")
    from kvorum.chaos.pytest.cluster import KvorumCluster

    folder = tempfile.TemporaryDirectory(prefix="kvorum-pytest-", ignore_cleanup_errors=True)
    early_config.add_cleanup(folder.cleanup)
    cluster = KvorumCluster.start_in(folder.name, **cluster_options(options, {}))
    early_config.add_cleanup(cluster.close)
    before = os.environ.get(name)
    early_config.add_cleanup(lambda: restore(name, before))
    os.environ[name] = cluster.bootstrap
    early_config.stash[EXPORTED] = cluster


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(scope="session")
def kvorum_cluster_factory(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Factory]:
    """Create clusters: call it with the marker's arguments. Each has a `close`; the others end with the run."""
    from kvorum.chaos.pytest.cluster import KvorumCluster

    made: list[KvorumCluster] = []

    def make(**options: object) -> KvorumCluster:
        check_options(options)
        wanted = cluster_options(pytestconfig.option, options)
        cluster = KvorumCluster.start_in(str(tmp_path_factory.mktemp("kvorum")), **wanted)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def kvorum_cluster(request: pytest.FixtureRequest, kvorum_cluster_factory: Factory) -> Iterator["KvorumCluster"]:
    """Start a cluster for one test, according to its marker."""
    marker = request.node.get_closest_marker("kvorum")
    if marker is not None and marker.args:
        raise pytest.UsageError("@pytest.mark.kvorum takes keyword arguments only, such as brokers=3")
    cluster = kvorum_cluster_factory(**({} if marker is None else marker.kwargs))
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def kvorum_session_cluster(request: pytest.FixtureRequest) -> "KvorumCluster":
    """Start one cluster for the whole run, according to the command line. After each test it is restored."""
    exported = request.config.stash.get(EXPORTED, None)
    if exported is not None:
        return exported
    made: KvorumCluster = request.getfixturevalue("kvorum_cluster_factory")()
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End a test's changes to a shared cluster."""
    cluster = getattr(item, "funcargs", {}).get("kvorum_session_cluster")
    if cluster is not None and cluster.is_touched:
        cluster.recover()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the faults of its cluster and the paths of the logs to a failure."""
    report = yield
    if report.failed and report.when == "call":
        found = {name: each for name in FIXTURES if (each := getattr(item, "funcargs", {}).get(name)) is not None}
        for name, cluster in found.items():
            if hasattr(cluster, "story"):  # a project may have its own fixture of that name
                report.sections.append((f"{name}: faults and changes", cluster.story()))
    return report


def cluster_options(given: argparse.Namespace, own: Mapping[str, object]) -> dict[str, Any]:
    """Return a cluster's options: those of the command line, its own in their place."""
    found = {"brokers": given.kvorum_brokers, "links": given.kvorum_links, "secure": given.kvorum_secure, **own}
    configs = own.get("configs") or {}
    assert isinstance(configs, dict), "it was checked"
    return found | {"configs": {**dict(configs_of(given.kvorum_config)), **configs}}


def runs_tests_elsewhere(options: argparse.Namespace) -> bool:
    """Return whether pytest-xdist's workers run the tests of this process: each worker has its own cluster."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    distributes = getattr(options, "numprocesses", None) or getattr(options, "tx", None)
    return not is_worker and bool(distributes)


def restore(name: str, before: str | None) -> None:
    """Restore the value of an environment variable."""
    if before is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = before


def check_options(options: Mapping[str, object]) -> None:
    """Raise pytest.UsageError for an option that there is not, or that is of the wrong kind."""
    for name, value in options.items():
        kind = OPTIONS.get(name)
        if kind is None:
            raise pytest.UsageError(f"@pytest.mark.kvorum has no option {name!r}; its options: {', '.join(OPTIONS)}")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise pytest.UsageError(f"@pytest.mark.kvorum: {name} must be {WORDS[name]}, not {value!r}")


def configs_of(texts: list[str]) -> Iterator[tuple[str, str]]:
    """Read KEY=VALUE. Raises pytest.UsageError."""
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise pytest.UsageError(f"--kvorum-config {text} is not of the form KEY=VALUE")
        yield key.strip(), value.strip()
