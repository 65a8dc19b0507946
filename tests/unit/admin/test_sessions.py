"""Sessions end by themselves, with the log-out, and when there are too many; what is stored opens nothing."""

from itertools import count

from kvorum.admin.http.sessions import IDLE_MS, LIFETIME_MS, SESSIONS_MAX, SESSIONS_OF_USER_MAX, Sessions
from kvorum.security.credentials import ScramCredential

CREDENTIAL = ScramCredential(b"", b"planted-key", b"planted-key", 4096)


class Table:
    """Sessions with a clock that is set."""

    def __init__(self) -> None:
        self.now_ms = 0
        numbers = count()
        self.sessions = Sessions(lambda: f"id-{next(numbers)}", lambda: self.now_ms)

    def begin(self, user: str = "alice") -> str:
        return self.sessions.begin(user, CREDENTIAL)

    def has(self, session_id: str) -> bool:
        return self.sessions.find(session_id) is not None


def test_a_session_is_found_by_its_id_until_the_log_out() -> None:
    table = Table()
    alice, bob = table.begin(), table.begin("bob")
    found = table.sessions.find(alice)
    assert found is not None and found.user == "alice" and found.credential == CREDENTIAL
    assert not table.has("other") and not table.has("")
    table.sessions.end(alice)
    table.sessions.end(alice)
    assert not table.has(alice) and table.has(bob)
    assert "planted" not in repr(table.sessions.find(bob)) and bob not in repr(table.sessions._sessions)


def test_a_session_ends_when_it_is_idle_or_old() -> None:
    table = Table()
    idle, used = table.begin(), table.begin()
    while table.now_ms + IDLE_MS - 1 < LIFETIME_MS:
        table.now_ms += IDLE_MS - 1
        assert table.has(used)
    assert not table.has(idle)
    table.now_ms = LIFETIME_MS
    assert not table.has(used) and len(table.sessions) == 0


def test_the_number_of_sessions_is_bounded_per_user_and_in_all() -> None:
    table = Table()
    own = [table.begin() for _ in range(SESSIONS_OF_USER_MAX + 1)]
    assert [table.has(each) for each in own] == [False, *[True] * SESSIONS_OF_USER_MAX]
    for number in range(SESSIONS_MAX):
        table.begin(f"user-{number}")
    assert len(table.sessions) == SESSIONS_MAX and not any(table.has(each) for each in own)
