"""Writes the TypeScript client from the OpenAPI document; `make docs` runs it, a test compares."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nacre.clock import SYSTEM_CLOCK
from nacre.server.api import PREFIX, all_operations
from nacre.server.audit_log import AuditFile
from nacre.server.jobs import LocalJobs
from nacre.server.openapi import openapi_document
from nacre.settings import load

PAGE = Path(__file__).parents[1] / "clients" / "typescript" / "src" / "generated.ts"
HEAD = """\
// Written by `make docs` from the OpenAPI document of `nacre serve`; do not edit.
import { type Answer, type CallOptions, Http, type WriteOptions } from "./http.js";
"""
SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
SENT_BY_CALL = {"space", "If-Match", "Idempotency-Key"}
"""Parameters that `CallOptions` and `WriteOptions` have for every operation."""


def text() -> str:
    """Return the module as it should be now."""
    settings = load(Path.cwd(), os.environ)
    found = all_operations(settings, AuditFile(settings.home), LocalJobs({}, SYSTEM_CLOCK))
    document: Any = json.loads(json.dumps(openapi_document(found, PREFIX)))
    schemas = document["components"]["schemas"]
    bodies = {one.body.__name__ for one in found if one.body is not None}
    lines = [HEAD]
    for name, schema in schemas.items():
        lines += [*_interface(name, schema, is_body=name in bodies), ""]
    lines += ["/** Every operation of the server; each throws `NacreError` when the server refuses. */"]
    lines += ["export class NacreClient extends Http {"]
    methods = [
        "\n".join(_method(path, verb.upper(), one))
        for path, verbs in document["paths"].items()
        for verb, one in verbs.items()
    ]
    return "\n".join([*lines, "\n\n".join(methods), "}"]) + "\n"


def _interface(name: str, schema: dict[str, Any], *, is_body: bool) -> Iterator[str]:
    """Yield a type; a field of an answer that has a default is always sent."""
    if "description" in schema:
        yield f"/** {schema['description']} */"
    yield f"export interface {name} {{"
    required = set(schema.get("required", ()))
    for field, one in schema["properties"].items():
        if said := one.get("description"):
            yield f"  /** {said} */"
        optional = "?" if is_body and field not in required else ""
        yield f"  {field}{optional}: {_type(one)};"
    yield "}"


def _type(schema: dict[str, Any]) -> str:
    """Return a JSON schema as a type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    if schema.get("type") == "array":
        inner = _type(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
    return SCALARS.get(str(schema.get("type")), "unknown")


def _method(path: str, verb: str, operation: dict[str, Any]) -> Iterator[str]:
    """Yield the method of one operation: what is in its path, its body, then options."""
    own = [one for one in operation["parameters"] if one["name"] not in SENT_BY_CALL]
    query = [one for one in own if one["in"] == "query"]
    writes = any(one["name"] == "Idempotency-Key" for one in operation["parameters"])
    body = operation.get("requestBody")
    arguments = [f"{one['name']}: {_in_path(one['name'])}" for one in own if one["in"] == "path"]
    if body:
        arguments.append(f"body: {_type(body['content']['application/json']['schema'])}")
    options = "WriteOptions" if writes else "CallOptions"
    if query:
        fields = "; ".join(f"{one['name']}?: {_type(one['schema'])}" for one in query)
        options = f"{{ {fields} }} & {options}"
    arguments.append(f"options: {options} = {{}}")
    answer = next(
        _type(one["content"]["application/json"]["schema"])
        for status, one in operation["responses"].items()
        if status.startswith("2")
    )
    given = re.sub(r"\{(\w+)\}", r"${encodeURIComponent(\1)}", path)
    named = ", ".join(f"{one['name']}: options.{one['name']}" for one in query)
    sent = [f"query: {{ {named} }}"] * bool(query)
    sent += ["body"] * bool(body) + ["writes: true"] * writes
    last = f", {{ {', '.join(sent)} }}" if sent else ""
    yield f"  /** {operation['summary']} */"
    yield f"  {operation['operationId']}({', '.join(arguments)}): Promise<Answer<{answer}>> {{"
    yield f'    return this.call("{verb}", `{given}`, options{last});'
    yield "  }"


def _in_path(name: str) -> str:
    return "number" if name == "n" else "string"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
