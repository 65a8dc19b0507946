"""Faults on what authentication needs: certificates of nodes, and the keys of a token issuer."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kvorum.chaos.faults.events import ActiveFault, FaultError, FaultRegister
from kvorum.chaos.faults.token_issuer import TokenIssuer
from kvorum.security.certificate_folder import CertificateFolder
from kvorum.security.certificates import LIFETIME, CertificateError

RENEW: Final = "kvorum certs rotate"


@dataclass(frozen=True, slots=True)
class SecurityFaults:
    """The faults of one cluster. Without certificates or issuer it supports none of them."""

    register: FaultRegister
    certificates: CertificateFolder | None = None
    """With the CA of the cluster."""
    issuer: TokenIssuer | None = None

    def rotate(self, *nodes: str) -> None:
        """Renew the certificates of nodes as `kvorum certs rotate` does. Raises FaultError, OSError."""
        self.register.at_once(
            "rotate_certificates",
            nodes,
            f"new keys and certificates of {', '.join(nodes)} ({RENEW})",
            lambda: self._renew(nodes, LIFETIME),
        )

    def expire(self, *nodes: str, lifetime: timedelta) -> ActiveFault:
        """Give nodes certificates that expire soon; the end renews them. Raises FaultError, OSError."""
        return self.register.begin(
            "expire_certificate",
            nodes,
            f"the certificate of {', '.join(nodes)} expires in {lifetime.total_seconds():g} s",
            do=lambda: self._renew(nodes, lifetime),
            undo=lambda: self._renew(nodes, LIFETIME),
        )

    def stop_issuer(self) -> ActiveFault:
        """Stop the server of the issuer's keys."""
        assert self.issuer is not None, "the kind was checked"
        stop, start = self.issuer.stop, self.issuer.start
        return self.register.begin("stop_issuer", (), f"{self.issuer.url} refuses connections", do=stop, undo=start)

    def _renew(self, nodes: tuple[str, ...], lifetime: timedelta) -> None:
        assert self.certificates is not None, "the kind was checked"
        try:
            for node in nodes:
                self.certificates.rotate(node, lifetime)
        except CertificateError as error:
            raise FaultError(str(error)) from None
