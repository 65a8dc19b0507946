"""Check passwords of PLAIN with a directory (LDAP): a bind as the user.

    pip install ldap3
    export LDAP_URL=ldaps://ldap.example LDAP_USER_DN='uid={},ou=people,dc=example'
    export PYTHONPATH=/path/of/this/folder

    kvorum.sasl.plain.verifier=ldap_verifier:check

Kvorum calls `check` in a thread, which may block. An exception, such as a directory that does not respond, rejects the
client; its message tells the client that the credentials could not be verified.
"""

import os

from ldap3 import NONE, Connection, Server
from ldap3.utils.dn import escape_rdn

TIMEOUT_SECONDS = 5


def check(user: str, password: str) -> bool:
    """Return whether the directory accepts the password of the user."""
    if not password:
        return False  # a bind without password always succeeds: it is anonymous (RFC 4513, 5.1.2)
    server = Server(os.environ["LDAP_URL"], get_info=NONE, connect_timeout=TIMEOUT_SECONDS)
    dn = os.environ["LDAP_USER_DN"].format(escape_rdn(user))
    connection = Connection(server, dn, password, receive_timeout=TIMEOUT_SECONDS)
    try:
        return bool(connection.bind())
    finally:
        connection.unbind()
