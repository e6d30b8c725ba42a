"""The memories a selector chooses from: a line each, newest first, each name meaning one file (R3, R4)."""

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
"""What a small model reads in one go without losing the middle (R3)."""
MAX_MANIFEST_CHARS = 100_000
"""About 25,000 tokens: 200 lines are far shorter unless somebody made them long on purpose."""
USER_PREFIX = "user/"
"""How a file of the person's own memory for all projects is called beside a project's."""
_USER_FOLDER = "memory"
_PROJECTS = "projects"
"""A project's memory lies in `projects/<slug>/memory`, the person's in `memory` right below the home."""
_NO_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is shown, and which memory each name in it means."""

    text: str
    names: Mapping[str, RankedMemory]


def manifest(candidates: Sequence[RankedMemory]) -> Manifest:
    """The first 200 candidates, newest first; where there are more, the ranking has chosen (R9)."""
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
    """Each memory once, under a name that no other has: the short one, else the whole path."""
    prefixes = _prefixes(candidates)
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


def _prefixes(candidates: Sequence[RankedMemory]) -> dict[Path, str]:
    """What stands before the files of each directory; one that is alone beside a team's needs nothing."""
    directories = dict.fromkeys(one.directory for one in candidates)
    own = [one for one in directories if one.name != TEAM]
    prefixes = {one: TEAM_PREFIX for one in directories if one.name == TEAM}
    return prefixes | {one: USER_PREFIX if len(own) > 1 and _is_users(one) else "" for one in own}


def _is_users(directory: Path) -> bool:
    return directory.name == _USER_FOLDER and directory.parent.parent.name != _PROJECTS


def _plain(text: str) -> str:
    """One line that cannot pass for the program's own words."""
    return neutralise(wording.one_line(text))


MAX_OUTPUT_TOKENS = 256
"""Five names and the JSON around them (R5)."""
MAX_MESSAGE_CHARS = 8_000
"""About 2,000 tokens: what a message is about shows in its beginning and its end; a pasted log is neither."""
MAX_TOOLS = 20
MAX_TOOL_CHARS = 100
"""Tools of other people's servers have names of any length."""
MAX_ANSWER_CHARS = 8_192
"""A longer answer is none: 256 tokens are far shorter."""
MAX_TRIES = 20
"""Brackets in an answer that are looked behind for JSON: prose around it has a few, not many."""
SELECTED = "selected_memories"
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {SELECTED: {"type": "array", "items": {"type": "string"}}},
    "required": [SELECTED],
    "additionalProperties": False,
}
REFUSAL = "refusal"
"""The stop reason of a model that will not answer."""

_SYSTEM = prompts.load(__package__, "select")
_JSON = prompts.load(__package__, "select_json")
_ASK = prompts.load(__package__, "select_ask")
_ASK_TOOLS = prompts.load(__package__, "select_ask_tools")
_LEFT_OUT = prompts.load(__package__, "select_left_out")
_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the selector chose."""

    chosen: tuple[RankedMemory, ...] = ()
    """In the order of the ranking."""
    usage: Usage | None = None
    """None when no answer came; to be booked as `memdir_relevance`."""
    problem: str = ""
    """Why nothing was chosen, if that was not the selector's will (R6)."""


async def select(
    query: RecallQuery,
    candidates: Sequence[RankedMemory],
    provider: Provider,
    model: str,
    *,
    timeout: float,  # noqa: ASYNC109 - running out of it is an answer, not an error
) -> Selection:
    """The at most five memories a model is sure about; never raises but when cancelled.

    The caller has taken out what may not be shown: seen before, untrusted, local-only (R7, M16b, M27).
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
    # Models invent names: only those of the manifest count, which holds them in the order of the ranking.
    chosen = tuple(one for name, one in listed.names.items() if name in names)
    return Selection(chosen=chosen[:MAX_PICKS], usage=reply.usage)


def ask(query: RecallQuery, listed: Manifest, model: str, *, has_schema: bool) -> Request:
    """The side query; same memories, message and tools: same bytes."""
    system = _SYSTEM if has_schema else f"{_SYSTEM}\n\n{_JSON}"
    message = neutralise(_shortened(query.text))
    shown = (_clean_name(name) for name in query.recent_tools)
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


def _clean_name(name: str) -> str:
    return wording.clipped(neutralise(wording.one_line(name)), MAX_TOOL_CHARS)


def _shortened(text: str) -> str:
    """Beginning and end of a long message, and how much is missing between them."""
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    half = MAX_MESSAGE_CHARS // 2
    note = prompts.render(_LEFT_OUT, count=f"{len(text) - 2 * half:,}")
    return f"{text[:half]}\n{note}\n{text[-half:]}"


def _selected_names(reply: Reply) -> frozenset[str] | None:
    """What the answer names; None when it is no answer. Models without a schema wrap their JSON in words."""
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
