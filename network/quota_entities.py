"""Selects the quota of a client: the most specific one that matches its user and client id.

Sans-IO.

Order (Kafka's ClientQuotaManager; a quota of one kind is shared only within its scope):

    user and client id              each client of the user alone
    user and default client id      each client of the user alone
    user                            all clients of the user together
    default user and client id      each client of each user alone
    default user, default client    each client of each user alone
    default user                    all clients of each user together
    client id                       all users of the client id together
    default client id               all users of each client id together
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Entity of a quota: (entity type, name) by type; the name None is the default of its type."""
Quotas: TypeAlias = Collection[tuple[Entity, Mapping[str, float]]]
"""All quotas there are: of each entity those it has, by key."""

DEFAULT: Final = None


class Scope(NamedTuple):
    """Entities whose usage is counted together, with Kafka's metric tags: empty for the default entity."""

    user: str
    client_id: str


class QuotaTable:
    """The quotas of one key."""

    __slots__ = ("_of_clients", "_of_pairs", "_of_users")

    def __init__(self, key: str = "", quotas: Quotas = ()) -> None:
        """Store the quotas of this key; an entity of another type than user and client id has none."""
        self._of_users: dict[str | None, float] = {}
        self._of_clients: dict[str | None, float] = {}
        self._of_pairs: dict[tuple[str | None, str | None], float] = {}
        for entity, values in quotas:
            if key not in values:
                continue
            names = dict(entity)
            if names.keys() == {USER, CLIENT_ID}:
                self._of_pairs[names[USER], names[CLIENT_ID]] = values[key]
            elif names.keys() == {USER}:
                self._of_users[names[USER]] = values[key]
            elif names.keys() == {CLIENT_ID}:
                self._of_clients[names[CLIENT_ID]] = values[key]

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._of_pairs or self._of_users or self._of_clients)

    def scope(self, user: str, client_id: str) -> Scope:
        """Return the quota scope of a client."""
        pairs, users = self._of_pairs, self._of_users
        if (user, client_id) in pairs or (user, DEFAULT) in pairs:
            return Scope(user, client_id)
        if user in users:
            return Scope(user, "")
        if (DEFAULT, client_id) in pairs or (DEFAULT, DEFAULT) in pairs:
            return Scope(user, client_id)
        return Scope(user, "") if DEFAULT in users else Scope("", client_id)

    def bound(self, scope: Scope) -> float | None:
        """Return the quota of a scope, None where it has none: a client that does not name itself has no client id."""
        user, client_id = scope
        if user and client_id:
            pairs = self._of_pairs
            for pair in ((user, client_id), (user, DEFAULT), (DEFAULT, client_id), (DEFAULT, DEFAULT)):
                if pair in pairs:
                    return pairs[pair]
            return None
        if user:
            return self._of_users.get(user, self._of_users.get(DEFAULT))
        return self._of_clients.get(client_id, self._of_clients.get(DEFAULT)) if client_id else None
