"""A ticket proves a user to one process for a short time, and only the cluster can make it."""

import pytest

from kvorum.security.credentials import ITERATIONS_MIN, ScramMechanism
from kvorum.security.errors import AuthenticationError
from kvorum.security.oauth.tokens import encode_base64
from kvorum.security.passwords import UserCredentials
from kvorum.security.scram_keys import derive_credential
from kvorum.security.user_tickets import LIFETIME_MS, check_ticket, make_ticket, user_of

NOW_MS = 1_700_000_000_000


def credentials(password: str) -> UserCredentials:
    return {each: derive_credential(each, password.encode(), b"salt", ITERATIONS_MIN) for each in ScramMechanism}


KNOWN = credentials("secret")


def ticket(user: str = "alice", process: str = "broker 1") -> str:
    scheme, _, text = (make_ticket(user, KNOWN, process, NOW_MS) or "").partition(" ")
    assert scheme == "Kvorum"
    return text


def test_a_ticket_is_valid_for_its_user_and_process() -> None:
    assert user_of(ticket("älice.b")) == "älice.b"
    check_ticket(ticket(), KNOWN, "broker 1", NOW_MS)
    check_ticket(ticket(), KNOWN, "broker 1", NOW_MS - LIFETIME_MS + 1)
    check_ticket(ticket(), KNOWN, "broker 1", NOW_MS + LIFETIME_MS - 1)
    assert make_ticket("alice", {}, "broker 1", NOW_MS) is None


@pytest.mark.parametrize(
    ("text", "known", "process", "now_ms"),
    [
        (ticket(), KNOWN, "broker 2", NOW_MS),
        (ticket(), KNOWN, "broker 1", NOW_MS + LIFETIME_MS),
        (ticket(), KNOWN, "broker 1", NOW_MS - LIFETIME_MS - 1),
        (ticket(), credentials("changed"), "broker 1", NOW_MS),
        (ticket(), {}, "broker 1", NOW_MS),
        (f"{encode_base64(b'admin')}.{ticket().partition('.')[2]}", KNOWN, "broker 1", NOW_MS),
        (ticket().replace(str(NOW_MS + LIFETIME_MS), str(NOW_MS + LIFETIME_MS + 1)), KNOWN, "broker 1", NOW_MS),
        ("", KNOWN, "broker 1", NOW_MS),
        ("..", KNOWN, "broker 1", NOW_MS),
        ("a.b.c", KNOWN, "broker 1", NOW_MS),
        (f"{encode_base64(bytes([255]))}.1.x", KNOWN, "broker 1", NOW_MS),
        (ticket().rpartition(".")[0] + ".", KNOWN, "broker 1", NOW_MS),
        (ticket().rpartition(".")[0] + ".é", KNOWN, "broker 1", NOW_MS),
    ],
)
def test_any_other_ticket_is_rejected(text: str, known: UserCredentials, process: str, now_ms: int) -> None:
    with pytest.raises(AuthenticationError):
        check_ticket(text, known, process, now_ms)
