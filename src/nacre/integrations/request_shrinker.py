"""Shrinks the history in requests to provider APIs, for clients that send all of it each time (G5).

The client's history is followed by a session, as that of a framework is. What the layers did not change is
sent as the client wrote it, unknown fields and cache markers included.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path

from nacre.integrations.framework_session import (
    Follower,
    Following,
    FrameworkMessage,
    Layers,
    MessageToSend,
)
from nacre.layers.l2_microcompact.settings import CLEARABLE
from nacre.messages.blocks import Block, Json, JsonObject, Opaque, Role, Text, Thinking, ToolResult
from nacre.messages.foreign.requests import request_messages
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical, parse_content, render_block, render_blocks
from nacre.session.session import Base
from nacre.store.tool_results import Advice

_LOG = logging.getLogger("nacre.gateway")

READING_TOOLS = (
    "Read", "read", "read_file", "ReadFile", "readFile", "view", "view_file", "open_file", "cat",
    "Bash", "bash", "shell", "local_shell", "exec_command", "run_shell_command", "execute_bash", "terminal",
)  # fmt: skip
"""Tools that read a file of this machine, the best first."""
REPEATABLE_TOOLS = CLEARABLE | {
    *READING_TOOLS,
    "grep",
    "glob",
    "list",
    "ls",
    "search",
    "web_fetch",
    "webfetch",
}
SYSTEM_ROLES = frozenset({"system", "developer"})
SYSTEM_ITEMS = frozenset({"additional_tools"})
THINKING = frozenset({"thinking", "redacted_thinking"})
MAX_CONVERSATIONS = 32
"""Beginnings of conversations that are followed at the same time."""
MAX_BRANCHES = 4
"""Histories with the same beginning."""
KEPT = timedelta(days=30)
"""For files with long results, from the last one of a conversation."""


@dataclass(slots=True)
class ShrunkRequest:
    """A request whose history was followed."""

    body: JsonObject | None
    """None if nothing changed."""
    following: Following

    def answered(self, usage: Usage) -> None:
        """Take the size as the provider counted it: the next decision does not rest on an estimate."""
        self.following.reply_usage = usage


class RequestShrinker:
    """Follows the conversations of all clients."""

    def __init__(self, folder: Path, layers: Layers) -> None:
        """Keep long results below `folder`; of `layers` the results and their advice are set per client."""
        self._folder = folder
        self._layers = layers
        self._followers: OrderedDict[str, Follower] = OrderedDict()
        self._forget_old()

    async def shrink(self, api: str, body: JsonObject) -> ShrunkRequest | None:
        """Return the request with a shorter history, where it is too long; `api` as in `request_messages`.

        None for a history that the provider holds.
        """
        name = "input" if api == "responses" else "messages"
        given = body.get(name)
        is_held = bool(body.get("previous_response_id") or body.get("conversation"))
        if is_held or not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            return None
        items = [one for one in given if isinstance(one, dict)]
        # System messages ahead of the conversation are not compacted.
        rules = list(takewhile(_is_rule, items))
        groups = _grouped(api, items[len(rules) :])
        if not groups:
            return None
        told = await asyncio.to_thread(lambda: [_told(api, group) for group in groups])
        base = _base(body, rules)
        follower = self._follower(told[0], _reading_tool(body, rules))
        following, standing = await follower.follow(told, base)
        if all(one.is_same for one in standing) and len(standing) == len(groups):
            return ShrunkRequest(None, following)
        shown = [item for stood in standing for item in _shown(api, stood, told, groups)]
        return ShrunkRequest({**body, name: [*rules, *shown]}, following)

    def _follower(self, first: FrameworkMessage, reader: str) -> Follower:
        """Return the follower for conversations that begin so, for a client with this tool."""
        begins = canonical([reader, first.role, *render_blocks(first.blocks)])
        name = blake2b(begins, digest_size=16).hexdigest()
        if name not in self._followers:
            layers = replace(
                self._layers,
                results=self._folder / name if reader else None,
                advice=Advice(f"Read the file with {reader} if you need more of it.", ""),
                clearable=REPEATABLE_TOOLS,
                conversations=MAX_BRANCHES,
                on_notice=lambda text: _LOG.info("%s", text),
            )
            self._followers[name] = Follower(layers)
        self._followers.move_to_end(name)
        while len(self._followers) > MAX_CONVERSATIONS:
            self._followers.popitem(last=False)
        return self._followers[name]

    def _forget_old(self) -> None:
        oldest = (self._layers.clock.now() - KEPT).timestamp()
        for folder in self._folder.glob("*/"):
            with suppress(OSError):
                if not folder.is_symlink() and folder.stat().st_mtime < oldest:
                    shutil.rmtree(folder)


def _is_rule(item: JsonObject) -> bool:
    return str(item.get("role")) in SYSTEM_ROLES or str(item.get("type")) in SYSTEM_ITEMS


def _grouped(api: str, items: Iterable[JsonObject]) -> list[list[JsonObject]]:
    """Group the items of one reply and the results that answer it, which are judged together (C5)."""
    groups: list[list[JsonObject]] = []
    for item in items:
        side = _side(item)
        joins = side == "results" or (api == "responses" and side == "reply")
        if groups and joins and _side(groups[-1][0]) == side:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _side(item: JsonObject) -> str:
    role = str(item.get("role"))
    kind = str(item.get("type", "message"))
    if role in {"tool", "function"} or kind.endswith("_output"):
        return "results"
    return "reply" if role == "assistant" or kind not in {"message", "item_reference"} else "words"


def _told(api: str, group: Sequence[JsonObject]) -> FrameworkMessage:
    role: Role = "assistant" if _side(group[0]) == "reply" else "user"
    if api == "messages":
        return FrameworkMessage(role=role, blocks=parse_content(group[0].get("content")))
    blocks = [block for item in group for block in _item_blocks(api, item)]
    return FrameworkMessage(role=role, blocks=tuple(blocks))


def _item_blocks(api: str, item: JsonObject) -> list[Block]:
    read = [block for _, blocks in request_messages(api, [item]) for block in blocks]
    # Reasoning and items that are not known here have a size, too.
    return read or [Opaque(str(item.get("type", "message")), item)]


def _shown(
    api: str,
    standing: MessageToSend,
    told: Sequence[FrameworkMessage],
    groups: Sequence[Sequence[JsonObject]],
) -> Sequence[JsonObject]:
    if standing.place is None:
        return [{"role": "user", "content": standing.text}]
    group = groups[standing.place]
    if standing.is_same:
        return group
    before = {one.call_id: one for one in told[standing.place].blocks if isinstance(one, ToolResult)}
    results = {
        one.call_id: one
        for one in standing.blocks
        if isinstance(one, ToolResult) and before.get(one.call_id) != one
    }
    if api == "messages":
        return [_rewritten_message(group[0], standing, results)]
    return [_rewritten_item(item, results) for item in group]


def _rewritten_message(
    message: JsonObject, standing: MessageToSend, results: dict[str, ToolResult]
) -> JsonObject:
    """Return a message with other results, and without thinking that is bound to bytes that are gone."""
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": render_blocks(standing.blocks)}
    keeps_thinking = any(
        isinstance(one, Thinking) or (isinstance(one, Opaque) and one.kind in THINKING)
        for one in standing.blocks
    )
    kept: list[Json] = []
    for block in content:
        kind = str(block.get("type")) if isinstance(block, dict) else ""
        if kind in THINKING and not keeps_thinking:
            continue
        if isinstance(block, dict) and (result := results.get(str(block.get("tool_use_id")))) is not None:
            block = {**block, "content": render_block(result).get("content")}
        kept.append(block)
    return {**message, "content": kept}


def _rewritten_item(item: JsonObject, results: dict[str, ToolResult]) -> JsonObject:
    call = str(item.get("call_id") or item.get("tool_call_id"))
    if (result := results.get(call)) is None or _side(item) != "results":
        return item
    name = "output" if "output" in item else "content"
    return {**item, name: "\n".join(part.text for part in result.content if isinstance(part, Text))}


def _base(body: JsonObject, rules: Sequence[JsonObject]) -> Base:
    """Return what precedes the messages; it is counted, never sent."""
    system = [body.get("system"), body.get("instructions"), *rules]
    texts = [one if isinstance(one, str) else json.dumps(one) for one in system if one]
    blocks: tuple[JsonObject, ...] = tuple({"type": "text", "text": text} for text in texts)
    tools: tuple[JsonObject, ...] = tuple(
        {"name": name, "input_schema": definition} for name, definition in _tools(body, rules)
    )
    return Base(str(body.get("model") or ""), instructions=blocks, tools=tools)


def _tools(body: JsonObject, rules: Sequence[JsonObject]) -> list[tuple[str, JsonObject]]:
    """Return the client's tools by name; those of a namespace, as Codex sends them, one by one."""
    waiting = [body.get("tools"), *(one.get("tools") for one in rules)]
    found: dict[str, JsonObject] = {}
    while waiting:
        listed = waiting.pop()
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict):
                function = one.get("function")
                named = function if isinstance(function, dict) else one
                found[str(named.get("name") or named.get("type"))] = one
                waiting.append(one.get("tools"))
    return sorted(found.items())


def _reading_tool(body: JsonObject, rules: Sequence[JsonObject]) -> str:
    names = {name for name, _ in _tools(body, rules)}
    return next((one for one in READING_TOOLS if one in names), "")
