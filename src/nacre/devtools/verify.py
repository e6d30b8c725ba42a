"""Checks the simulator's assumptions about a provider against its API (P10), for a few cents at most.

Each request is estimated before it is sent; one that could exceed the limit is not sent, and its check is
reported as not made. What is assumed comes from the table of models, which the simulator uses, too.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import httpx2

from nacre.cache.models import ModelProfile, cost, profile
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, ProviderError
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import estimate_json
from nacre.messages.usage import Usage
from nacre.providers import anthropic, failures, openai, openai_responses
from nacre.providers.base import wire_name
from nacre.providers.choose import ModelChoice, address_of

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

MAX_USD = 0.10
"""The most that a run may cost."""
MARGIN = 1.6
"""Tokenizers differ from the estimate by less than this, so that estimated costs are upper bounds."""
SHORT_OUTPUT = 64
"""Output tokens of a request whose answer does not matter."""
LONG_OUTPUT = 2_000
"""Output tokens of the request that is worth a thought."""
WAIT_SECONDS = 200.0
"""Two such pauses are longer than the five minutes that an entry lives, one is shorter."""
QUESTION = (
    "A farmer has 17 sheep, all but 9 run away, he buys twice as many as are left and sells a third of all. "
    "How many different rectangular pens with whole sides could have as many square metres as he has sheep?"
)
"""Takes a few steps, so that a model that thinks by default does."""

State = Literal["holds", "differs", "not checked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One assumption and what the API did."""

    name: str
    assumed: str
    found: str
    state: State

    def as_json(self) -> JsonObject:
        return {"name": self.name, "assumed": self.assumed, "found": self.found, "state": self.state}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to one request."""

    status: int
    body: JsonObject

    @property
    def is_refused(self) -> bool:
        return self.status >= failures.INVALID

    @property
    def message(self) -> str:
        """What the API said in a refusal, on one line."""
        error = self.body.get("error", self.body)
        said = error.get("message") if isinstance(error, dict) else None
        return " ".join(str(said or self.body).split())[:160]


class TooExpensive(Exception):  # noqa: N818 - ends one check and is reported as its result
    """Raised instead of a request that could exceed the limit."""


@dataclass(slots=True, kw_only=True)
class Probe:
    """Sends requests within a limit and keeps what was said."""

    model: str
    client: AsyncAnthropic | AsyncOpenAI
    sdk_error: type[Exception]
    """The base class of the errors that the client raises."""
    limit_usd: float = MAX_USD
    record: Path | None = None
    """A folder for requests and responses."""
    key: str = ""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Clock = SYSTEM_CLOCK
    spent_usd: float = 0.0
    requests: int = 0
    nonce: str = ""

    def __post_init__(self) -> None:
        if not self.row.prices:
            raise ConfigError(
                f"no price of {self.model} is known, so that ${self.limit_usd:.2f} cannot be kept; "
                "name another model with --model"
            )
        # A text that no earlier run has sent, or the first request would find it in the cache.
        self.nonce = self.nonce or self.clock.new_id()

    @property
    def row(self) -> ModelProfile:
        return profile(self.model)

    @property
    def cacheable(self) -> int:
        """The size of a prefix that is surely cached, in estimated tokens."""
        return int(max(self.row.min_cacheable, self.row.interval) * MARGIN)

    def filler(self, tokens: int) -> str:
        """Return a text of about so many tokens that no other run sends."""
        lines = [f"Run {self.nonce}."]
        size = 0
        while size < tokens * 4:
            number = len(lines)
            lines.append(f"{number}. The boat with number {number * 37} left the harbour before dawn.")
            size += len(lines[-1])
        return "\n".join(lines)

    async def send(self, name: str, path: str, body: JsonObject, *, max_output: int = 0) -> Answer:
        """Send one request; `max_output` is what its answer may cost at most."""
        tier = self.row.tier(0)
        assert tier is not None, "checked when the probe was made"
        rate = max(tier.input, tier.write_5m)
        worst = (estimate_json(body) * MARGIN * rate + max_output * tier.output) / 1_000_000
        if self.spent_usd + worst > self.limit_usd:
            raise TooExpensive(f"could cost ${worst:.4f}, and ${self.spent_usd:.4f} is spent")
        answer = await self._post(path, body)
        self.requests += 1
        if not answer.is_refused:
            self.spent_usd += cost(self.row, usage_of(answer.body)) or 0.0
        if self.record is not None:
            self._write(name, path, body, answer)
        if answer.status in failures.REFUSED or answer.status in failures.TEMPORARY:
            raise self._error(answer)
        return answer

    async def _post(self, path: str, body: JsonObject) -> Answer:
        try:
            found = await self.client.post(path, cast_to=object, body=body, options={"max_retries": 0})
        except (self.sdk_error, httpx2.TransportError) as error:
            status = getattr(error, "status_code", None)
            if not isinstance(status, int):
                url = str(self.client.base_url)
                raise failures.lost(error, provider=self.row.provider, url=url, silence=0) from error
            said = getattr(error, "body", None)
            return Answer(status=status, body=said if isinstance(said, dict) else {"message": str(error)})
        return Answer(status=200, body=found if isinstance(found, dict) else {})

    def _error(self, answer: Answer) -> ProviderError:
        refusal = failures.ProviderRefusal(status=answer.status, message=answer.message, headers={})
        name = "ANTHROPIC_API_KEY" if self.row.provider == "anthropic" else "OPENAI_API_KEY"
        return failures.error_of(refusal, provider=self.row.provider, key_variable=name)

    def _write(self, name: str, path: str, body: JsonObject, answer: Answer) -> None:
        assert self.record is not None
        self.record.mkdir(parents=True, exist_ok=True)
        shape: JsonObject = {
            "request": {"path": path, "body": body},
            "response": {"status": answer.status, "body": answer.body},
        }
        text = json.dumps(self._without_key(shape), ensure_ascii=False, indent=1)
        file = self.record / f"{self.requests:02d}-{name.replace(' ', '-')}.json"
        file.write_text(text + "\n", encoding="utf-8")

    def _without_key(self, value: Json) -> Json:
        """Return a value with the key replaced in its texts, except inside of longer words."""
        match value:
            case str() if self.key:
                return re.sub(rf"(?<!\w){re.escape(self.key)}(?!\w)", "KEY", value)
            case dict():
                return {name: self._without_key(one) for name, one in value.items()}
            case list():
                return [self._without_key(one) for one in value]
            case _:
                return value


def usage_of(body: JsonObject) -> Usage:
    """Return the usage of a whole reply of any of the three APIs."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return Usage()
    if "prompt_tokens" in usage:
        return openai.parse_usage(usage)
    if "input_tokens_details" in usage:
        return openai_responses.parse_usage(usage)
    return anthropic.parse_usage(usage)


def open_probe(
    choice: ModelChoice, environ: Mapping[str, str], *, limit_usd: float = MAX_USD, record: Path | None = None
) -> Probe:
    """Return a probe for a chosen model; `ConfigError` if it is none of Anthropic's or OpenAI's."""
    if choice.provider_name == "embedded":
        raise ConfigError(
            "verify-provider checks the APIs of Anthropic and OpenAI: set ANTHROPIC_API_KEY or "
            "OPENAI_API_KEY, and name a model with --model if need be"
        )
    if choice.server is not None:
        raise ConfigError(
            f"verify-provider checks the APIs of Anthropic and OpenAI, and not {choice.model} at "
            f"{choice.server}; name a model of theirs with --model"
        )
    address = address_of(choice, environ)
    if choice.provider_name == "anthropic":
        from anthropic import AnthropicError, AsyncAnthropic  # noqa: PLC0415  half a second, paid if used

        sdk_error: type[Exception] = AnthropicError
        key = environ.get("ANTHROPIC_API_KEY", "")
        client: AsyncAnthropic | AsyncOpenAI = AsyncAnthropic(api_key=key, base_url=address, max_retries=0)
    else:
        from openai import AsyncOpenAI, OpenAIError  # noqa: PLC0415  as above

        sdk_error = OpenAIError
        key = environ.get("OPENAI_API_KEY", "")
        client = AsyncOpenAI(api_key=key, base_url=address, max_retries=0)
    return Probe(
        model=choice.model, client=client, sdk_error=sdk_error, limit_usd=limit_usd, record=record, key=key
    )


async def verify(probe: Probe, *, wait: bool = False) -> AsyncIterator[Finding]:
    """Yield what holds and what differs; `wait` also checks the lifetime of the cache, in seven minutes."""
    is_anthropic = probe.row.provider == "anthropic"
    checks = [_cache, _short_prefix, _no_output] if is_anthropic else [_cache]
    checks += [_thinking_off] if is_anthropic else [_output_limit]
    checks += [_default_thinking]
    for check in checks:
        try:
            async for finding in check(probe):
                yield finding
        except TooExpensive as error:
            name = str(check.__name__).strip("_").replace("_", " ")
            yield Finding(name=name, assumed="-", found=str(error), state="not checked")
    if wait and is_anthropic:
        yield await _lifetime(probe)
    elif is_anthropic:
        yield Finding(
            name="cache refresh",
            assumed="a read extends the lifetime",
            found="takes seven minutes; pass --wait",
            state="not checked",
        )


def _compare(name: str, assumed: str, *, holds: bool, found: str) -> Finding:
    return Finding(name=name, assumed=assumed, found=found, state="holds" if holds else "differs")


def _request(
    probe: Probe, text: str, question: str, *, max_output: int = SHORT_OUTPUT
) -> tuple[str, JsonObject]:
    """Return path and body of a request whose instructions are cached, in the API of the model."""
    row = probe.row
    model = wire_name(probe.model)
    if row.provider == "anthropic":
        system: list[Json] = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        messages: list[Json] = [{"role": "user", "content": question}]
        return "/v1/messages", {
            "model": model,
            "max_tokens": max_output,
            "system": system,
            "messages": messages,
        }
    if row.api == "responses":
        return "/responses", {
            "model": model,
            "instructions": text,
            "input": [{"role": "user", "content": question}],
            "max_output_tokens": max_output,
            "store": False,
        }
    return "/chat/completions", {
        "model": model,
        "messages": [{"role": "system", "content": text}, {"role": "user", "content": question}],
        "max_completion_tokens": max_output,
    }


async def _cache(probe: Probe) -> AsyncIterator[Finding]:
    """A prefix is written once and read by the next request; its size is the one that was counted."""
    row = probe.row
    text = probe.filler(probe.cacheable)
    path, body = _request(probe, text, "Say yes.")
    counted: Json = None
    if row.counts_tokens:
        bare = {key: value for key, value in body.items() if key != "max_tokens"}
        answer = await probe.send("count", f"{path}/count_tokens", bare)
        counted = answer.body.get("input_tokens")
    first = usage_of((await probe.send("cache write", path, body, max_output=SHORT_OUTPUT)).body)
    second = usage_of((await probe.send("cache read", path, body, max_output=SHORT_OUTPUT)).body)
    if row.counts_tokens:
        yield _compare(
            "token count",
            "as many as are billed",
            holds=counted == first.prompt,
            found=f"{counted} counted, {first.prompt} billed",
        )
    is_charged = row.cache in {"markers", "boundaries"}
    yield _compare(
        "cache write",
        "the prefix is written" if is_charged else "writes are not charged",
        holds=bool(first.cache_write) == is_charged and not first.cache_read,
        found=f"{first.cache_write} written, {first.cache_read} read",
    )
    yield _compare(
        "cache read",
        "what was written is read",
        holds=second.cache_read > 0 and (not is_charged or second.cache_read >= first.cache_write),
        found=f"{second.cache_read} read, {second.cache_write} written",
    )


async def _short_prefix(probe: Probe) -> AsyncIterator[Finding]:
    least = probe.row.min_cacheable
    path, body = _request(probe, probe.filler(int(least / MARGIN / 1.5)), "Say no.")
    used = usage_of((await probe.send("short prefix", path, body, max_output=SHORT_OUTPUT)).body)
    yield _compare(
        "short prefix",
        f"below {least:,} tokens nothing is cached",
        holds=used.cache_write == 0,
        found=f"{used.cache_write} of {used.prompt} tokens written",
    )


async def _no_output(probe: Probe) -> AsyncIterator[Finding]:
    text = probe.filler(probe.cacheable)
    path, body = _request(probe, text, "Say yes.", max_output=0)
    answer = await probe.send("no output", path, body)
    used = usage_of(answer.body)
    is_read = not answer.is_refused and used.cache_read > 0 and used.output == 0
    yield _compare(
        "max_tokens 0",
        "reads the cache without output" if probe.row.refreshes else "is refused",
        holds=is_read == probe.row.refreshes,
        found=answer.message if answer.is_refused else f"{used.cache_read} read, {used.output} output",
    )


async def _thinking_off(probe: Probe) -> AsyncIterator[Finding]:
    path, body = _request(probe, "Be brief.", "Say yes.")
    off: JsonObject = {"thinking": {"type": "disabled"}}
    answer = await probe.send("thinking off", path, {**body, **off}, max_output=SHORT_OUTPUT)
    is_taken = probe.row.thinking_off in {"disabled", "omit"}
    yield _compare(
        "thinking disabled",
        "is accepted" if is_taken else "is refused",
        holds=answer.is_refused != is_taken,
        found=f"{answer.status}: {answer.message}" if answer.is_refused else "accepted",
    )


async def _default_thinking(probe: Probe) -> AsyncIterator[Finding]:
    """Whether a model thinks if it is not asked to, and whether that is bound to what precedes it."""
    row = probe.row
    path, body = _request(probe, "Answer in one sentence.", QUESTION, max_output=LONG_OUTPUT)
    if row.api == "responses":
        body["include"] = ["reasoning.encrypted_content"]
    answer = await probe.send("default thinking", path, body, max_output=LONG_OUTPUT)
    thoughts = _thoughts(answer.body)
    yield _compare(
        "default thinking",
        "thinks without being asked" if row.thinks else "does not think unless asked",
        holds=bool(thoughts) == row.thinks,
        found="thought" if thoughts else f"did not think ({answer.status})",
    )
    if row.provider != "anthropic":
        return
    assumed = f"{'refused' if row.binds_thinking else 'accepted'} behind a changed system prompt"
    content = answer.body.get("content")
    if not thoughts or not isinstance(content, list):
        yield Finding(
            name="bound thinking", assumed=assumed, found="no thinking to replay", state="not checked"
        )
        return
    messages = body["messages"]
    assert isinstance(messages, list)
    later: list[Json] = [*messages, {"role": "assistant", "content": content}]
    later.append({"role": "user", "content": "Thank you. Say yes."})
    _, changed = _request(probe, "Answer in two sentences.", "")
    moved: JsonObject = {**changed, "messages": later}
    replay = await probe.send("bound thinking", path, moved, max_output=SHORT_OUTPUT)
    yield _compare(
        "bound thinking",
        assumed,
        holds=replay.is_refused == row.binds_thinking,
        found=f"{replay.status}: {replay.message}" if replay.is_refused else "accepted",
    )


def _thoughts(body: JsonObject) -> int:
    """Return how much thinking a reply has: blocks at Anthropic, tokens at OpenAI."""
    content = body.get("content")
    if isinstance(content, list):
        kinds = [block.get("type") for block in content if isinstance(block, dict)]
        return kinds.count("thinking") + kinds.count("redacted_thinking")
    match body.get("usage"):
        case {"completion_tokens_details": {"reasoning_tokens": int(tokens)}} | {
            "output_tokens_details": {"reasoning_tokens": int(tokens)}
        }:
            return tokens
        case _:
            return 0


async def _output_limit(probe: Probe) -> AsyncIterator[Finding]:
    """Which of OpenAI's APIs serves a model, and under which name chat completions take the output limit."""
    row = probe.row
    chat: JsonObject = {
        "model": wire_name(probe.model),
        "messages": [{"role": "user", "content": "Say yes."}],
    }
    answer = await probe.send(
        "chat completions",
        "/chat/completions",
        {**chat, "max_completion_tokens": SHORT_OUTPUT},
        max_output=SHORT_OUTPUT,
    )
    yield _compare(
        "chat completions",
        "serve the model" if row.chat_completions else "refuse the model",
        holds=answer.is_refused != row.chat_completions,
        found=f"{answer.status}: {answer.message}" if answer.is_refused else "answered",
    )
    if answer.is_refused:
        return
    old = await probe.send(
        "max_tokens", "/chat/completions", {**chat, "max_tokens": SHORT_OUTPUT}, max_output=SHORT_OUTPUT
    )
    yield _compare(
        "max_tokens",
        "is refused" if row.thinking else "is accepted",
        holds=old.is_refused == row.thinking,
        found=f"{old.status}: {old.message}" if old.is_refused else "accepted",
    )


async def _lifetime(probe: Probe) -> Finding:
    """A read after 200 seconds extends the five minutes, so that one after 400 seconds still hits."""
    name = "cache refresh"
    assumed = "a read extends the lifetime"
    path, body = _request(probe, probe.filler(probe.cacheable), "Say maybe.")
    reads: list[int] = []
    try:
        for number in range(3):
            if number:
                await probe.sleep(WAIT_SECONDS)
            answer = await probe.send(f"refresh {number}", path, body, max_output=SHORT_OUTPUT)
            reads.append(usage_of(answer.body).cache_read)
    except TooExpensive as error:
        return Finding(name=name, assumed=assumed, found=str(error), state="not checked")
    found = f"{reads[1]} read after {WAIT_SECONDS:g} s, {reads[2]} after {2 * WAIT_SECONDS:g} s"
    return _compare(name, assumed, holds=reads[1] > 0 and reads[2] > 0, found=found)
