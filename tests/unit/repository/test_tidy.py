"""The shape of the source tree: who may import whom, what stays sans-IO, which seams hold, what is packaged."""

import ast
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
PACKAGE = "kvorum"
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600  # A limit for accidents; cut a module at a joint, not at a line count.
TRANSLATOR_LINES_MAX = 150
TRANSLATORS = ("admin/v3/", "cli/kafka/")  # other interfaces to the same client: more lines are a second client

# A room may import itself and what is named here. Think hard about the layering before you add one.
READING_SIDE = {"quorum.image", "quorum.loader", "quorum.publisher", "quorum.controller_channel", "quorum.records"}
READING_SIDE |= {"quorum.configs", "quorum.credentials", "quorum.forwarder", "quorum.token_hmacs"}
# What the metadata log means, for whoever reads it over the wire.
METADATA_FORMAT = {"quorum.batches", "quorum.image", "quorum.records", "quorum.snapshots", "quorum.steps"}
METADATA_FORMAT |= {"quorum.raft.log.SnapshotId"}
# What the records of __consumer_offsets and __transaction_state mean, for whoever reads them.
COORDINATOR_FORMAT = {"broker.coordinator.records", "broker.coordinator.runtime.words.CoordinatorRecord"}
BASE = {"runtime", "protocol", "security", "network"}
MAY_IMPORT: dict[str, set[str]] = {
    "runtime": set(),
    "protocol": {"runtime"},
    "security": {"runtime", "protocol"},
    "network": {"runtime", "protocol", "security"},
    "storage": {"runtime", "protocol"},
    "quorum": BASE | {"storage"},
    "broker": {"runtime", "protocol", "security", "network", "storage"}
    | READING_SIDE,  # never what decides or replicates
    # Speaks to the cluster over the wire, as anyone; what it proposes is placed by the controller's own rule.
    "client": {"runtime", "protocol", "security", "network", "quorum.controller.placement"}
    | METADATA_FORMAT
    | COORDINATOR_FORMAT,
    "admin": BASE | {"client", "quorum.image.cluster"},
    "cluster": BASE | {"storage", "quorum", "broker", "client", "admin"},
    "chaos": {
        "runtime",
        "protocol",
        "security",
        "network",
        "storage",
        "quorum",
        "broker",
        "client",
        "admin",
        "cluster",
    },
    "sim": {
        *("runtime", "protocol", "security", "network", "storage", "quorum", "broker"),
        *("client", "admin", "cluster", "chaos", "cli"),
    },
    "pipelines": {"runtime", "security"},  # the names of security settings; else Kafka clients and Spark
    "cli": {
        *("runtime", "protocol", "security", "network", "storage", "quorum", "broker"),
        *("client", "admin", "cluster", "chaos", "pipelines"),
    },
}

# Parts of a room with a lower layer: what they may import of their own room besides themselves.
MAY_IMPORT_OF_ROOM: dict[str, set[str]] = {
    "admin.http": set(),
    "admin.v1": {"admin.http"},
    "admin.v3": {"admin.http", "admin.v1"},
}

# Runs from the checkout alone; imported by its own name.
CHECKOUT_ROOMS = {"sim"}

# Folders without code that an installed Kvorum needs too: {package: folder}.
DATA_FOLDERS = {
    "kvorum.configs": "configs",
    "kvorum.configs.chaos": "configs/chaos",
    "kvorum.configs.pipelines": "configs/pipelines",
    "kvorum.admin.console": "admin/console",
}
NOT_SHIPPED = {"configs/deploy", "configs/grafana", "configs/prometheus"}

# These decide. Time, chance, files and sockets come in as arguments and go out as return values.
SANS_IO = (
    "protocol/",
    "security/principal.py",
    "security/credentials.py",
    "security/jaas.py",
    "security/sasl/authenticator.py",
    "security/sasl/plain.py",
    "security/sasl/scram.py",
    "network/frame.py",
    "network/ip_rates.py",
    "network/quota_entities.py",
    "network/quota_rate.py",
    "network/quotas.py",
    "runtime/timers.py",
    "storage/validator.py",
    "storage/producer_state.py",
    "storage/epoch_cache.py",
    "quorum/records.py",
    "quorum/configs/",
    "quorum/image/",
    "quorum/controller/",
    "quorum/raft/guard.py",
    "broker/replica/partition.py",
    "broker/replica/health.py",
    "broker/replica/isr.py",
    "broker/replica/low_watermark.py",
    "broker/replica/follower.py",
    "broker/replica/purgatory.py",
    "broker/replica/replication_quota.py",
    "broker/fetch_session.py",
    "broker/metadata/suspicion.py",
    "chaos/checker/",
    "client/metadata_log/config_diff.py",
    "client/records/expression.py",
    "client/groups/members.py",
    "client/records/internal_records.py",
    "admin/v1/jobs/job_answers.py",
    "client/metadata_log/metadata_events.py",
    "client/groups/offset_csv.py",
    "client/groups/offset_reset.py",
    "admin/http/paging.py",
    "client/metadata_log/partition_history.py",
    "client/reassignments/proposals.py",
    "client/records/record_filter.py",
    "client/records/record_views.py",
    "client/analysis/replica_check.py",
    "client/reassignments/replica_count.py",
    "client/records/serdes.py",
    "client/analysis/sketches.py",
    "client/analysis/topic_analysis.py",
    "admin/v1/topics/topic_document.py",
    "admin/v3/json_stream.py",
    "client/records/visible_records.py",
    "admin/http/yaml_texts.py",
    "pipelines/cdc/events.py",
    "pipelines/cdc/pgoutput.py",
    "pipelines/cdc/values.py",
    "pipelines/sources/file_lines.py",
)
IO_MODULES = {"aiohttp", "asyncio", "concurrent", "datetime", "multiprocessing", "os", "pathlib", "pysyncobj", "random"}
IO_MODULES |= {"secrets", "select", "shutil", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "uuid"}

# The seams: what the simulator replaces is reached through runtime (Disk, Clock, chance) and the running loop only.
SEAM_MODULES = {"os", "time", "datetime", "random", "secrets", "uuid", "tempfile", "shutil", "threading", "socket"}
SEAM_ROOMS = ("protocol", "network", "storage", "quorum", "broker")
SEAM_CALLS = {"open", "input"}
SEAM_EXCEPTIONS = {
    # random.Random as a type (and the seeded generator that is handed in) is no chance of the module's own.
    "random": {"Random"},
}

FILES = sorted(path for room in MAY_IMPORT for path in (ROOT / room).rglob("*.py"))
GENERATED = ("protocol/messages/", "client/sync.py")
WRITTEN = [path for path in FILES if not any(each in path.as_posix() for each in GENERATED)]
MEASURED = [*WRITTEN, *sorted(path for room in ("bench", "tools") for path in (ROOT / room).rglob("*.py"))]


@cache
def tree_of(path: Path) -> ast.Module:
    """Return a file's syntax tree, parsed once for all tests."""
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> set[str]:
    """Return the absolute dotted names that a file imports."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_imports_follow_the_dependency_rule() -> None:
    wrong = []
    for path in FILES:
        room = path.relative_to(ROOT).parts[0]
        allowed = MAY_IMPORT[room] | {room}
        for name in imports(path):
            if name.startswith(f"{PACKAGE}.") or name.partition(".")[0] in CHECKOUT_ROOMS:
                target = name.removeprefix(f"{PACKAGE}.")
                if not any(target == a or target.startswith(f"{a}.") for a in allowed):
                    wrong.append(f"{relative(path)} imports {name}")
            elif name.partition(".")[0] in MAY_IMPORT:
                wrong.append(f"{relative(path)}: write {PACKAGE}.{name}")
    assert not wrong


@pytest.mark.parametrize(("part", "allowed"), MAY_IMPORT_OF_ROOM.items())
def test_parts_of_a_room_follow_their_layers(part: str, allowed: set[str]) -> None:
    room = part.partition(".")[0]
    files = [path for path in FILES if relative(path).startswith(f"{part.replace('.', '/')}/")]
    targets = {(relative(path), name.removeprefix(f"{PACKAGE}.")) for path in files for name in imports(path)}
    within = {(path, target) for path, target in targets if target.startswith(f"{room}.")}
    assert within and not [
        each for each in within if not any(f"{each[1]}.".startswith(f"{name}.") for name in (part, *allowed))
    ]


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions count, those for type checkers alone do not."""
    modules = {name_of(path): path for path in FILES}
    graph = {name: imported_modules(path, modules) - {name} for name, path in modules.items()}
    while leaves := {name for name, found in graph.items() if not found & graph.keys()}:
        graph = {name: found for name, found in graph.items() if name not in leaves}
    assert not sorted(graph), "these import one another, or such modules"


def name_of(path: Path) -> str:
    """Return a module's name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return dotted if parts[0] in CHECKOUT_ROOMS else f"{PACKAGE}.{dotted}"


def imported_modules(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules among these that a file imports when it runs."""
    blocks = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    for_types = {id(each) for node in blocks if node.test.id == "TYPE_CHECKING" for each in ast.walk(node)}
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and id(node) not in for_types:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in modules else str(node.module))
    return found & modules.keys()


def test_sans_io_modules_import_no_io() -> None:
    decided = [path for path in FILES if relative(path).startswith(SANS_IO)]
    used = {
        (relative(path), name) for path in decided for name in imports(path) if name.partition(".")[0] in IO_MODULES
    }
    assert decided and not {each for each in used if each[1] != "random.Random"}


def test_files_time_and_randomness_are_injected() -> None:
    wrong = []
    for path in WRITTEN:
        if path.relative_to(ROOT).parts[0] not in SEAM_ROOMS:
            continue
        for name in imports(path):
            module, _, rest = name.partition(".")
            if module in SEAM_MODULES and rest not in SEAM_EXCEPTIONS.get(module, set()):
                wrong.append(f"{relative(path)} imports {name}: use kvorum.runtime")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SEAM_CALLS:
                wrong.append(f"{relative(path)}:{node.lineno} calls {node.func.id}() outside runtime")
    assert not wrong


def test_functions_fit_on_a_screen() -> None:
    assert not [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in MEASURED
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX
    ]


def test_modules_hold_one_idea() -> None:
    assert not [relative(path) for path in MEASURED if len(path.read_text().splitlines()) > MODULE_LINES_MAX]


def test_translators_are_thin() -> None:
    sizes = {relative(path): len(path.read_text().splitlines()) for path in FILES}
    assert not [name for name, size in sizes.items() if name.startswith(TRANSLATORS) and size >= TRANSLATOR_LINES_MAX]


def test_modules_have_docstrings() -> None:
    assert not [relative(path) for path in FILES if not ast.get_docstring(tree_of(path))]


def test_every_package_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    on_disk = {
        ".".join((PACKAGE, *path.parent.relative_to(ROOT).parts))
        for path in FILES
        if path.name == "__init__.py" and path.relative_to(ROOT).parts[0] not in CHECKOUT_ROOMS
    }
    assert set(project["tool"]["setuptools"]["packages"]) == on_disk | set(DATA_FOLDERS)


def test_stubs_are_packaged() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    stubs = [path for room in MAY_IMPORT for path in (ROOT / room).rglob("*.pyi")]
    assert stubs
    for path in stubs:
        package = ".".join((PACKAGE, *path.parent.relative_to(ROOT).parts))
        assert any(path.match(pattern) for pattern in patterns[package]), relative(path)


@pytest.mark.parametrize(("package", "folder"), DATA_FOLDERS.items())
def test_shipped_files_are_packaged_where_they_are_looked_for(package: str, folder: str) -> None:
    """Code finds them from its own place upwards: the same in a checkout and in an installed wheel."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert setuptools["package-dir"][package] == folder and package == f"{PACKAGE}.{folder.replace('/', '.')}"
    files = [path for path in (ROOT / folder).iterdir() if path.is_file()]
    folders = {str(path.relative_to(ROOT)) for path in (ROOT / folder).iterdir() if path.is_dir()}
    patterns = setuptools["package-data"][package]
    assert files and folders <= {*DATA_FOLDERS.values(), *NOT_SHIPPED}
    assert not [path for path in files if not any(path.match(pattern) for pattern in patterns)]


def test_every_folder_with_code_is_a_package() -> None:
    assert {path.parent for path in FILES} == {path.parent for path in FILES if path.name == "__init__.py"}
