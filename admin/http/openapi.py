"""The OpenAPI document of the admin API, made from the operations and their models; and a page to read it on."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kvorum.admin.http.operations import EVENT_STREAM, JSON, Broken, Ended, NoBody, Operation

ENDINGS: Mapping[str, type[BaseModel]] = {"end": Ended, "error": Broken}
"""Events of every stream."""
REFERENCE = "#/components/schemas/{model}"

CONDITIONS = {
    "If-Match": "ETags, one of which the resource must have, or * if it must exist; otherwise 412",
    "If-None-Match": "ETags, none of which the resource may have, or * if it must not exist; otherwise 412",
}
"""Headers of changes that have a guard."""


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the document as OpenAPI 3.1."""
    models: set[type[BaseModel]] = {*ENDINGS.values()} | {each.dialect.error_model for each in operations}
    for operation in operations:
        bodies = [model for each in operation.documents.values() for model in each.models]
        types = (
            operation.body,
            operation.answer,
            *operation.other_answers.values(),
            *bodies,
            *operation.events.values(),
        )
        models |= {model for model in types if model not in (None, NoBody)}
    ordered = [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)]
    _, definitions = models_json_schema(ordered, ref_template=REFERENCE)  # type: ignore[arg-type]
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = operation_entry(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kvorum admin API", "version": version},
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "user": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{}, {"token": []}, {"user": []}],
    }


def operation_entry(operation: Operation) -> dict[str, Any]:
    """Return one operation's entry."""
    parameters: list[dict[str, Any]] = [
        {"name": each.name, "in": "path", "description": each.doc, "required": True, "schema": each.schema}
        for each in operation.path_parameters
    ]
    parameters += [
        {"name": each.name, "in": "query", "description": each.doc, "schema": each.schema}
        for each in operation.query_parameters.values()
    ]
    if operation.guard is not None:
        for name, text in CONDITIONS.items():
            parameters.append({"name": name, "in": "header", "description": text, "schema": {"type": "string"}})
    dialect = operation.dialect
    problem = {dialect.error_media: {"schema": {"$ref": REFERENCE.format(model=dialect.error_model.__name__)}}}
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": (operation.handle.__doc__ or "").strip(),
        "parameters": parameters,
        "responses": {
            str(operation.status): response_entry(operation),
            **{str(status): reply_entry(model) for status, model in operation.other_answers.items()},
            **{str(status): {"description": text, "content": problem} for status, text in refusals(operation)},
            "default": {"description": "Rejected by the cluster, or failed", "content": problem},
        },
        "x-role": operation.needs.name.lower(),
    }
    if operation.body is not NoBody:
        entry["requestBody"] = {"required": True, "content": body_schemas(operation)}
    return entry


def body_schemas(operation: Operation) -> dict[str, Any]:
    """Return the schemas of a body, by media type."""
    bodies: dict[str, list[type[BaseModel]]] = {JSON: [operation.body]}
    bodies |= {media: list(document.models) for media, document in operation.documents.items()}
    found: dict[str, Any] = {}
    for media, models in bodies.items():
        schemas = [{"$ref": REFERENCE.format(model=model.__name__)} for model in models]
        found[media] = {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}
    return found


def response_entry(operation: Operation) -> dict[str, Any]:
    """Return the entry of an operation's successful response."""
    answer: dict[str, Any] = {"description": "Done"}
    if operation.state is not None:
        text = "Changes with the state that a PUT or PATCH of this resource overwrites"
        answer["headers"] = {"ETag": {"description": text, "schema": {"type": "string"}}}
    if operation.answer is None:
        named = [media for media in operation.media if media != JSON]
        if named:
            answer["content"] = {media: {"schema": {"type": "string"}} for media in named}
        return answer
    model: dict[str, Any] = {"$ref": REFERENCE.format(model=operation.answer.__name__)}
    whole = {"type": "array", "items": model} if operation.many else model
    if operation.many and "after" in operation.query_parameters:
        text = "Where the next page is, while there is one"
        answer.setdefault("headers", {})["Link"] = {"description": text, "schema": {"type": "string"}}
    streamed = {"type": "string", "contentMediaType": JSON, "contentSchema": model}
    shapes = {JSON: whole, EVENT_STREAM: event_of(operation, model)}
    answer["content"] = {media: {"schema": shapes.get(media, streamed)} for media in operation.media}
    return answer


def event_of(operation: Operation, model: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of each server-sent event: its name, and the JSON of its data."""
    models = [*operation.events.values(), *ENDINGS.values()]
    schemas = [model, *({"$ref": REFERENCE.format(model=each.__name__)} for each in models)]
    names = ", ".join((*operation.events, *ENDINGS))
    event = {"type": "string", "description": f"{names}, or the name of the operation's own event"}
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": {"anyOf": schemas}}
    return {"type": "object", "properties": {"event": event, "data": data}}


def reply_entry(model: type[BaseModel] | None) -> dict[str, Any]:
    """Return the entry of another successful response."""
    entry: dict[str, Any] = {"description": "Done; the body has the result"}
    if model is not None:
        entry["content"] = {JSON: {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}}
    return entry


def refusals(operation: Operation) -> list[tuple[int, str]]:
    """Return the error statuses of an operation with their meanings, independent of the cluster."""
    found = [(400, "A parameter or the body is invalid; `field` is its name"), (401, "No token, or an unknown token")]
    found.append((403, "Cross-origin request, insufficient role, or rejected by the cluster"))
    if operation.path_parameters:
        found.append((404, "The resource does not exist"))
    if operation.guard is not None:
        found.append((412, "If-Match or If-None-Match is false or malformed, or another condition was sent"))
    if operation.body is not NoBody:
        found.append((413, "The body is too large"))
        found.append((415, "The body or its Content-Type is not JSON"))
    if JSON not in operation.media:
        found.append((429, "Too many streams are open"))
    found.append((503, "The cluster or the responsible process is not reachable; retry"))
    return found


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h2{font:600 1rem ui-monospace,monospace;margin:2rem 0 .2rem;overflow-wrap:anywhere}
h2 b{display:inline-block;min-width:4.5rem}a{color:#07616b}
pre,code{font:14px ui-monospace,monospace;background:#f2f3f5;overflow-wrap:anywhere}
pre,code{border-radius:4px;padding:.1rem .3rem}pre{padding:.7rem;white-space:pre-wrap}
p{margin:.2rem 0}li{margin:.1rem 0}nav summary{cursor:pointer;padding:.2rem 0}
@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181c}pre,code{background:#22262c}a{color:#6fd0d6}}
"""
HEAD = """<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content="width=device-width, initial-scale=1"><meta name=color-scheme content="light dark">"""


def page(operations: Sequence[Operation], title: str) -> str:
    """Return the reference as one HTML page, without scripts and external resources."""
    parts = [f"{HEAD}<title>{title}</title><style>{STYLE}</style><main>", f"<h1>{title}</h1>"]
    parts.append(
        "<p>For programs: <a href=/openapi.json>/openapi.json</a>. "
        "To search and call operations: <a href=/#/api>in the console</a>.</p>"
    )
    parts.append(contents(operations))
    for operation in operations:
        anchor = anchor_of(operation)
        path = html.escape(operation.path)
        parts.append(f'<h2 id="{anchor}"><b>{operation.method}</b> <a href="#{anchor}">{path}</a></h2>')
        text = " ".join((operation.handle.__doc__ or operation.summary).split())
        parts.append(f"<p>{html.escape(text)} (Role: {operation.needs.name.lower()}.)</p>")
        if operation.parameters:
            rows = "".join(
                f"<li><code>{each.name}</code> {html.escape(each.doc)}</li>" for each in operation.parameters
            )
            parts.append(f"<ul>{rows}</ul>")
        for label, model in (("body", operation.body), ("answer", operation.answer)):
            if model is not None and model is not NoBody:
                parts.append(f"<p>{label}{' (a list)' if label == 'answer' and operation.many else ''}:</p>")
                parts.append(f"<pre>{html.escape(shape(model))}</pre>")
    parts.append("</main>")
    return "\n".join(parts)


def contents(operations: Sequence[Operation]) -> str:
    """Return a table of contents: one list for each part of the API, with a link to each operation."""
    areas: dict[str, list[Operation]] = {}
    for operation in operations:
        _, version, *rest = operation.path.split("/")
        area = operation.dialect.title or next(iter(rest), version)
        areas.setdefault(area, []).append(operation)
    parts = ["<nav aria-label=Contents>"]
    for area, found in areas.items():
        links = "".join(
            f'<li><a href="#{anchor_of(each)}">{each.method} {html.escape(each.path)}</a>'
            f" {html.escape(each.summary)}</li>"
            for each in found
        )
        parts.append(f"<details><summary>{html.escape(area)} ({len(found)})</summary><ul>{links}</ul></details>")
    return "".join([*parts, "</nav>"])


def anchor_of(operation: Operation) -> str:
    """Return the id of an operation's heading."""
    return html.escape(f"{operation.method}-{operation.path}".replace("/", "-").replace("{", "").replace("}", ""))


def shape(model: type[BaseModel]) -> str:
    """Return a model's fields, a line each."""
    lines = []
    for name, field in model.model_fields.items():
        kind = re.sub(r"\b(?:[a-z_][a-z0-9_]*\.)+(?=[A-Z])", "", str(field.annotation))
        kind = getattr(field.annotation, "__name__", kind) if "[" not in kind and "|" not in kind else kind
        note = f"   {field.description}" if field.description else ""
        lines.append(f"{name}{'' if field.is_required() else '?'}: {kind}{note}")
    return "\n".join(lines)
