"""What the agent is told about its memory: static text for the system prompt (M19-M21).

The same bytes for every project: no path, no date, no count. What varies rides in the first message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre import prompts
from nacre.messages.untrusted_text import neutralise

Form: TypeAlias = Literal["daily", "team", "private", "none"]
"""How memory is kept, in the order in which the forms are considered (M19)."""
AgentScope: TypeAlias = Literal["user", "project", "local"]
"""How far the memory of an agent type reaches (M26)."""

MAX_EXTRA_CHARS = 8_000
"""Guidelines from the environment reach every request; more than this is a document, not a guideline."""

_NAMES = (
    "manual_private manual_team manual_daily manual_recall_only manual_agent manual_read_only "
    "scope_user scope_project scope_local kinds kinds_team not_saved "
    "saving saving_team saving_daily saving_one_step looking looking_read_only "
    "before_acting other_places searching extra"
)
_TEXTS = {name: prompts.load(__package__, name) for name in _NAMES.split()}
_SCOPES: dict[AgentScope, str] = {
    "user": _TEXTS["scope_user"],
    "project": _TEXTS["scope_project"],
    "local": _TEXTS["scope_local"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualMode:
    """Which manual a session needs; everything that may change its bytes."""

    form: Form = "private"
    has_index: bool = True
    """Off: nothing but recall finds a memory, and saving is one step."""
    is_read_only: bool = False
    """The directory could not be made or cannot be written."""
    agent_scope: AgentScope | None = None
    """Set for a sub-agent with a memory of its own."""
    search_tool: str = ""
    """The tool that searches files in this session; empty leaves the section out."""
    extra_guidelines: str = ""
    """From NACRE_MEMORY_EXTRA_GUIDELINES."""


def form_of(*, is_on: bool, is_daily: bool = False, has_team: bool = False) -> Form:
    """The form of memory that applies: daily, then team, then private, then none."""
    if not is_on:
        return "none"
    return "daily" if is_daily else "team" if has_team else "private"


def manual(mode: ManualMode) -> str:
    """The manual as it stands in the system prompt; empty without a memory."""
    if mode.form == "none":
        return ""
    sections = _reading(mode) if mode.is_read_only else _keeping(mode)
    if mode.search_tool:
        tool = f"`{neutralise(mode.search_tool)}`"
        sections.append(prompts.render(_TEXTS["searching"], tool=tool))
    if guidelines := mode.extra_guidelines.strip():
        guidelines = neutralise(guidelines[:MAX_EXTRA_CHARS])
        sections.append(prompts.render(_TEXTS["extra"], guidelines=guidelines))
    return "\n\n".join(sections)


def _reading(mode: ManualMode) -> list[str]:
    """What there is to know when nothing can be saved."""
    scope = [_SCOPES[mode.agent_scope]] if mode.agent_scope else []
    return [_TEXTS["manual_read_only"], *scope, _TEXTS["looking_read_only"], _TEXTS["before_acting"]]


def _keeping(mode: ManualMode) -> list[str]:
    form = "private" if mode.agent_scope else mode.form
    return [
        _opening(mode),
        _TEXTS["kinds_team" if form == "team" else "kinds"],
        _TEXTS["not_saved"],
        _TEXTS[_saving(form, has_index=mode.has_index)],
        _TEXTS["looking"],
        _TEXTS["before_acting"],
        _TEXTS["other_places"],
    ]


def _opening(mode: ManualMode) -> str:
    if mode.agent_scope:
        return prompts.render(_TEXTS["manual_agent"], scope=_SCOPES[mode.agent_scope])
    if mode.form == "private" and not mode.has_index:
        return _TEXTS["manual_recall_only"]
    return _TEXTS[f"manual_{mode.form}"]


def _saving(form: Form, *, has_index: bool) -> str:
    # The log of a day and the two scopes have indexes of their own; only private memory goes without one.
    if form in {"daily", "team"}:
        return f"saving_{form}"
    return "saving" if has_index else "saving_one_step"
