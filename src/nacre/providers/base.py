"""The provider protocol: a request in the format of Anthropic's Messages API, and a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from nacre.cache.models import ThinkingLevel, profile
from nacre.messages.blocks import JsonObject
from nacre.messages.events import ProviderEvent, Reply
from nacre.messages.tool_references import is_deferred, without_references
from nacre.providers.thinking import output_effort, thinking_config

ToolSupport: TypeAlias = Literal["native", "text", "none"]
"""How a model calls tools: through the API, as JSON or XML in its text, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One model call; the lists hold the JSON that is sent, with cache markers."""

    model: str
    messages: list[JsonObject]
    system: list[JsonObject] = field(default_factory=list)
    """Text blocks."""
    tools: list[JsonObject] = field(default_factory=list)
    """`{name, description, input_schema}`, sorted by name; `defer_loading` leaves one out of the prompt."""
    max_tokens: int = 8_192
    """Zero requests no reply: a provider that `refreshes` only reads its cache (C8b)."""
    thinking: ThinkingLevel | None = None
    """How much the model thinks, in the form of each API; None sends nothing and leaves it to the model."""
    output_schema: JsonObject | None = None
    """A JSON schema for the answer."""
    options: JsonObject = field(default_factory=dict)
    """Further top-level fields for the provider, passed on unchanged."""
    betas: tuple[str, ...] = ()
    cache_key: str = ""
    """The same for all requests of a session and its forks, for providers that route by it."""

    @property
    def generates(self) -> bool:
        """Whether the request asks for output, not only for a cache read."""
        return self.max_tokens > 0

    def body(self) -> JsonObject:
        """Return the keyword arguments of `client.messages.create` in Anthropic's SDK; betas are a header."""
        options = {key: value for key, value in self.options.items() if key != "output_config"}
        prompt = self.prompt()
        limit = self.max_tokens
        match prompt.get("thinking"):
            case {"budget_tokens": int(budget)} if self.generates:
                # A budget is part of the output, which keeps its own limit beside it.
                limit = min(limit + budget, max(limit, profile(self.model).max_output))
        return {**prompt, "max_tokens": limit, **options}

    @property
    def thinking_config(self) -> JsonObject | None:
        """The `thinking` field of Anthropic's API; None if it is left out."""
        return thinking_config(profile(self.model), self.thinking, self.messages)

    def prompt(self) -> JsonObject:
        """Return the part of the body that the model reads, which is also the input of a token count."""
        body: JsonObject = {"model": self.model}
        tools = self.tools
        if not profile(self.model).tool_search:
            tools = [{key: one[key] for key in one if key != "defer_loading"} for one in tools]
        if self.system:
            body["system"] = [*self.system]
        if tools:
            body["tools"] = [*tools]
        deferred = {str(one.get("name")) for one in tools if is_deferred(one)}
        body["messages"] = [*without_references(self.messages, deferred)]
        if (thinking := self.thinking_config) is not None:
            body["thinking"] = thinking
        output = self.options.get("output_config")
        config: JsonObject = output if isinstance(output, dict) else {}
        if (effort := output_effort(profile(self.model), self.thinking)) is not None:
            config = {"effort": effort, **config}
        if self.output_schema is not None:
            config = {**config, "format": {"type": "json_schema", "schema": self.output_schema}}
        if config:
            body["output_config"] = config
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a model supports, from the dated rules file."""

    window: int = 200_000
    max_output: int = 8_192
    streaming: bool = True
    structured_output: bool = False
    system_messages: bool = False
    """Accepts `role: "system"` inside the conversation."""
    binds_thinking: bool = False
    """Thinking blocks are valid only while every byte before them is unchanged."""
    counts_tokens: bool = False
    cache_markers: bool = False
    """Accepts `cache_control` on blocks."""
    refreshes: bool = False
    """A request with `max_tokens` zero reads the cache and extends its lifetime, without output."""


class Provider(Protocol):
    """An adapter for one model API."""

    @property
    def name(self) -> str:
        """The display name: `anthropic`, `openai`, `embedded`, `scripted`."""
        ...

    def capabilities(self, model: str) -> Capabilities:
        """Return what this model supports; called often, so it must be cheap."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Yield events as they arrive; the last one is always the whole `Reply`.

        Closing the generator, or cancelling the task that reads it, ends the request.
        """
        ...

    async def count_tokens(self, request: Request) -> int | None:
        """Return the exact prompt size, or None if the provider cannot count."""
        ...

    async def close(self) -> None:
        """Close connections; no request follows."""
        ...


async def complete(provider: Provider, request: Request) -> Reply:
    """Return the whole reply."""
    async with aclosing(provider.stream(request)) as events:
        async for event in events:
            if isinstance(event, Reply):
                return event
    raise AssertionError("a provider's stream ends with a Reply or raises")


LONG_WINDOW_SUFFIX = "[1m]"
"""A suffix for the long window of a model in settings; not part of the provider's model name."""


def capabilities_of(model: str) -> Capabilities:
    """Return the capabilities of a model from the rules table."""
    row = profile(model)
    return Capabilities(
        window=row.window,
        max_output=row.max_output,
        structured_output=row.structured_output,
        system_messages=row.system_messages,
        binds_thinking=row.binds_thinking,
        counts_tokens=row.counts_tokens,
        cache_markers=row.cache_markers,
        refreshes=row.refreshes,
    )


def betas_of(model: str) -> tuple[str, ...]:
    """Return the beta headers that the name of a model asks for: `[1m]` needs one on some models."""
    beta = profile(model).long_window_beta
    return (beta,) if beta and model.endswith(LONG_WINDOW_SUFFIX) else ()


def wire_name(model: str) -> str:
    """Return the model name that the provider expects."""
    return model.removesuffix(LONG_WINDOW_SUFFIX).strip()
