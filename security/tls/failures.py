"""Reasons of failed handshakes in plain words.

OpenSSL's reason is a code such as SSLV3_ALERT_BAD_CERTIFICATE; an alert is what the *peer* has rejected.
"""

import ssl
from typing import Final

REASONS: Final = {
    "HTTP_REQUEST": "an HTTP request, not TLS",
    "HTTPS_PROXY_REQUEST": "an HTTP proxy request, not TLS",
    "WRONG_VERSION_NUMBER": "not TLS: a plaintext peer",
    "UNSUPPORTED_PROTOCOL": "no common TLS version (ssl.enabled.protocols)",
    "NO_PROTOCOLS_AVAILABLE": "no common TLS version (ssl.enabled.protocols)",
    "NO_SHARED_CIPHER": "no common cipher suite (ssl.cipher.suites)",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "no common signature algorithm",
    "NO_SHARED_GROUP": "no common key exchange group",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate (ssl.client.auth=required)",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "a record was changed on its way",
    "NO_RENEGOTIATION": "the peer asked for a renegotiation",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer has no common TLS version (alert protocol_version)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer has no common cipher suite or got no certificate it accepts"
    " (alert handshake_failure)",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": "the peer requires stronger ciphers (alert insufficient_security)",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust the certificate's CA (alert unknown_ca)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer rejected the certificate (alert bad_certificate)",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the peer rejected the certificate's type or usage"
    " (alert unsupported_certificate)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer found the certificate expired (alert certificate_expired)",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the peer found the certificate revoked (alert certificate_revoked)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the peer rejected the certificate: untrusted, expired or another host name"
    " (alert certificate_unknown)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer requires a certificate (alert certificate_required)",
    "TLSV1_ALERT_INTERNAL_ERROR": "the peer failed, or is no TLS server (alert internal_error)",
    "TLSV1_ALERT_NO_RENEGOTIATION": "the peer refuses renegotiation (alert no_renegotiation)",
    "TLSV1_ALERT_USER_CANCELLED": "the peer cancelled the handshake (alert user_canceled)",
    "UNEXPECTED_EOF_WHILE_READING": "the peer closed the connection",
}
CLOSED: Final = "the peer closed the connection"
PLAINTEXT_REASONS: Final = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER")
"""The first bytes are not TLS; OpenSSL sends no alert for them."""


def failure_reason(error: ssl.SSLError) -> str:
    """Return the reason of a failed handshake, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate does not verify: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLEOFError):
        return CLOSED
    reason = error.reason or ""
    return REASONS.get(reason) or reason.replace("_", " ").lower() or " ".join(str(error).split())


def is_plaintext(error: ssl.SSLError) -> bool:
    """Return whether the peer's first bytes are not TLS."""
    return error.reason in PLAINTEXT_REASONS
