"""Calls to Anthropic's Messages API through its official SDK; requests go out as they are, byte for byte."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx2

from nacre.errors import AuthError, ConfigError, ProviderError
from nacre.messages.blocks import JsonObject
from nacre.messages.events import ProviderEvent, Reply
from nacre.plain import how_to_install
from nacre.providers import failures
from nacre.providers.anthropic_events import Assembly, parse_reply
from nacre.providers.base import Capabilities, Request
from nacre.providers.capabilities import capabilities_of, wire_name
from nacre.providers.parse import with_clean_text

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic, AsyncStream
    from anthropic._types import RequestOptions

SILENCE_SECONDS = 120.0
"""A stream pings every few seconds while the model thinks; two minutes without a byte mean it is dead."""
CONNECT_SECONDS = 15.0
"""A host that does not answer in this time is down; waiting longer only delays the retry."""
KEY_VARIABLE = "ANTHROPIC_API_KEY"
_NAME = "anthropic"
_MESSAGES = "/v1/messages"
_COUNTED = frozenset({"tool_choice", "cache_control", "context_management"})
"""Options that change the size of a prompt; counting takes no others."""
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""An error inside a stream arrives under status 200; its type says what the status would have been."""


class AnthropicProvider:
    """Anthropic's models."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: AsyncAnthropic | None = None,
        timeout: float = SILENCE_SECONDS,
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._client = client
        self._owns_client = client is None
        self._timeout = timeout

    @property
    def name(self) -> str:
        return _NAME

    def capabilities(self, model: str) -> Capabilities:
        return capabilities_of(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Text and thinking as they come, calls as they are finished, then the whole reply."""
        client = self._connect()
        if not request.generates:
            yield await self._read_only(client, request)
            return
        assembly = Assembly()
        with self._explained(client):
            async with await self._open(client, request) as events:
                async for event in events:
                    for heard in assembly.take(event):
                        yield heard
        yield assembly.reply()

    async def count_tokens(self, request: Request) -> int | None:
        """What the provider counts; None where a compatible server has no such endpoint."""
        client = self._connect()
        from anthropic import NotFoundError  # noqa: PLC0415  the SDK is loaded with the first call, not at start

        try:
            with self._explained(client, passing=NotFoundError):
                answer = await self._count(client, request)
        except NotFoundError:
            return None
        tokens = answer.get("input_tokens") if isinstance(answer, dict) else None
        return tokens if isinstance(tokens, int) else None

    async def close(self) -> None:
        if self._client is not None and self._owns_client:
            await self._client.close()
            self._client = None

    def _connect(self) -> AsyncAnthropic:
        if self._client is not None:
            return self._client
        try:
            from anthropic import AsyncAnthropic, CredentialsError  # noqa: PLC0415  half a second that only a first call should pay
        except ImportError as error:
            raise ConfigError(
                f"Claude models need the anthropic package: {how_to_install('anthropic')}"
            ) from error
        try:
            self._client = AsyncAnthropic(api_key=self._api_key, base_url=self._base_url, max_retries=0)
        except CredentialsError as error:
            raise _keyless() from error
        return self._client

    async def _open(self, client: AsyncAnthropic, request: Request) -> AsyncStream[object]:
        """The raw events as plain JSON: typed models would reorder keys and bend unknown blocks."""
        from anthropic import AsyncStream  # noqa: PLC0415  see _connect

        body: dict[str, object] = {**request.body(), "model": wire_name(request.model), "stream": True}

        async def post(body: object) -> AsyncStream[object]:
            return await client.post(
                _MESSAGES,
                cast_to=object,
                body=body,
                options=self._options(request),
                stream=True,
                stream_cls=AsyncStream[object],
            )

        return await with_clean_text(post, body)

    async def _read_only(self, client: AsyncAnthropic, request: Request) -> Reply:
        """A request for no output is refused as a stream; its answer comes at once, and is empty."""

        async def post(body: object) -> object:
            return await client.post(_MESSAGES, cast_to=object, body=body, options=self._options(request))

        body: dict[str, object] = {**request.body(), "model": wire_name(request.model)}
        with self._explained(client):
            return parse_reply(await with_clean_text(post, body))

    async def _count(self, client: AsyncAnthropic, request: Request) -> object:
        async def post(body: object) -> object:
            return await client.post(
                f"{_MESSAGES}/count_tokens", cast_to=object, body=body, options=self._options(request)
            )

        counted = _some(request.options, _COUNTED)
        body: dict[str, object] = {**request.prompt(), "model": wire_name(request.model), **counted}
        return await with_clean_text(post, body)

    def _options(self, request: Request) -> RequestOptions:
        options: RequestOptions = {
            # nacre's own retry tells the user what it waits for; two of them would multiply.
            "max_retries": 0,
            # Any byte, a ping included, is a sign of life: the time between two reads is the silence.
            "timeout": httpx2.Timeout(self._timeout, connect=CONNECT_SECONDS),
        }
        if request.betas:
            options["headers"] = {"anthropic-beta": ",".join(request.betas)}
            options["params"] = {"beta": "true"}
        return options

    @contextmanager
    def _explained(
        self, client: AsyncAnthropic, *, passing: type[Exception] | tuple[()] = ()
    ) -> Iterator[None]:
        """Turns whatever the SDK raises into nacre's errors."""
        from anthropic import AnthropicError  # noqa: PLC0415  see _connect

        try:
            yield
        except passing:
            raise
        except (AnthropicError, httpx2.TransportError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise self._explain(error, url=str(client.base_url)) from error
        except TypeError as error:
            # How the SDK says that it found no key anywhere.
            if "authentication" not in str(error):
                raise
            raise _keyless() from error

    def _explain(self, error: Exception, *, url: str) -> ProviderError:
        from anthropic import APIStatusError, CredentialsError  # noqa: PLC0415  see _connect

        match error:
            case APIStatusError():
                return failures.error_of(_refusal(error), provider=_NAME, key_variable=KEY_VARIABLE)
            case CredentialsError():
                return _keyless()
            case _:
                return failures.lost(error, provider=_NAME, url=url, silence=self._timeout)


def _some(options: JsonObject, names: frozenset[str]) -> JsonObject:
    return {key: value for key, value in options.items() if key in names}


def _refusal(error: APIStatusError) -> failures.Refusal:
    kind = error.type or ""
    return failures.Refusal(
        status=error.status_code if error.status_code >= 400 else _STATUS_OF.get(kind, 500),
        message=error.api_message or error.message,
        code=kind,
        headers=error.response.headers,
    )


def _keyless() -> AuthError:
    return AuthError(f"no key for Anthropic: set {KEY_VARIABLE}")
