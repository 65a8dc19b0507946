"""Bearer tokens of OAUTHBEARER: their validation, the keys of their issuer, and how a client gets one.

tokens           compact serialization, claims, the validated token
unsecured        tokens without signature, for tests
jwks             the keys of an issuer and their choice
signed           tokens with signature
key_refresh      the keys of an issuer, kept current
http             GET and POST with limits
assertions       a token that a client signs to get another one (JWT bearer)
retrieval        the token of a client: made, of a file, or of a token endpoint
"""
