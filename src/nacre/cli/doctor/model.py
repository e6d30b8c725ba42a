"""What `nacre doctor` says about the model: where its window comes from, and whether it calls tools."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nacre.cli.doctor.memory import Check, note
from nacre.errors import ConfigError, NacreError
from nacre.providers.choose import ModelChoice
from nacre.settings import Settings

if TYPE_CHECKING:
    from nacre.providers.base import ToolSupport

_SUPPORT: dict[str, str] = {
    "native": "the model calls tools",
    "text": "the model writes tool calls as text; nacre understands them",
    "none": (
        "the model calls no tools: notes, summaries, extraction and dreams go by rule, agents are off; "
        "recall works"
    ),
}


def window_checks(settings: Settings, choice: ModelChoice) -> list[Check]:
    """Return the window that a session would have, and where the figure comes from."""
    if choice.provider_name == "embedded":
        return []
    from nacre.app.model_profile import facts_cache, query_window
    from nacre.cache.models import profile, use_model_table, window_size, with_overrides

    use_model_table(with_overrides({"models": settings.models}))
    row = profile(choice.model)
    given = settings.max_context_tokens
    served = None if row.known else query_window(settings, choice)
    if served is not None and given is not None and given > served.tokens:
        message = (
            f"maxContextTokens is {given:,}, but the server has a window of {served.tokens:,} "
            f"({served.source}); lower it, or start the server with a larger one"
        )
        return [Check("window", ok=False, message=message)]
    cache = facts_cache(settings, choice)
    learnt = cache.read().window if cache else None
    if given is not None:
        source = f"maxContextTokens, {settings.origin('maxContextTokens')}"
    elif row.known or choice.model.endswith("[1m]"):
        source = "the table of models"
    elif served is not None:
        source = f"asked of the server, {served.source}"
        given = served.tokens
    elif learnt:
        source = "named by the server when it refused a prompt"
        given = learnt
    else:
        source = "assumed: no table knows the model, no server on this machine says; set maxContextTokens"
    return [note("window", f"{window_size(choice.model, given):,} tokens: {source}")]


def tool_call_checks(settings: Settings, choice: ModelChoice, *, tries: bool) -> list[Check]:
    """Return how the model calls tools, if that is known; `tries` sends a request to find out."""
    if choice.provider_name == "embedded":
        return [note("tool calls", "there is no model to try")] if tries else []
    from nacre.app.model_profile import facts_cache

    cache = facts_cache(settings, choice)
    if cache is None:
        return []
    support = cache.read().tool_calls
    if tries:
        try:
            import asyncio

            support = asyncio.run(_tried(settings, choice))
        except NacreError as error:
            return [Check("tool calls", ok=False, message=str(error))]
        cache.update(lambda known: replace(known, tool_calls=support))
    if support is None:
        return []
    return [note("tool calls", _SUPPORT[support])]


def recall_checks(settings: Settings) -> list[Check]:
    """Return whether a small model chooses memories, and why."""
    if not (settings.memory.is_on and settings.switches.recall):
        return [note("recall", "off")]
    from nacre.app.recall_once import choose_selector

    try:
        choice, reason = choose_selector(settings)
    except ConfigError as error:
        return [Check("recall", ok=False, message=str(error))]
    if choice is None:
        return [note("recall", f"by the local index alone: {reason}")]
    wait = settings.recall.selector_wait_ms
    return [
        note("recall", f"by the local index and {choice.model}, for up to {wait:,} ms a message: {reason}")
    ]


async def _tried(settings: Settings, choice: ModelChoice) -> ToolSupport:
    from nacre.app.open_agent import build_provider
    from nacre.providers.text_calls import probe, probe_request

    provider = build_provider(choice, settings)
    try:
        return await probe(provider, probe_request(choice.model))
    finally:
        await provider.close()
