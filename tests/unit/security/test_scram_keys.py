"""Keys of SCRAM credentials by the vectors of RFC 5802 and RFC 7677, and those of delegation tokens."""

import base64
import hashlib
import hmac

import pytest

from kvorum.security.credentials import ScramMechanism
from kvorum.security.delegation_tokens import token_hmac, token_password, token_scram_credential
from kvorum.security.scram_keys import credential_from, derive_credential, salted_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def test_the_keys_are_those_of_rfc_7677() -> None:
    """Its example: user "user", password "pencil"; the proof must give the stored key, the server key the signature."""
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    auth_message = (
        f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}".encode()
    )
    credential = derive_credential(SHA_256, b"pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(credential.stored_key, auth_message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == credential.stored_key
    verifier = base64.b64encode(hmac.digest(credential.server_key, auth_message, "sha256"))
    assert verifier == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_salted_password_gives_the_same_credential() -> None:
    salted = salted_password(SHA_512, "пароль".encode(), b"salt", 5000)
    assert len(salted) == 64
    assert credential_from(SHA_512, salted, b"salt", 5000) == derive_credential(
        SHA_512, "пароль".encode(), b"salt", 5000
    )


def test_a_credential_does_not_show_its_keys() -> None:
    assert "sha" not in repr(derive_credential(SHA_256, b"p", b"salt", 4096)).lower().replace("scram", "")
    assert repr(derive_credential(SHA_256, b"p", b"salt", 4096)) == "ScramCredential(iterations=4096)"


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_tokens_password_is_its_hmac_in_base64(mechanism: ScramMechanism) -> None:
    found = token_hmac("secret", "token-id")
    assert found == hmac.new(b"secret", b"token-id", hashlib.sha512).digest()
    credential = token_scram_credential(mechanism, found)
    again = derive_credential(mechanism, token_password(found).encode(), credential.salt, 4096)
    assert credential == again and credential.salt
    assert token_scram_credential(mechanism, token_hmac("other", "token-id")).stored_key != credential.stored_key
