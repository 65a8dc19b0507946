"""An issuer of bearer tokens on this machine: signs them in this process, and publishes its key over HTTPS.

The server of the key can be stopped and started again; tokens are signed meanwhile.
"""

import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from joserfc import jwt
from joserfc.jwk import ECKey

from kvorum.chaos.client_access import Token

HOST: Final = "127.0.0.1"
AUDIENCE: Final = "kafka"
USER: Final = "lab"
KEY_ID: Final = "lab-1"
ALGORITHM: Final = "ES256"
LIFETIME_SECONDS: Final = 10.0
"""Sessions end with their tokens: clients authenticate again within a run."""
PREFIX: Final = "sasl.oauthbearer."


class TokenIssuer:
    """One issuer. `start` and `stop` start and stop the HTTPS server of its key. Thread safe."""

    def __init__(self, certificate: str, port: int) -> None:
        """Make its key; `certificate` is the file with the key and certificate of the server."""
        self._certificate, self._port = certificate, port
        self._key = ECKey.generate_key("P-256", {"kid": KEY_ID, "use": "sig", "alg": ALGORITHM})
        self._keys = json.dumps({"keys": [self._key.as_dict(private=False)]}).encode()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """URL of the key set."""
        return f"https://{HOST}:{self._port}/keys"

    @property
    def name(self) -> str:
        """Its name in tokens."""
        return f"https://{HOST}:{self._port}"

    def configs(self) -> dict[str, str]:
        """Return the configuration of listeners that accept its tokens."""
        return {
            f"{PREFIX}jwks.endpoint.url": self.url,
            f"{PREFIX}expected.audience": AUDIENCE,
            f"{PREFIX}expected.issuer": self.name,
        }

    def new_token(self) -> Token:
        """Return a token that is valid from now on."""
        now = time.time()
        claims = {
            "iss": self.name,
            "sub": USER,
            "aud": AUDIENCE,
            "iat": round(now),
            "exp": round(now + LIFETIME_SECONDS),
        }
        return Token(jwt.encode({"alg": ALGORITHM, "kid": KEY_ID}, claims, self._key), now + LIFETIME_SECONDS)

    def start(self) -> None:
        """Serve the key. Raises OSError."""
        keys = self._keys

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                found = self.path == "/keys"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(keys) if found else 0))
                self.end_headers()
                self.wfile.write(keys if found else b"")

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate)
        server = ThreadingHTTPServer((HOST, self._port), Handler)
        # The handshake is made by the thread of the request, with its limit of time.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="chaos-issuer", daemon=True)
        self._server = server
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections. Idempotent."""
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.shutdown()
            server.server_close()
            self._thread.join()
