"""Bytes on sockets: frames, listeners, request context, router, authorizer hook, client channel."""
