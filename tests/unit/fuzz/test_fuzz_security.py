"""Peers without credentials: the fuzzer of security tries RUNS inputs, and more with KVORUM_FUZZ_SECONDS."""

from collections.abc import Callable

import pytest

from kvorum.security.oauth.jwks import KeySet
from sim.mutants import security
from sim.mutants.patches import Patches
from tests.unit.fuzz import security_targets
from tests.unit.fuzz.fuzz_security import RUNS, SecurityFuzzer
from tests.unit.fuzz.fuzz_wire import Broken, fuzz
from tests.unit.fuzz.test_fuzz import SECONDS, SEED

OUTCOMES_MIN = {"sasl": 25, "sasl-connection": 4, "tls": 10, "jwt": 5, "jaas": 6, "pem": 6, "pkcs12": 2}
"""Distinct outcomes of RUNS inputs; below this the fuzzer does not reach what it is for."""


def test_no_input_authenticates_or_breaks_a_promise() -> None:
    fuzzer = fuzz(RUNS, SEED, seconds=SECONDS, kind=SecurityFuzzer)
    found = {name: len(known) for name, known in fuzzer.outcomes.items()}
    assert all(found[name] >= count for name, count in OUTCOMES_MIN.items()), found


def accept_any_signature(patches: Patches) -> None:
    patches.replace(KeySet, "verify", lambda self, algorithm, key_id, data, signature: True)


def raise_in_jaas(patches: Patches) -> None:
    def parse(text: str) -> object:
        raise IndexError(text)

    patches.replace(security_targets, "parse_jaas", parse)


@pytest.mark.patches
@pytest.mark.parametrize(
    ("mistake", "finding"),
    [
        (security.leave_proofs_unchecked, "authenticated without a credential"),
        (security.serve_unauthenticated_requests, "handled (before|without) authentication"),
        (accept_any_signature, "the content|the signature|authenticated without"),
        (raise_in_jaas, "IndexError"),
    ],
)
def test_the_fuzzer_finds_a_mistake(mistake: Callable[[Patches], None], finding: str) -> None:
    with Patches() as patches:
        mistake(patches)
        with pytest.raises(Broken, match=finding):
            fuzz(10 * RUNS, SEED, kind=SecurityFuzzer)
