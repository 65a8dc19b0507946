"""Authentication and encryption: TLS contexts, SASL mechanisms, principals, credentials.

Sans-IO, except for files of stores and keys, oauth's fetches (oauth/http, oauth/key_refresh), Kerberos (its library)
and the user's own password verifiers (sasl/verifier).

principal     the authenticated user of a connection, and how it is derived from a certificate
credentials   what mechanisms look up: SCRAM credentials and delegation tokens
scram_keys    keys of SCRAM credentials
delegation_tokens  HMACs of delegation tokens
settings      the keys of a listener, with Kafka's precedence; config_checks: what is refused before the start
incoming      TLS and SASL of a listener, made of its settings; outgoing: those of connections to it
client        security of an outgoing connection; client_properties, librdkafka: from a client's properties
jaas          the text of `sasl.jaas.config`
sasl          mechanisms (both sides) and the state machine of a server's connection
oauth         bearer tokens, their issuers' keys, and where a client gets one
kerberos      GSSAPI, made of settings
tls           key and trust stores, contexts, cipher suites
"""
