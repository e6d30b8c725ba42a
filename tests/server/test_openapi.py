"""The OpenAPI document is valid, and the server answers as it says, also to requests at random."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from nacre.server.api import PREFIX, all_operations
from nacre.server.audit_log import AuditFile
from nacre.server.jobs import LocalJobs
from nacre.server.openapi import openapi_document
from nacre.server.operation import Operation
from nacre.settings import load
from nacre.testing import FrozenClock
from tests.scale import scaled
from tests.server.serving import Serving, serving

TEXT = st.one_of(
    st.sampled_from(
        ["heron", "MEMORY.md", "..", "a/b.md", "*", "0", "user", "The server is heron.", "abcd12"]
    ),
    st.text(st.characters(exclude_categories=()), max_size=30),
)
OBJECT = re.compile(r"#/components/schemas/(\w+)")


def _operations() -> list[Operation]:
    found = load(Path.cwd(), os.environ)
    return all_operations(found, AuditFile(found.home), LocalJobs({}, FrozenClock()))


def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(openapi_document(_operations(), PREFIX)))
    return found


def _parts(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from _parts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _parts(one)


def test_the_document_is_consistent() -> None:
    document = _document()
    assert document["openapi"].startswith("3.1.")
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    for part in _parts(document):
        if isinstance(part.get("$ref"), str):
            match = OBJECT.fullmatch(part["$ref"])
            assert match and match[1] in schemas, part
    ids = []
    for path, methods in document["paths"].items():
        for operation in methods.values():
            ids.append(operation["operationId"])
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
            assert any(status.startswith("2") for status in operation["responses"])
    assert len(ids) == len(set(ids)) == len(_operations())


def test_the_document_has_every_path_of_the_specification() -> None:
    promised = """
        GET /memories  POST /memories  GET /memories/{file}  PATCH /memories/{file}  DELETE /memories/{file}
        POST /memories/search  POST /recall  GET /memories/{file}/history  POST /undo
        GET /memories/{file}/why
        GET /sessions  GET /sessions/{id}  GET /sessions/{id}/requests/{n}  POST /mail  GET /jobs  GET /usage
        GET /audit-log
    """.split()
    paths = _document()["paths"]
    for method, path in zip(promised[::2], promised[1::2], strict=True):
        assert method.lower() in paths[PREFIX + path], (method, path)


def _values(schema: dict[str, Any], schemas: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that a schema mostly allows."""
    if "$ref" in schema:
        return _values(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return st.one_of(*(_values(one, schemas) for one in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" not in schema:
            inner = schema.get("additionalProperties")
            return st.dictionaries(
                TEXT, _values(inner if isinstance(inner, dict) else {}, schemas), max_size=3
            )
        case "array":
            return st.lists(_values(schema["items"], schemas), max_size=3)
        case "object":
            wanted = {name: _values(one, schemas) for name, one in schema["properties"].items()}
            required = {name: wanted.pop(name) for name in schema.get("required", ())}
            return st.fixed_dictionaries(required, optional=wanted)
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(-2, 600)
        case "null":
            return st.none()
        case _:
            return TEXT


@st.composite
def _requests(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    document = _document()
    schemas = document["components"]["schemas"]
    path, methods = draw(st.sampled_from(sorted(document["paths"].items())))
    method, operation = draw(st.sampled_from(sorted(methods.items())))
    url = path
    params: dict[str, str] = {}
    headers: dict[str, str] = {}
    for one in operation["parameters"]:
        value = str(draw(_values(one["schema"], schemas))).encode(errors="replace").decode()
        if one["in"] == "path":
            url = url.replace(f"{{{one['name']}}}", quote(value, safe="") or "x")
        elif draw(st.integers(0, 3)) == 0:
            if one["in"] == "query":
                params[one["name"]] = value
            else:
                headers[one["name"]] = quote(value) or "x"
    sent: dict[str, Any] = {"params": params, "headers": headers}
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = draw(
            st.one_of(_values(schema, schemas), _values(schema, schemas), st.dictionaries(TEXT, TEXT))
        )
        sent["content"] = json.dumps(body).encode()
    return method, url, sent


def _check(document: dict[str, Any], method: str, answer: httpx2.Response, path: str) -> None:
    """Raise if an answer is none of those that the document describes."""
    assert answer.status_code < 500, (method, path, answer.text)
    if method not in document["paths"].get(path, {}):  # a parameter at random made it another path
        assert answer.status_code in {404, 405}, (method, path, answer.status_code)
        return
    described = document["paths"][path][method]["responses"]
    assert str(answer.status_code) in described, (method, path, answer.status_code)
    ((kind, content),) = described[str(answer.status_code)]["content"].items()
    assert answer.headers["content-type"] == kind
    schema = {"components": document["components"], **content["schema"]}
    Draft202012Validator(schema).validate(answer.json())


def _template(document: dict[str, Any], url: str) -> str:
    """Return the path of the document that a URL is matched by."""
    for path in sorted(document["paths"], key=lambda one: (one.count("{"), -len(one))):
        pattern = re.sub(r"\\\{file\\\}", ".+", re.escape(path))
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", pattern), url):
            return path
    return ""


@pytest.mark.slow
def test_no_request_breaks_the_server_and_every_answer_is_as_described(tmp_path: Path) -> None:
    document = _document()

    async def started(stack: AsyncExitStack) -> tuple[Serving, httpx2.AsyncClient]:
        server = await stack.enter_async_context(serving(tmp_path))
        client = await stack.enter_async_context(server.client(await server.key("admin")))
        await client.post("/memories", json={"text": "The build server is heron."})
        return server, client

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        server, client = runner.run(started(stack))

        @settings(
            max_examples=scaled(200), deadline=None, database=None, suppress_health_check=[*HealthCheck]
        )
        @given(_requests())
        def sends(request: tuple[str, str, dict[str, Any]]) -> None:
            method, url, sent = request
            answer = runner.run(client.request(method, f"{server.url}{url}", **sent))
            if answer.status_code != 429:
                _check(document, method, answer, _template(document, httpx2.URL(url).path))

        try:
            sends()
        finally:
            runner.run(stack.aclose())
