"""Writes docs/reference/api.md from the OpenAPI document; `make docs` runs it, a test compares."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from nacre.clock import SYSTEM_CLOCK
from nacre.server.api import PREFIX, all_operations
from nacre.server.audit_log import AuditFile
from nacre.server.jobs import LocalJobs
from nacre.server.openapi import PROBLEMS, openapi_document
from nacre.settings import load

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
HEAD = f"""\
# The HTTP API

Written by `make docs` from the OpenAPI document; change the types in `src/nacre/server`, not this page.
[Run a server](../how-to/run-a-server.md) says how to start it.

Every request needs `Authorization: Bearer KEY`, except `GET /healthz` and `GET /readyz`.
`GET /openapi.json` is the OpenAPI 3.1 document, `GET /metrics` has counters for Prometheus (role admin), and
`/mcp` speaks MCP. All other paths begin with `{PREFIX}`. `?space=` chooses the memory: `user` (default),
`project:NAME`, `team:NAME` or `agent:NAME`.

A write can carry `Idempotency-Key`: repeated with the same key within a day, it gets the first answer and is
not done again. A change of one memory can carry `If-Match` with the `ETag` of a read: if the memory has
changed since, the answer is 409. A body has at most 1 MiB, an answer takes at most 60 s.
"""
ERRORS = "An error is `application/problem+json` (RFC 9457); `detail` is one line that says what to do."


def kind(schema: dict[str, Any]) -> str:
    """Return a type as a reader writes it."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}"
    return str(schema.get("type", "any"))


def fields(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", [])
    lines = ["| field | type | meaning |", "|---|---|---|"]
    for name, one in schema["properties"].items():
        needed = " (required)" if name in required else ""
        lines.append(f"| `{name}`{needed} | {kind(one)} | {one.get('description', '')} |")
    return lines


def text() -> str:
    settings = load(Path.cwd(), os.environ)
    found = all_operations(settings, AuditFile(settings.home), LocalJobs({}, SYSTEM_CLOCK))
    document = json.loads(json.dumps(openapi_document(found, PREFIX)))
    schemas = document["components"]["schemas"]
    lines = [HEAD, "## Operations", "", "| request | role | does |", "|---|---|---|"]
    lines += [f"| `{one.method} {one.path}` | {one.needs} | {one.summary} |" for one in found]
    lines += ["", "## Bodies", ""]
    for one in found:
        if one.body is not None:
            lines += [f"`{one.method} {one.path}`:", "", *fields(schemas[one.body.__name__]), ""]
    lines += ["## Parameters", "", "| request | parameter | type | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{one.method} {one.path}` | `{each.name}` | {kind(dict(each.schema))} | {each.description} |"
        for one in found
        for each in one.parameters
    ]
    lines += [
        "",
        "## Errors",
        "",
        "An error is `application/problem+json` (RFC 9457): `title`, `status`, and `detail`,",
    ]
    lines += ["one line that says what to do.", "", "| status | when |", "|---|---|"]
    lines += [f"| {status} | {said} |" for status, said in PROBLEMS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
