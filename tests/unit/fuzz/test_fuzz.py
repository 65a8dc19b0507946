"""The fuzzer tries RUNS inputs with the tests, and goes on for two minutes where KVORUM_FUZZ_SECONDS=120 says so."""

import os
from collections import Counter
from collections.abc import Callable
from typing import NoReturn

import pytest

from tests.unit.fuzz import fuzz_wire

SECONDS = float(os.environ.get("KVORUM_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("KVORUM_FUZZ_SEED", "1"))
OUTCOMES_MIN = {"request": 300, "response": 300, "connection": 6, "validator": 10, "replicated": 4}
"""Distinct outcomes of the corpus and RUNS inputs; below this the fuzzer does not reach what it is for."""


def test_no_input_breaks_a_promise() -> None:
    fuzzer = fuzz_wire.fuzz(fuzz_wire.RUNS, SEED, seconds=SECONDS)
    assert all(len(fuzzer.outcomes[name]) >= count for name, count in OUTCOMES_MIN.items()), {
        name: len(known) for name, known in fuzzer.outcomes.items()
    }


def test_the_corpus_has_inputs_of_every_target() -> None:
    kept = Counter(name for name, _ in fuzz_wire.corpus())
    assert all(kept[name] >= 3 for name in OUTCOMES_MIN), kept


def index_error() -> object:
    raise IndexError("index out of range")


@pytest.mark.parametrize(
    ("fault", "finding"), [(index_error, "IndexError"), (lambda: bytearray(3 << 30), "MemoryError")]
)
def test_the_fuzzer_finds_a_decoder_that_raises_something_else_or_reserves_much(
    fault: Callable[[], object], finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault is seeded: it shows in bodies of less than three bytes."""

    def faulty(api_key: int, version: int, buffer: memoryview) -> object:
        return fault() if len(buffer) < 3 else original(api_key, version, buffer)

    original = fuzz_wire.targets.decode_request
    monkeypatch.setattr(fuzz_wire.targets, "decode_request", faulty)
    with pytest.raises(fuzz_wire.Broken, match=finding):
        fuzz_wire.fuzz(fuzz_wire.RUNS, SEED)


def test_the_fuzzer_finds_a_handler_whose_exception_becomes_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(ctx: object, request: object) -> NoReturn:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(fuzz_wire.targets, "empty_response", fail)
    with pytest.raises(fuzz_wire.Broken, match="KeyError"):
        fuzz_wire.fuzz(fuzz_wire.RUNS, SEED)
