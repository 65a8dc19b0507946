"""The HTTP side of the admin API: operations, requests, responses, streams."""
