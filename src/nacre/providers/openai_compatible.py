"""Calls to OpenAI's chat completions, and to the many servers that speak alike: Ollama, vLLM, llama.cpp."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, ProviderError
from nacre.messages.blocks import JsonObject
from nacre.messages.events import ProviderEvent
from nacre.plain import how_to_install
from nacre.providers import failures
from nacre.providers.base import Capabilities, Request
from nacre.providers.capabilities import capabilities_of, wire_name
from nacre.providers.openai_chunks import Assembly
from nacre.providers.openai_translate import Translator, translate_schema, translate_tools
from nacre.providers.parse import with_clean_text

if TYPE_CHECKING:
    from openai import APIError, AsyncOpenAI, AsyncStream

SILENCE_SECONDS = 300.0
"""A local server reads a long prompt for minutes before its first byte, and sends no pings meanwhile."""
CONNECT_SECONDS = 15.0
"""A host that does not answer in this time is down; waiting longer only delays the retry."""
KEY_VARIABLE = "OPENAI_API_KEY"
NO_KEY = "none"
"""Sent where no key is set: the SDK insists on one, local servers do not look at it."""
OWN_HOST = "api.openai.com"
_NAME = "openai"


class OpenAICompatibleProvider:
    """OpenAI's models, or whatever answers at `base_url` in the same vocabulary."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: AsyncOpenAI | None = None,
        timeout: float = SILENCE_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._client = client
        self._owns_client = client is None
        self._timeout = timeout
        self._clock = clock
        self._translator = Translator()

    @property
    def name(self) -> str:
        return _NAME

    def capabilities(self, model: str) -> Capabilities:
        return capabilities_of(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Text and reasoning as they come, calls as they are finished, then the reply.

        Reasoning is shown but no part of the reply: these servers take none of it back.
        """
        assembly = Assembly(self._clock.new_id, lambda: _call_ids(request))
        client = self._connect()
        with self._explained(client):
            async with await self._open(client, request) as chunks:
                async for chunk in chunks:
                    for heard in assembly.take(chunk):
                        yield heard
        for heard in assembly.finish():
            yield heard

    async def count_tokens(self, request: Request) -> int | None:
        """None: chat completions have no way to ask."""
        return None

    async def close(self) -> None:
        if self._client is not None and self._owns_client:
            await self._client.close()
            self._client = None

    def _connect(self) -> AsyncOpenAI:
        if self._client is not None:
            return self._client
        try:
            from openai import AsyncOpenAI  # noqa: PLC0415  half a second that only a first call should pay
        except ImportError as error:
            raise ConfigError(
                f"OpenAI-compatible models need the openai package: {how_to_install('openai')}"
            ) from error
        self._client = AsyncOpenAI(api_key=self._api_key or NO_KEY, base_url=self._base_url, max_retries=0)
        return self._client

    async def _open(self, client: AsyncOpenAI, request: Request) -> AsyncStream[object]:
        from openai import AsyncStream  # noqa: PLC0415  see _connect

        async def post(body: object) -> AsyncStream[object]:
            return await client.post(
                "/chat/completions",
                cast_to=object,
                body=body,
                options={
                    # nacre's own retry tells the user what it waits for; two of them would multiply.
                    "max_retries": 0,
                    "timeout": httpx2.Timeout(self._timeout, connect=CONNECT_SECONDS),
                },
                stream=True,
                stream_cls=AsyncStream[object],
            )

        is_openai = urlsplit(str(client.base_url)).hostname == OWN_HOST
        messages = self._translator.messages(request.system, request.messages)
        return await with_clean_text(post, _body(request, messages, is_openai=is_openai))

    @contextmanager
    def _explained(self, client: AsyncOpenAI) -> Iterator[None]:
        """Turns whatever the SDK raises into nacre's errors."""
        from openai import OpenAIError  # noqa: PLC0415  see _connect

        try:
            yield
        except (OpenAIError, httpx2.TransportError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise self._explain(error, url=str(client.base_url)) from error

    def _explain(self, error: Exception, *, url: str) -> ProviderError:
        from openai import APIError, APIStatusError  # noqa: PLC0415  see _connect

        match error:
            case APIStatusError():
                refusal = _refusal(error, status=error.status_code, headers=dict(error.response.headers))
                return failures.error_of(refusal, provider=_NAME, key_variable=KEY_VARIABLE)
            case APIError() if error.body is not None:
                # An error in mid-stream: only its code tells a busy server from a refusal.
                status = 400 if error.code in failures.TOO_LONG_CODES else 500
                return failures.error_of(
                    _refusal(error, status=status, headers={}), provider=_NAME, key_variable=KEY_VARIABLE
                )
            case _:
                return failures.lost(error, provider=_NAME, url=url, silence=self._timeout)


def _body(request: Request, messages: list[JsonObject], *, is_openai: bool) -> dict[str, object]:
    body: dict[str, object] = {"model": wire_name(request.model), "messages": messages}
    if tools := translate_tools(request.tools):
        body["tools"] = tools
    if request.output_schema is not None:
        body["response_format"] = translate_schema(request.output_schema)
    # OpenAI's newer models refuse the old name, older compatible servers do not know the new one.
    body["max_completion_tokens" if is_openai else "max_tokens"] = request.max_tokens
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    return body | request.options


def _refusal(error: APIError, *, status: int, headers: dict[str, str]) -> failures.Refusal:
    body = error.body
    said = body.get("message") if isinstance(body, dict) else None
    return failures.Refusal(
        status=status,
        message=said if isinstance(said, str) else error.message,
        code=error.code or error.type or "",
        headers=headers,
    )


def _call_ids(request: Request) -> set[str]:
    contents = (message["content"] for message in request.messages)
    blocks = (block for content in contents if isinstance(content, list) for block in content)
    return {
        str(block["id"]) for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"
    }
