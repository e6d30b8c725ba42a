"""The OpenAPI 3.1 document, made from the table of operations and their types (S7)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from nacre.server.operation import Operation
from nacre.server.schema import ProblemDocument
from nacre.version import VERSION

REF = "#/components/schemas/{model}"
SPACE: dict[str, object] = {
    "name": "space",
    "in": "query",
    "description": "`user`, `project:NAME`, `team:NAME` or `agent:NAME`.",
    "schema": {"type": "string", "default": "user"},
}
IF_MATCH: dict[str, object] = {
    "name": "If-Match",
    "in": "header",
    "description": "The ETag that the change is based on; 409 if the memory has changed since.",
    "schema": {"type": "string"},
}
IDEMPOTENCY_KEY: dict[str, object] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeated request with the same key gets the first answer for a day.",
    "schema": {"type": "string", "maxLength": 200},
}
PROBLEMS = {
    "400": "The request is malformed.",
    "401": "The key is missing, unknown, revoked or expired.",
    "403": "The role of the key does not allow this.",
    "404": "There is no such thing, or not for this key.",
    "405": "The path has no such method.",
    "409": "Another client changed it meanwhile.",
    "413": "The body or the answer is too large.",
    "422": "The memory is refused, for example because it contains a credential.",
    "429": "Too many requests; Retry-After says when to try again.",
    "500": "A defect of the server; the log has the details.",
}


def openapi_document(operations: Sequence[Operation], prefix: str) -> dict[str, object]:
    """Return the document that describes the operations below a path prefix."""
    models: list[type[BaseModel]] = [ProblemDocument]
    models += [model for one in operations for model in (one.body, one.answer) if model is not None]
    unique = list(dict.fromkeys(models))
    modes = [(model, "validation") for model in unique]
    _, schemas = models_json_schema(modes, ref_template=REF)  # type: ignore[arg-type]
    paths: dict[str, dict[str, object]] = {}
    for one in operations:
        paths.setdefault(f"{prefix}{one.path}", {})[one.method.lower()] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "nacre", "version": VERSION, "description": "Memory of LLM agents over HTTP."},
        "paths": paths,
        "components": {
            "schemas": schemas.get("$defs", {}),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _described(one: Operation) -> dict[str, object]:
    parameters: list[dict[str, object]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", one.path)
    ]
    parameters += [
        {"name": each.name, "in": "query", "description": each.description, "schema": dict(each.schema)}
        for each in one.parameters
    ]
    parameters += [SPACE] * one.has_space
    parameters += [IF_MATCH] * (one.writes and "{file}" in one.path)
    parameters += [IDEMPOTENCY_KEY] * one.writes
    answered = {
        "description": one.summary,
        "content": {"application/json": {"schema": {"$ref": REF.format(model=one.answer.__name__)}}},
    }
    problem = {"application/problem+json": {"schema": {"$ref": REF.format(model="ProblemDocument")}}}
    found: dict[str, object] = {
        "operationId": one.id,
        "summary": one.summary,
        "parameters": parameters,
        "responses": {
            str(int(one.status)): answered,
            **{status: {"description": said, "content": problem} for status, said in PROBLEMS.items()},
        },
    }
    if one.body is not None:
        schema = {"$ref": REF.format(model=one.body.__name__)}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found
