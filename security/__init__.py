"""Authentication and encryption: TLS contexts, SASL mechanisms, principals, credentials. Sans-IO.

principal     the authenticated user of a connection, and how it is derived from a certificate
credentials   what mechanisms look up: SCRAM credentials and delegation tokens
jaas          the text of `sasl.jaas.config`
sasl          mechanisms (both sides) and the state machine of a server's connection
tls           key and trust stores, contexts, cipher suites
"""
