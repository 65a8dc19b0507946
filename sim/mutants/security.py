"""Mistakes in authentication, sessions and TLS. No simulation has them: a unit test finds each."""

import ssl
from base64 import b64encode
from typing import TYPE_CHECKING

from kvorum.network.authorizer import ClusterPrincipals, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.security.credentials import ScramCredential
from kvorum.security.principal import Principal
from kvorum.security.sasl.authenticator import Action, Kind, SaslServerAuthenticator, State
from kvorum.security.sasl.scram import ScramClient, ScramServer
from sim.mutants.patches import Patches

if TYPE_CHECKING:
    from kvorum.security.oauth.signed import ClaimRules
    from kvorum.security.oauth.tokens import BearerToken, Claims
    from kvorum.security.tls.reload import ReloadableContext
    from kvorum.security.tls.settings import KeyStoreSettings, TrustStoreSettings

SIGNATURE_BYTES = {"sha256": 32, "sha512": 64}


def leave_proofs_unchecked(patches: Patches) -> None:
    """A SCRAM client is authenticated without knowing the password."""

    def known(self: ScramServer, credential: ScramCredential, auth_message: bytes, proof: bytes) -> bool:
        return self._is_known

    patches.replace(ScramServer, "_is_proven", known)


def send_constant_signatures(patches: Patches) -> None:
    """A SCRAM server sends the same signature each time, which proves nothing."""
    final = ScramServer._final

    def constant(self: ScramServer, token: bytes, credential: ScramCredential) -> bytes:
        final(self, token, credential)
        return b"v=" + b64encode(bytes(SIGNATURE_BYTES[self._mechanism.hash_name]))

    patches.replace(ScramServer, "_final", constant)


def leave_signatures_unchecked(patches: Patches) -> None:
    """A SCRAM client trusts a server that does not know its password."""
    evaluate = ScramClient.evaluate

    def trusting(self: ScramClient, token: bytes) -> bytes:
        if self._server_signature is None:
            return evaluate(self, token)
        self.is_complete = True
        return b""

    patches.replace(ScramClient, "evaluate", trusting)


def accept_expired_tokens(patches: Patches) -> None:
    """A bearer token is valid for ever."""
    from kvorum.security.oauth import signed

    validate = signed.validate_claims

    def lasting(claims: "Claims", rules: "ClaimRules", issuer: str | None, now_ms: int) -> "BearerToken":
        return validate({**claims, "exp": now_ms // 1000 + 3600}, rules, issuer, now_ms)

    patches.replace(signed, "validate_claims", lasting)


def forget_expiry_of_tokens(patches: Patches) -> None:
    """The session of a delegation token does not end with the token."""
    find = ScramServer._find

    def lasting(self: ScramServer, name: str, *, by_token: bool) -> ScramCredential | None:
        found = find(self, name, by_token=by_token)
        self.expires_at_ms = None
        return found

    patches.replace(ScramServer, "_find", lasting)


def require_no_certificate(patches: Patches) -> None:
    """A listener with ssl.client.auth=required accepts clients without a certificate."""
    from kvorum.security.tls import context
    from kvorum.security.tls.settings import ClientAuth

    modes = {**context.VERIFY_MODES, ClientAuth.REQUIRED: ssl.CERT_OPTIONAL}
    patches.replace(context, "VERIFY_MODES", modes)


def keep_context_at_reload(patches: Patches) -> None:
    """A reloaded key store is checked and shown, but new connections get the former certificate."""
    from kvorum.security.tls.reload import ReloadableContext

    reload = ReloadableContext.reload

    def stale(
        self: "ReloadableContext",
        key_store: "KeyStoreSettings | None" = None,
        trust_store: "TrustStoreSettings | None" = None,
    ) -> None:
        before = self.context
        reload(self, key_store, trust_store)
        self.context = before

    patches.replace(ReloadableContext, "reload", stale)


def trust_any_envelope(patches: Patches) -> None:
    """A client may send an Envelope, and so act as any principal."""
    authorize = ClusterPrincipals.authorize

    def trusting(
        self: ClusterPrincipals,
        ctx: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        return ctx.api_key == ApiKey.ENVELOPE or authorize(self, ctx, operation, resource_type, resource_name)

    patches.replace(ClusterPrincipals, "authorize", trusting)


def serve_unauthenticated_requests(patches: Patches) -> None:
    """A request that comes before authentication is handled."""
    from kvorum.security.sasl import authenticator

    table = {state: dict(row) for state, row in authenticator.TABLE.items()}
    table[State.INITIAL][Kind.OTHER] = table[State.VERSIONS_SENT][Kind.OTHER] = Action.ROUTE
    patches.replace(authenticator, "TABLE", table)


def ignore_lifetime_of_sessions(patches: Patches) -> None:
    """An authenticated connection is served after the end of its session."""

    def passes(self: SaslServerAuthenticator, frame: memoryview, now_s: float) -> bool:
        return self.session is not None and self.state is State.COMPLETE

    patches.replace(SaslServerAuthenticator, "passes", passes)
    patches.replace(SaslServerAuthenticator, "_is_alive", lambda self, now_s: True)


def change_principals_of_sessions(patches: Patches) -> None:
    """A re-authentication may change the principal of a connection."""
    complete = SaslServerAuthenticator._complete

    def changed(self: SaslServerAuthenticator, now_s: float, wall_ms: int) -> int | None:
        principal: Principal | None = self._exchange.principal
        if principal is not None:
            self.session = None
        return complete(self, now_s, wall_ms)

    patches.replace(SaslServerAuthenticator, "_complete", changed)
