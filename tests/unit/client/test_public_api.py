"""What `kvorum.client` exports, and its errors."""

import subprocess
import sys

import pytest

import kvorum.client as api
from kvorum.client import KafkaError, KafkaException, Unreachable
from kvorum.protocol.errors import ErrorCode


def test_every_public_name_is_importable() -> None:
    assert {"Cluster", "SyncCluster", "KafkaError", "TopicPartition"} < set(api.__all__)
    assert all(getattr(api, name) is not None for name in api.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Clusters'"):
        getattr(api, "Clusters")  # noqa: B009  # for the type checker


def test_the_package_alone_imports_none_of_its_modules() -> None:
    code = "import sys, kvorum.client; print(*(name for name in sys.modules if name.startswith('kvorum.')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["kvorum.client"]


def test_errors_have_one_root_and_kafkas_code() -> None:
    assert not issubclass(Unreachable, KafkaError)
    assert Unreachable("down").code is ErrorCode.NETWORK_EXCEPTION
    for each in (Unreachable("down"), KafkaError(ErrorCode.NONE), api.MetadataProblem("damaged")):
        assert isinstance(each, KafkaException) and isinstance(each.code, ErrorCode)
