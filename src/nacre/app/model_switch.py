"""Another model or level of thinking for an open chat: what can be chosen, and what the change costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nacre.app.endings import Reopen
from nacre.cache.models import ModelProfile, ThinkingLevel, check_thinking, model_names, profile
from nacre.errors import ConfigError
from nacre.formatting import human_count
from nacre.providers.choose import EMBEDDED, choose, require_installed
from nacre.providers.servers import GEMINI
from nacre.session.base_change import uncached_price
from nacre.session.log_writer import NullRecordWriter
from nacre.session.session import Session
from nacre.settings import Settings

AUTO = "auto"
"""Leaves thinking to the model."""


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that can be chosen."""

    name: str
    line: str
    """Name, prices and window."""


def offered_models(session: Session, environ: Mapping[str, str]) -> list[OfferedModel]:
    """Return the models with a known price for whose vendor a key is set, and the current one."""
    vendors = {EMBEDDED}
    vendors |= {"anthropic"} if environ.get("ANTHROPIC_API_KEY") else set()
    vendors |= {"openai"} if environ.get("OPENAI_API_KEY") else set()
    vendors |= {"google"} if GEMINI.key(environ) else set()
    now = session.base.model
    names = [name for name in model_names() if (row := profile(name)).provider in vendors and row.prices]
    names = names if now in names else [now, *names]
    return [OfferedModel(name, _line(profile(name), is_current=name == now)) for name in names]


def _line(row: ModelProfile, *, is_current: bool) -> str:
    tier = row.tier(0)
    price = f"${tier.input:g} in, ${tier.output:g} out per million" if tier else "price unknown"
    mark = "●" if is_current else " "
    return f"{mark} {row.model:<22}{price:<34}{human_count(row.window)} tokens"


def checked_model(name: str, session: Session, environ: Mapping[str, str]) -> Reopen:
    """Return how the chat goes on with a model; raises `ConfigError` if that is not possible."""
    is_stored = not isinstance(session.writer, NullRecordWriter)
    if session.view.items and not is_stored:
        raise ConfigError(
            "this chat leaves nothing on disk from which another model could continue; "
            f"start one with --model {name}"
        )
    require_installed(choose(name, environ))
    if session.view.items:
        return Reopen(session.id, model=name)
    return Reopen("new" if is_stored else None, model=name)


def settings_for(settings: Settings, session: Session, to: Reopen) -> Settings:
    """Return the settings of the next session of a chat: its model, and the level of thinking in force."""
    level = session.settings.thinking
    if to.model is None:
        return replace(settings, thinking=level)
    levels = profile(choose(to.model, settings.environ).model).thinking_levels
    return replace(settings, model=to.model, thinking=level if level in levels else None)


def switch_note(session: Session, model: str) -> str:
    """Return what it would cost to continue with a model."""
    if model == session.base.model:
        return "answers now"
    if session.view.last_reply is None:
        return "nothing was sent yet, so that the change costs nothing"
    tokens = session.tokens
    usd = uncached_price(model, tokens)
    price = "" if usd is None else f", about ${usd:.4f}"
    return f"the next message sends about {tokens:,} tokens without the prompt cache{price}"


def set_thinking(session: Session, level: str) -> list[str]:
    """Let the model think at a level from the next request on; returns what that means."""
    model = session.base.model
    levels = profile(model).thinking_levels
    if level != AUTO and level not in levels:
        known = ", ".join((*levels, AUTO)) if levels else "no level"
        raise ConfigError(f"{model} cannot be asked with thinking={level}; it takes {known}")
    chosen: ThinkingLevel | None = next((one for one in levels if one == level), None)
    check_thinking(model, chosen)
    session.settings = replace(session.settings, thinking=chosen)
    lines = [thinking_line(session)]
    if cost := session.announce_base_change():
        lines.append(cost)
    return [*lines, warmth_note(session)]


def thinking_note(session: Session, level: str) -> str:
    """Return what a level of thinking would mean for the cache."""
    if level == (session.settings.thinking or AUTO):
        return "in force now"
    known = session.view.last_reply is not None
    lost = "the next message is sent without the prompt cache" if known else "nothing is cached yet"
    return f"{lost}; {warmth_note(session, level)}"


def thinking_line(session: Session) -> str:
    """Return the level of thinking in force and those that can be chosen."""
    level = session.settings.thinking
    return f"thinking: {level or f'{AUTO} (the model decides)'}"


def warmth_note(session: Session, level: str = "") -> str:
    """Return what a level of thinking, by default the one in force, means for refreshes in pauses."""
    row = session.profile
    level = level or session.settings.thinking or AUTO
    if session.keep_warm is None or not row.refreshes:
        return "the cache is not refreshed during pauses in any case"
    if row.thinking_form == "budget" and level not in {"off", AUTO}:
        return "the cache is not refreshed during pauses: requests with a budget of thinking cannot be"
    return "the cache is refreshed during pauses as without it"
