"""A level of thinking in the form of each API (P8); a level that a model does not have is left out."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.cache.models import ModelProfile, ThinkingLevel
from nacre.messages.blocks import JsonObject
from nacre.providers.servers import ThinkingField

BUDGETS: dict[ThinkingLevel, int] = {"low": 4_096, "medium": 10_240, "high": 24_576}
"""Tokens of thinking for models that take a budget; the API's minimum is 1,024."""
MIN_BUDGET = 1_024
_THINKING = frozenset({"thinking", "redacted_thinking"})


def thinking_config(
    row: ModelProfile, level: ThinkingLevel | None, messages: Sequence[JsonObject]
) -> JsonObject | None:
    """Return the `thinking` field of the Messages API; None leaves it out."""
    if level is None or not row.thinking:
        return None
    if level == "off":
        # `omit` is for models that think only if they are asked to.
        return None if row.thinking_off in {"", "omit"} else {"type": row.thinking_off}
    if row.thinking_form != "budget":
        return {"type": "adaptive"}
    if _is_in_tool_round(messages):
        return None
    budget = min(BUDGETS[level], row.max_output - MIN_BUDGET)
    return {"type": "enabled", "budget_tokens": max(MIN_BUDGET, budget)}


def _is_in_tool_round(messages: Sequence[JsonObject]) -> bool:
    """Return whether the last reply called tools without thinking: a budget is refused until it is over."""
    last = next((one for one in reversed(messages) if one.get("role") == "assistant"), {})
    content = last.get("content")
    blocks = content if isinstance(content, list) else []
    kinds = [block.get("type") for block in blocks if isinstance(block, dict)]
    return "tool_use" in kinds and kinds[0] not in _THINKING


def output_effort(row: ModelProfile, level: ThinkingLevel | None) -> str | None:
    """Return the `output_config.effort` of the Messages API; None leaves it out."""
    if level is None or level == "off" or not row.thinking or row.thinking_form == "budget":
        return None
    return level if level in row.thinking_levels else None


def chat_thinking(row: ModelProfile, level: ThinkingLevel | None, field: ThinkingField) -> JsonObject:
    """Return the fields of chat completions; servers of open models pass values to the chat template."""
    effort = reasoning_effort(row, level)
    if effort is None:
        return {}
    if field == "reasoning_effort":
        return {"reasoning_effort": effort}
    # Templates that know neither value ignore both.
    values: JsonObject = {"enable_thinking": level != "off"}
    return {"chat_template_kwargs": values if level == "off" else {**values, "reasoning_effort": effort}}


def reasoning_effort(row: ModelProfile, level: ThinkingLevel | None) -> str | None:
    """Return the reasoning effort of OpenAI's APIs; None leaves it out."""
    if level is None or level not in row.thinking_levels:
        return None
    if level != "off":
        return level
    off = row.thinking_off if row.known else "none"
    return None if off == "omit" else off
