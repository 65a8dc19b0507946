"""Conventions of Confluent's REST API."""

from typing import Final

from kvorum.admin.http.dialect import Dialect
from kvorum.admin.http.operations import JSON
from kvorum.admin.v3.errors import respond_with_error
from kvorum.admin.v3.models import ErrorResponse

V3: Final = Dialect(
    root="/v3",
    alias="/kafka",  # where Confluent's server and cloud have it
    title="Confluent REST API",
    basic_auth=True,
    strict_query=False,  # no operation depends on the query alone, and clients send parameters of Confluent's cloud
    error_model=ErrorResponse,
    error_media=JSON,
    respond=respond_with_error,
)
