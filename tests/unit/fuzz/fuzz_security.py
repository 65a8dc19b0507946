"""The fuzzer of security: SASL, TLS, JWTs, JAAS texts and key stores. Options as of fuzz_wire.

python -m tests.unit.fuzz.fuzz_security --seconds 120 [--seed N] [--keep]
"""

import asyncio
import sys
from collections.abc import Callable

from kvorum.security.credentials import ScramMechanism
from kvorum.security.sasl.oauthbearer import OauthBearerClient
from tests.unit.fuzz import mutate
from tests.unit.fuzz import security_targets as targets
from tests.unit.fuzz.fuzz_wire import Fuzzer, main
from tests.unit.network.test_tls_transport import Recorder, Side
from tests.unit.security.sasl.sasl_kit import authenticate, handshake, plain_token

RUNS = 2_000
"""Inputs that `make test` tries after the corpus."""


class SecurityFuzzer(Fuzzer):
    """Inputs of peers without credentials."""

    def make_targets(self, loop: asyncio.AbstractEventLoop) -> dict[str, Callable[[bytes], str]]:
        """Return the targets by name."""
        self._stores = {"pkcs12": targets.make_pkcs12(), "pem": targets.PEM_TEXT.encode()}
        return {
            "sasl": targets.sasl,
            "sasl-connection": targets.SaslConnections(loop).target,
            "tls": lambda data: loop.run_until_complete(targets.tls(data)),
            "jwt": targets.jwt,
            "jaas": targets.jaas,
            "pem": targets.pem,
            "pkcs12": targets.pkcs12_store,
        }

    def fresh(self, name: str) -> bytes:
        """Return a valid input."""
        rng = self.rng
        match name:
            case "sasl":
                frames = self.tokens() if rng.random() < 0.7 else [self.frame() for _ in range(rng.randrange(1, 4))]
                return rng.randbytes(1) + framed(frames)
            case "sasl-connection":
                beginning = [bytes(handshake(rng.choice(targets.MECHANISMS), rng.randrange(2)))]
                versions = [] if rng.random() < 0.5 else [mutate.random_request(rng)]
                return framed([*versions, *beginning, *self.tokens(), self.frame()][rng.randrange(2) :])
            case "tls":
                return rng.randbytes(1) + self.client_bytes()
            case "jwt":
                return rng.choice(targets.VALID_TOKENS).encode()
            case "jaas":
                return rng.choice(targets.JAAS_TEXTS).encode()
        return self._stores[name]

    def tokens(self) -> list[bytes]:
        """Return SaslAuthenticate requests, or bare tokens, with wrong credentials."""
        rng = self.rng
        kind = rng.randrange(4)
        if kind == 0:
            tokens = [plain_token(password="wrong", authorization_id=rng.choice(["", "alice", "bob"]))]
        elif kind == 1:
            tokens = [OauthBearerClient(targets.FORGED_TOKEN).evaluate(b""), b"\1", b"\1"]
        else:
            return [bytes(each) for each in targets.scram_frames(rng.choice(list(ScramMechanism)), "nonce")]
        is_bare = rng.random() < 0.3
        return [each if is_bare else bytes(authenticate(each, rng.randrange(3))) for each in tokens]

    def client_bytes(self) -> bytes:
        """Return bytes of a TLS client: its hello, all of its handshake, records with data, or noise."""
        rng = self.rng
        client, server = (
            Side(targets.CLIENT.context, Recorder(), "localhost"),
            Side(targets.SERVER.context, Recorder()),
        )
        hello = targets.taken(client)
        kind = rng.randrange(4)
        if kind == 0:
            return hello
        if kind == 1:
            size = rng.randrange(200)
            return bytes([rng.choice([20, 21, 22, 23, 24]), 3, 3]) + size.to_bytes(2, "big") + rng.randbytes(size)
        server.receive(hello)
        client.receive(targets.taken(server))
        flight = targets.taken(client)
        if kind == 2:
            return hello + flight
        server.receive(flight)
        client.transport.write(b"planted")
        return targets.taken(client)


def framed(frames: list[bytes]) -> bytes:
    """Return frames with their lengths."""
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


if __name__ == "__main__":
    sys.exit(main(SecurityFuzzer, __doc__))
