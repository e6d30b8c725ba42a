"""Servers compatible with OpenAI's chat completions: where they are and how they differ, as data (P9)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from nacre.messages.blocks import Json, JsonObject

ThinkingField = Literal["reasoning_effort", "chat_template_kwargs"]
"""Where a server takes the level of thinking: as OpenAI does, or as values of the chat template."""
QUERY_SECONDS = 0.5
"""How long a server on this machine may take to answer a query for its window."""
MAX_ANSWER_BYTES = 4_000_000
"""Of an answer to such a query; with the license of a model and a long list of models it is far less."""


class ServedWindow(NamedTuple):
    """The window that a server reports for a model."""

    tokens: int
    source: str
    """The path of the query, and what to know about it."""


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """A request by which a server reports the window of a model."""

    path: str
    parse: Callable[[JsonObject, str], int | None]
    """Returns the window in an answer for the model with this name."""
    posts_model: bool = False
    remark: str = ""


def _props_window(answer: JsonObject, _: str) -> int | None:
    settings = answer.get("default_generation_settings")
    return _tokens(settings.get("n_ctx")) if isinstance(settings, dict) else None


def _listed_window(answer: JsonObject, model: str) -> int | None:
    rows = _rows(answer, "data")
    # llama.cpp serves one model, whatever it is called.
    for row in [one for one in rows if one.get("id") == model] or rows[: len(rows) == 1]:
        meta = row.get("meta")
        return _tokens(row.get("max_model_len")) or _tokens(
            meta.get("n_ctx") if isinstance(meta, dict) else 0
        )
    return None


def _loaded_window(answer: JsonObject, model: str) -> int | None:
    names = {model, f"{model}:latest"}
    found = (one for one in _rows(answer, "models") if names & {one.get("name"), one.get("model")})
    return next((_tokens(one.get("context_length")) for one in found), None)


def _set_window(answer: JsonObject, _: str) -> int | None:
    found = re.search(r"^num_ctx\s+(\d+)\s*$", str(answer.get("parameters")), re.MULTILINE)
    return _tokens(int(found[1])) if found else None


def _trained_window(answer: JsonObject, _: str) -> int | None:
    facts = answer.get("model_info")
    named = facts.items() if isinstance(facts, dict) else ()
    return next((_tokens(value) for name, value in named if name.endswith(".context_length")), None)


def _rows(answer: JsonObject, name: str) -> list[JsonObject]:
    rows = answer.get(name)
    return [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []


def _tokens(value: Json) -> int | None:
    return value if isinstance(value, int) and value > 0 and value is not True else None


PROPS = WindowQuery("/props", _props_window)
MODELS = WindowQuery("/v1/models", _listed_window)
OLLAMA_QUERIES = (
    WindowQuery("/api/ps", _loaded_window),
    WindowQuery("/api/show", _set_window, posts_model=True),
    WindowQuery(
        "/api/show",
        _trained_window,
        posts_model=True,
        remark="the most that the model can have; Ollama may give it less, which it says once it is loaded",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProfile:
    """One kind of server; the default values are those of OpenAI's own API."""

    name: str
    """The prefix of a model's name: `ollama:qwen3`."""
    base_url: str = ""
    """Its usual address; empty for the one of the SDK."""
    url_variable: str = "OPENAI_BASE_URL"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    needs_key: bool = True
    hosts: tuple[str, ...] = ()
    """Hosts, or `:port`, by which the server is recognised in an address."""
    limit_field: str = "max_tokens"
    """The name of the output limit."""
    takes_cache_key: bool = False
    """Whether `prompt_cache_key` is sent; a server that checks its fields refuses it."""
    thinking_field: ThinkingField = "reasoning_effort"
    window_queries: tuple[WindowQuery, ...] = ()
    """How to ask it for the window of a model, in this order."""

    @property
    def label(self) -> str:
        """The name in messages."""
        return "openai" if self.name == "compatible" else self.name

    def address(self, environ: Mapping[str, str]) -> str | None:
        """Return the base URL in force; None for the one of the SDK."""
        shared = environ.get("OPENAI_BASE_URL") if not self.needs_key else None
        return environ.get(self.url_variable) or shared or self.base_url or None

    def key(self, environ: Mapping[str, str]) -> str | None:
        """Return the first key that is set."""
        return next((key for name in self.key_variables if (key := environ.get(name))), None)


OPENAI = ServerProfile(
    name="openai", hosts=("api.openai.com",), limit_field="max_completion_tokens", takes_cache_key=True
)
COMPATIBLE = ServerProfile(
    name="compatible", needs_key=False, window_queries=(PROPS, MODELS, *OLLAMA_QUERIES)
)
"""A server of which nothing is known: fields that all understand."""
GEMINI = ServerProfile(
    name="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
    url_variable="GEMINI_BASE_URL",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    hosts=("generativelanguage.googleapis.com",),
)
OLLAMA = ServerProfile(
    name="ollama",
    base_url="http://localhost:11434/v1",
    url_variable="OLLAMA_BASE_URL",
    key_variables=("OLLAMA_API_KEY",),
    needs_key=False,
    hosts=(":11434", "ollama.com"),
    window_queries=OLLAMA_QUERIES,
)
LLAMA_CPP = ServerProfile(
    name="llamacpp",
    base_url="http://localhost:8080/v1",
    url_variable="LLAMACPP_BASE_URL",
    key_variables=("LLAMA_API_KEY",),
    needs_key=False,
    thinking_field="chat_template_kwargs",
    window_queries=(PROPS, MODELS),
)
VLLM = ServerProfile(
    name="vllm",
    base_url="http://localhost:8000/v1",
    url_variable="VLLM_BASE_URL",
    key_variables=("VLLM_API_KEY",),
    needs_key=False,
    thinking_field="chat_template_kwargs",
    window_queries=(MODELS,),
)
SERVERS: Mapping[str, ServerProfile] = {one.name: one for one in (GEMINI, OLLAMA, LLAMA_CPP, VLLM)}
"""By the prefix of a model's name."""


def server_at(url: str) -> ServerProfile:
    """Return the kind of server at an address; `COMPATIBLE` if the address does not tell."""
    parts = urlsplit(url)
    for one in (OPENAI, *SERVERS.values()):
        if parts.hostname in one.hosts or f":{_port(url)}" in one.hosts:
            return one
    return COMPATIBLE


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def served_window(
    url: str, model: str, *, server: ServerProfile | None = None, key: str | None = None
) -> ServedWindow | None:
    """Ask a server on this machine for the window of a model; None if it does not say or is elsewhere.

    It blocks for some milliseconds, and for half a second per query if the server does not answer.
    """
    if not is_loopback(url):
        return None
    answers: dict[str, JsonObject | None] = {}
    for query in (server or server_at(url)).window_queries:
        if query.path not in answers:
            answers[query.path] = _answer(url, query, model, key)
        answer = answers[query.path]
        if answer is not None and (tokens := query.parse(answer, model)):
            return ServedWindow(tokens, f"{query.path}: {query.remark}" if query.remark else query.path)
    return None


def _answer(url: str, query: WindowQuery, model: str, key: str | None) -> JsonObject | None:
    """Return the answer to a query; None unless it is a JSON object. No redirect or proxy is followed."""
    import http.client  # noqa: PLC0415 - only servers on this machine are asked

    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    body = json.dumps({"model": model}) if query.posts_model else None
    headers = {"content-type": "application/json"} if body else {}
    if key:
        headers["authorization"] = f"Bearer {key}"
    path = parts.path.rstrip("/").removesuffix("/v1") + query.path
    try:
        connection = connect(parts.hostname or "", _port(url), timeout=QUERY_SECONDS)
        try:
            connection.request("POST" if body else "GET", path, body, headers)
            response = connection.getresponse()
            read = response.read(MAX_ANSWER_BYTES) if response.status == 200 else b""
        finally:
            connection.close()
        answer = json.loads(read)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return answer if isinstance(answer, dict) else None
