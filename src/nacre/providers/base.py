"""The port every model call goes through: a request in Anthropic's vocabulary, events back."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from nacre.cache.models import profile
from nacre.messages.blocks import JsonObject
from nacre.messages.events import ProviderEvent, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything one model call needs; the lists hold JSON as it goes on the wire, cache markers included."""

    model: str
    messages: list[JsonObject]
    system: list[JsonObject] = field(default_factory=list)
    """Text blocks."""
    tools: list[JsonObject] = field(default_factory=list)
    """`{name, description, input_schema}`, sorted by name."""
    max_tokens: int = 8_192
    """Zero asks for no reply at all: where a provider `refreshes`, it only reads its cache (C8b)."""
    thinking: JsonObject | None = None
    output_schema: JsonObject | None = None
    """A JSON schema the answer must follow."""
    options: JsonObject = field(default_factory=dict)
    """Further top-level fields of the provider's own, passed on as they are."""
    betas: tuple[str, ...] = ()

    @property
    def generates(self) -> bool:
        """Whether a reply is asked for, and not only that the cache is read."""
        return self.max_tokens > 0

    def body(self) -> JsonObject:
        """The keyword arguments of `client.messages.create` in Anthropic's SDK; betas go into a header."""
        options = {key: value for key, value in self.options.items() if key != "output_config"}
        return {**self.prompt(), "max_tokens": self.max_tokens, **options}

    def prompt(self) -> JsonObject:
        """The part of the body that the model reads, which is also what counting tokens takes."""
        body: JsonObject = {"model": self.model}
        if self.system:
            body["system"] = [*self.system]
        if self.tools:
            body["tools"] = [*self.tools]
        body["messages"] = [*self.messages]
        if self.thinking is not None:
            body["thinking"] = self.thinking
        output = self.options.get("output_config")
        config: JsonObject = output if isinstance(output, dict) else {}
        if self.output_schema is not None:
            config = {**config, "format": {"type": "json_schema", "schema": self.output_schema}}
        if config:
            body["output_config"] = config
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a provider's model can do; read from the dated rules file, never guessed in code."""

    window: int = 200_000
    max_output: int = 8_192
    streaming: bool = True
    structured_output: bool = False
    system_messages: bool = False
    """Takes `role: "system"` inside the conversation."""
    binds_thinking: bool = False
    """Thinking blocks are valid only while every byte before them stays the same."""
    counts_tokens: bool = False
    cache_markers: bool = False
    """Takes `cache_control` on blocks."""
    refreshes: bool = False
    """A request with `max_tokens` zero reads the cache, generates nothing, and what it read lives on."""


class Provider(Protocol):
    """An adapter that completes views."""

    @property
    def name(self) -> str:
        """For people: `anthropic`, `openai`, `embedded`, `scripted`."""
        ...

    def capabilities(self, model: str) -> Capabilities:
        """What this model can do here; asked for often, so it should cost nothing."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Events as they come; the last one is always the whole `Reply`.

        Closing the generator, or cancelling the task that reads it, ends the request.
        """
        ...

    async def count_tokens(self, request: Request) -> int | None:
        """The exact prompt size, or None where the provider has no way to tell."""
        ...

    async def close(self) -> None:
        """Let go of connections; nothing is asked afterwards."""
        ...


async def complete(provider: Provider, request: Request) -> Reply:
    """The whole reply at once."""
    async with aclosing(provider.stream(request)) as events:
        async for event in events:
            if isinstance(event, Reply):
                return event
    raise AssertionError("a provider's stream ends with a Reply or raises")


LONG_WINDOW_SUFFIX = "[1m]"
"""People write it behind a model's name to mean its long window; no provider knows it."""


def capabilities_of(model: str) -> Capabilities:
    """The row of the table, in the port's words."""
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


def wire_name(model: str) -> str:
    """The model's name as its provider knows it."""
    return model.removesuffix(LONG_WINDOW_SUFFIX).strip()
