"""Adapts a session to its model: to a small window, and to what earlier sessions measured about it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from nacre import prompts
from nacre.cache.models import profile, window_size
from nacre.loop.fork import ForkTask
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Reply
from nacre.messages.records import Noted
from nacre.providers.base import Provider, ToolSupport
from nacre.providers.choose import ModelChoice, address_of
from nacre.providers.servers import OPENAI, SERVERS, ServedWindow, served_window
from nacre.session.forks import ForkRunner
from nacre.session.layer import Layer
from nacre.session.meter import SIDE_QUERY
from nacre.session.model_facts import ModelFacts, ModelFactsCache
from nacre.session.session import Session
from nacre.session.settings import DEFAULT_SETTINGS
from nacre.settings import Settings

if TYPE_CHECKING:
    from nacre.providers.text_calls import TextCallsProvider

SMALL_WINDOW = 16_384
"""Below this the usual tools and the whole manual leave too little room for a conversation."""
OUTPUT_SHARE = 0.125
SUMMARY_SHARE = 0.125
READ_SHARE = 0.125
"""Shares of a small window for one reply, one summary and one call of Read."""
MIN_SUMMARY_TOKENS = 1_000
"""Nine short sections."""
TEST = "tool call test"
"""The name of the background task that tests a model, and the purpose of its requests."""
QUIET_SECONDS = 20.0
"""A person who has been silent for so long reads, or is away."""
LOCAL_EXTRACT_TOKENS = 1_000
LOCAL_NOTES_TOKENS = 2_000
SMALL_EXTRACT_TOKENS = 400
SMALL_NOTES_TOKENS = 1_000
"""Output of one call of background work: a weak model that repeats itself must end some time."""
RESULT_CHARS_SHARE = 0.5
ROUND_CHARS_SHARE = 1.0
"""Characters for each token of a small window: of one tool result, and of all results of a round."""


def facts_cache(settings: Settings, choice: ModelChoice | None) -> ModelFactsCache | None:
    """Return where facts about the chosen model are kept; None for the embedded engine or a caller's own."""
    if choice is None or choice.provider_name == "embedded":
        return None
    address = (address_of(choice, settings.environ) or "").rstrip("/")
    return ModelFactsCache(settings.home, choice.model, address or choice.provider_name)


async def ask_window(settings: Settings, choice: ModelChoice, facts: ModelFacts) -> ModelFacts:
    """Return the facts with the window that a server on this machine reports for an unknown model (C3).

    It is asked each time: the server may have been started again with another window.
    """
    if settings.max_context_tokens is not None or profile(choice.model).known:
        return facts
    found = await asyncio.to_thread(query_window, settings, choice)
    return replace(facts, window=found.tokens) if found else facts


def query_window(settings: Settings, choice: ModelChoice) -> ServedWindow | None:
    """Ask the server of a model for its window; None if it is not on this machine or does not say."""
    server = SERVERS.get(choice.server or "")
    url = address_of(choice, settings.environ)
    if choice.provider_name != "openai" or url is None:
        return None
    key = (server or OPENAI).key(settings.environ)
    return served_window(url, choice.model, server=server, key=key)


def adapt_to_model(settings: Settings, model: str, facts: ModelFacts, *, is_local: bool = False) -> Settings:
    """Return the settings of a session with this model; its `profile` is `small` or `full` (C3b).

    Values that the person set are kept.
    """
    if settings.max_context_tokens is None and facts.window and not profile(model).known:
        settings = replace(settings, max_context_tokens=facts.window)
    if is_local:
        settings = _yielding(settings)
    if facts.tool_calls == "none":
        settings = replace(settings, switches=replace(settings.switches, agents=False))
    window = window_size(model, settings.max_context_tokens)
    is_small = settings.profile == "small" or (settings.profile == "auto" and window < SMALL_WINDOW)
    if not is_small:
        return replace(settings, profile="full")

    def lowered(name: str, given: int, limit: float) -> int:
        return min(given, int(limit)) if settings.origin(name) == "default" else given

    offload = settings.offload
    compaction = settings.compaction
    chars = window * RESULT_CHARS_SHARE
    output = min(DEFAULT_SETTINGS.max_output, int(window * OUTPUT_SHARE))
    summary = max(MIN_SUMMARY_TOKENS, window * SUMMARY_SHARE)
    return replace(
        settings,
        profile="small",
        max_output_tokens=settings.max_output_tokens or output,
        switches=replace(settings.switches, agents=False, skills=False),
        tools=replace(settings.tools, read_tokens=settings.tools.read_tokens or int(window * READ_SHARE)),
        offload=replace(
            offload,
            max_chars=lowered("offload.maxChars", offload.max_chars, chars),
            max_error_chars=min(offload.max_error_chars, int(chars)),
            round_chars=lowered("offload.roundChars", offload.round_chars, window * ROUND_CHARS_SHARE),
        ),
        extract=replace(settings.extract, max_output=SMALL_EXTRACT_TOKENS),
        notes=replace(settings.notes, max_output=SMALL_NOTES_TOKENS),
        compaction=replace(
            compaction,
            summary_tokens=lowered("compaction.summaryTokens", compaction.summary_tokens, summary),
        ),
    )


NO_TOOLS = (
    "{model} calls no tools: notes, summaries, extraction and dreams go by rule, and agents are off "
    "(`nacre doctor --try` tests it again)"
)


def with_text_calls(
    provider: Provider, choice: ModelChoice | None, facts: ModelFacts, cache: ModelFactsCache | None
) -> Provider:
    """Return the provider of a model that no table knows so that calls written as text are understood."""
    if choice is None or choice.provider_name != "openai" or profile(choice.model).known:
        return provider

    from nacre.providers.text_calls import TextCallsProvider  # noqa: PLC0415 - few models are unknown

    def keep(support: ToolSupport) -> None:
        if cache is not None:
            cache.update(lambda known: replace(known, tool_calls=support))

    return TextCallsProvider(provider, facts.tool_calls, on_learnt=keep)


class ToolCallTest(Layer):
    """Tests once, in a silence after a turn, whether a model calls tools at all."""

    def __init__(self, provider: TextCallsProvider, forks: ForkRunner) -> None:
        self._provider = provider
        self._forks = forks

    async def after_turn(self) -> None:
        if self._provider.support is None and not self.session.is_one_shot:
            self._forks.background.defer(TEST, self._test)

    async def _test(self) -> None:
        from nacre.providers.text_calls import PROBE, PROBE_TOKENS  # noqa: PLC0415 - see with_text_calls

        # A fork, so that the server keeps the conversation in its cache.
        name = str(self.session.base.tools[-1]["name"])
        task = ForkTask(source="side", directive=prompts.render(PROBE, tool=name), max_output=PROBE_TOKENS)
        result = await self._forks(task)
        if self._provider.support is None:
            self._provider.learn("native" if any(one.tool_calls for one in result.replies) else "none")
        if self._provider.support == "none":
            self.session.notify(NO_TOOLS.format(model=self.session.base.model))


def add_tool_call_test(session: Session, provider: Provider, forks: ForkRunner, *, is_local: bool) -> None:
    """Test a model on this machine that was not tested yet; say what is off for one that calls no tools."""
    if provider.name == "embedded" or not session.base.tools:
        return
    from nacre.providers.text_calls import TextCallsProvider  # noqa: PLC0415 - see with_text_calls

    if not isinstance(provider, TextCallsProvider):
        return

    def pay(reply: Reply) -> None:
        session.add_usage(reply.usage, reply.model, purpose=TEST)
        model = session.pricing_model(reply.model)
        facts: JsonObject = {"purpose": TEST, "model": model, "usage": reply.usage.as_json()}
        note = Noted(id=session.clock.new_id(), at=session.clock.now(), kind=SIDE_QUERY, facts=facts)
        forks.background.record(note)

    provider.on_test = pay
    if provider.support == "none":
        session.notify(NO_TOOLS.format(model=session.base.model))
    elif provider.support is None and is_local:
        session.add_layers(ToolCallTest(provider, forks))


def _yielding(settings: Settings) -> Settings:
    """Return the settings for a model on this machine, whose slots and time the person needs first."""
    given = settings.background.quiet_seconds
    return replace(
        settings,
        background=replace(settings.background, quiet_seconds=QUIET_SECONDS if given is None else given),
        extract=replace(settings.extract, max_output=LOCAL_EXTRACT_TOKENS),
        notes=replace(settings.notes, max_output=LOCAL_NOTES_TOKENS),
    )


def use_model_facts(
    session: Session, facts: ModelFacts, cache: ModelFactsCache | None, stack: AsyncExitStack
) -> None:
    """Start a session with measured sizes, and keep what it measures when the stack is closed.

    Without a cache nothing is kept.
    """
    session.calibration = facts.calibration(session.base)
    if cache is None:
        return

    def keep() -> None:
        window = session.learnt_window
        cache.update(
            lambda known: replace(
                known.measured(session.base, session.calibration), window=window or known.window
            )
        )

    stack.callback(keep)
