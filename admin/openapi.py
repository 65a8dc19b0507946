"""The OpenAPI document of the admin API, made from the operations and their models; and a page to read it on."""

import html
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kvorum.admin.models import Problem
from kvorum.admin.operations import NoBody, Operation

REFERENCE = "#/components/schemas/{model}"


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the document as OpenAPI 3.1."""
    models: set[type[BaseModel]] = {Problem}
    for operation in operations:
        models |= {model for model in (operation.body, operation.answer) if model not in (None, NoBody)}
    ordered = [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)]
    _, definitions = models_json_schema(ordered, ref_template=REFERENCE)  # type: ignore[arg-type]
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kvorum admin API", "version": version},
        "paths": paths,
        "components": {"schemas": definitions["$defs"]},
    }


def described(operation: Operation) -> dict[str, Any]:
    """Return one operation's entry."""
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in operation.parameters
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in (operation.query or {}).items()
    ]
    answer: dict[str, Any] = {"description": "Done"}
    if operation.answer is not None:
        schema: dict[str, Any] = {"$ref": REFERENCE.format(model=operation.answer.__name__)}
        schema = {"type": "array", "items": schema} if operation.many else schema
        answer["content"] = {"application/json": {"schema": schema}}
    problem = {"application/json": {"schema": {"$ref": REFERENCE.format(model="Problem")}}}
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": (operation.handle.__doc__ or "").strip(),
        "parameters": parameters,
        "responses": {
            str(operation.status): answer,
            "default": {"description": "Refused, or failed", "content": problem},
        },
    }
    if operation.body is not NoBody:
        schema = {"$ref": REFERENCE.format(model=operation.body.__name__)}
        entry["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return entry


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181c}pre,code{background:#22262c}}
h2{font:600 1rem ui-monospace,monospace;margin:2rem 0 .2rem}h2 b{display:inline-block;min-width:4.5rem}
pre,code{font:14px ui-monospace,monospace;background:#f2f3f5;border-radius:4px;padding:.1rem .3rem}
pre{padding:.7rem;overflow-x:auto}p{margin:.2rem 0}li{margin:.1rem 0}
"""


def page(operations: Sequence[Operation], title: str) -> str:
    """Return the readable form of the same: one HTML page without scripts or anything from elsewhere."""
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{title}</h1><p>The same for programs: <a href=/openapi.json>/openapi.json</a></p>")
    for operation in operations:
        parts.append(f"<h2><b>{operation.method}</b> {html.escape(operation.path)}</h2>")
        text = " ".join((operation.handle.__doc__ or operation.summary).split())
        parts.append(f"<p>{html.escape(text)}</p>")
        if operation.query:
            rows = "".join(
                f"<li><code>{name}</code> {html.escape(what)}</li>" for name, what in operation.query.items()
            )
            parts.append(f"<ul>{rows}</ul>")
        for label, model in (("body", operation.body), ("answer", operation.answer)):
            if model is not None and model is not NoBody:
                parts.append(f"<p>{label}{' (a list)' if label == 'answer' and operation.many else ''}:</p>")
                parts.append(f"<pre>{html.escape(shape(model))}</pre>")
    return "\n".join(parts)


def shape(model: type[BaseModel]) -> str:
    """Return a model's fields, a line each."""
    lines = []
    for name, field in model.model_fields.items():
        kind = str(field.annotation).replace("typing.", "").replace("kvorum.admin.models.", "")
        kind = getattr(field.annotation, "__name__", kind) if "[" not in kind and "|" not in kind else kind
        note = f"   {field.description}" if field.description else ""
        lines.append(f"{name}{'' if field.is_required() else '?'}: {kind}{note}")
    return "\n".join(lines)
