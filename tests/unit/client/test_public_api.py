"""What `kvorum.client` exports, and its errors."""

import kvorum.client as api
from kvorum.client import KafkaError, KafkaException, Unreachable
from kvorum.protocol.errors import ErrorCode


def test_every_public_name_is_importable() -> None:
    assert sorted(name for names in api.MODULES.values() for name in names) == sorted(api.__all__)
    assert all(getattr(api, name) is not None for name in api.__all__)


def test_errors_have_one_root_and_kafkas_code() -> None:
    assert not issubclass(Unreachable, KafkaError)
    assert Unreachable("down").code is ErrorCode.NETWORK_EXCEPTION
    for each in (Unreachable("down"), KafkaError(ErrorCode.NONE), api.MetadataProblem("damaged")):
        assert isinstance(each, KafkaException) and isinstance(each.code, ErrorCode)
