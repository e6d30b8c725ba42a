"""A small model chooses among the memories, concurrently with the reply (R3-R6).

It sees the message, a manifest with one line per memory, and the tools in use: nothing else of the
conversation. A failure is an empty selection with the reason.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nacre import prompts
from nacre.errors import NacreError
from nacre.memory.files.folder import TEAM, TEAM_PREFIX
from nacre.memory.files.scan import manifest_line
from nacre.memory.format import entry as wording
from nacre.memory.recall.base import MAX_PICKS, RankedMemory, RecallQuery
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import Reply
from nacre.messages.untrusted_text import neutralise
from nacre.messages.usage import Usage
from nacre.providers.base import Provider, Request, complete

MAX_MANIFEST_LINES = 200
"""As many as a small model reads without losing the middle (R3)."""
MAX_MANIFEST_CHARS = 100_000
"""About 25,000 tokens: 200 lines are far shorter unless made long on purpose."""
USER_PREFIX = "user/"
"""Prefix of a file of the user's memory for all projects, beside those of a project."""
_USER_FOLDER = "memory"
_PROJECTS = "projects"
"""A project's memory is in `projects/<slug>/memory`, the user's in `memory` below the home."""
_NO_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The text that is shown, and the memory of each name in it."""

    text: str
    names: Mapping[str, RankedMemory]


def manifest(candidates: Sequence[RankedMemory]) -> Manifest:
    """Return the manifest of the first 200 candidates, newest first (R9)."""
    names: dict[str, RankedMemory] = {}
    lines: list[tuple[datetime, str, str]] = []
    room = MAX_MANIFEST_CHARS
    for name, ranked in _named(candidates):
        line = manifest_line(replace(ranked.entry, file=name, description=_plain(ranked.entry.description)))
        room -= len(line) + 1
        if room < 0 or len(lines) == MAX_MANIFEST_LINES:
            break
        names[name] = ranked
        lines.append((ranked.entry.written or _NO_TIME, name, line))
    # By name first: the second sort keeps that order among files of one moment.
    lines.sort(key=lambda one: one[1])
    lines.sort(key=lambda one: one[0], reverse=True)
    return Manifest("\n".join(line for _, _, line in lines), names)


def _named(candidates: Sequence[RankedMemory]) -> Iterator[tuple[str, RankedMemory]]:
    """Yield each memory once with a unique name: the short one, else the whole path."""
    directories = dict.fromkeys(one.directory for one in candidates)
    prefixes = {one: TEAM_PREFIX if one.name == TEAM else "" for one in directories}
    own = [one for one in directories if one.name != TEAM]
    if len(own) > 1:
        # The only directory beside a team's needs no prefix.
        users = (one for one in own if one.name == _USER_FOLDER and one.parent.parent.name != _PROJECTS)
        prefixes |= dict.fromkeys(users, USER_PREFIX)
    taken: set[str] = set()
    seen: set[Path] = set()
    for one in candidates:
        if one.path in seen:
            continue
        seen.add(one.path)
        for spelling in (prefixes[one.directory] + one.entry.file, str(one.path)):
            if (name := _plain(spelling)) not in taken:
                taken.add(name)
                yield name, one
                break


def _plain(text: str) -> str:
    """Return text as one line that cannot imitate tags of the program."""
    return neutralise(wording.one_line(text))


MAX_OUTPUT_TOKENS = 256
"""Five names and the JSON around them (R5)."""
MAX_MESSAGE_CHARS = 8_000
"""About 2,000 tokens: the beginning and the end of a message tell what it is about."""
MAX_TOOLS = 20
MAX_TOOL_CHARS = 100
"""Tools of MCP servers have names of any length."""
MAX_ANSWER_CHARS = 8_192
"""A longer answer is invalid: 256 tokens are far shorter."""
MAX_TRIES = 20
"""Brackets in an answer that are tried as the start of JSON."""
SELECTED = "selected_memories"
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {SELECTED: {"type": "array", "items": {"type": "string"}}},
    "required": [SELECTED],
    "additionalProperties": False,
}
REFUSAL = "refusal"
"""The stop reason of a model that refuses."""

_SYSTEM = prompts.load(__package__, "select")
_JSON = prompts.load(__package__, "select_json")
_ASK = prompts.load(__package__, "select_ask")
_ASK_TOOLS = prompts.load(__package__, "select_ask_tools")
_LEFT_OUT = prompts.load(__package__, "select_left_out")
_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The memories that the model chose."""

    chosen: tuple[RankedMemory, ...] = ()
    """In the order of the ranking."""
    usage: Usage | None = None
    """None without an answer; recorded as `memdir_relevance`."""
    problem: str = ""
    """Why the selection failed (R6); empty when the model chose none."""


async def select(
    query: RecallQuery,
    candidates: Sequence[RankedMemory],
    provider: Provider,
    model: str,
    *,
    timeout: float,  # noqa: ASYNC109 - running out of it is an answer, not an error
) -> Selection:
    """Return at most five memories that the model chooses; raises only when cancelled.

    The caller has removed memories that were seen before, are untrusted or local-only (R7, M16b, M27).
    """
    listed = manifest(candidates)
    if not listed.names:
        return Selection()
    has_schema = provider.capabilities(model).structured_output
    try:
        async with asyncio.timeout(timeout):
            reply = await complete(provider, ask(query, listed, model, has_schema=has_schema))
    except TimeoutError:
        return Selection(problem=f"the selector did not answer within {timeout:g} seconds")
    except NacreError as error:
        return Selection(problem=wording.one_line(f"the selector failed: {error}"))
    names = _selected_names(reply)
    if names is None:
        said = "refused" if reply.stop_reason == REFUSAL else "answered something other than a list of names"
        return Selection(usage=reply.usage, problem=f"the selector {said}")
    # Models invent names: only those of the manifest count, in the order of the ranking.
    chosen = tuple(one for name, one in listed.names.items() if name in names)
    return Selection(chosen=chosen[:MAX_PICKS], usage=reply.usage)


def ask(query: RecallQuery, listed: Manifest, model: str, *, has_schema: bool) -> Request:
    """Return the request; the same memories, message and tools give the same bytes."""
    system = _SYSTEM if has_schema else f"{_SYSTEM}\n\n{_JSON}"
    message = query.text
    if len(message) > MAX_MESSAGE_CHARS:
        half = MAX_MESSAGE_CHARS // 2
        note = prompts.render(_LEFT_OUT, count=f"{len(message) - 2 * half:,}")
        message = f"{message[:half]}\n{note}\n{message[-half:]}"
    message = neutralise(message)
    shown = (wording.clipped(_plain(name), MAX_TOOL_CHARS) for name in query.recent_tools)
    tools = ", ".join(list(dict.fromkeys(filter(None, shown)))[:MAX_TOOLS])
    text = (
        prompts.render(_ASK_TOOLS, manifest=listed.text, message=message, tools=tools)
        if tools
        else prompts.render(_ASK, manifest=listed.text, message=message)
    )
    return Request(
        model=model,
        system=[{"type": "text", "text": system}],
        messages=[{"role": "user", "content": [{"type": "text", "text": text}]}],
        max_tokens=MAX_OUTPUT_TOKENS,
        output_schema=SCHEMA if has_schema else None,
    )


def _selected_names(reply: Reply) -> frozenset[str] | None:
    """Return the names of an answer; None when it has no list. Models without a schema add prose to JSON."""
    text = reply.message.text[:MAX_ANSWER_CHARS]
    place = 0
    if reply.stop_reason == REFUSAL:
        return None
    for _ in range(MAX_TRIES):
        opening = _OPENING.search(text, place)
        if opening is None:
            return None
        try:
            value, place = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            place = opening.end()
            continue
        listed: Json = value.get(SELECTED) if isinstance(value, dict) else value
        if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
            return frozenset(str(name).strip() for name in listed)
    return None
