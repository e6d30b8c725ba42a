"""Events and records of a session as updates of the protocol; pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from acp import helpers
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ContentToolCallContent,
    Cost,
    CurrentModeUpdate,
    FileEditToolCallContent,
    ImageContentBlock,
    SessionInfoUpdate,
    TerminalToolCallContent,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)

from nacre.app.call_text import call_line, first_line_of
from nacre.formatting import clean, fenced
from nacre.messages.blocks import Block, Image, JsonObject, Text, Thinking, ToolCall, ToolResult
from nacre.messages.events import (
    Event,
    Notice,
    NoticeLevel,
    StartedOver,
    TextDelta,
    ThinkingDelta,
    ToolCallEvent,
    ToolResultEvent,
    Waiting,
)
from nacre.messages.records import Record, Said, Undone
from nacre.providers.embedded.conversation import as_shown
from nacre.tools.tasks import Task

Update: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallProgress
    | AgentPlanUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | SessionInfoUpdate
    | UsageUpdate
)
Kind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]
Content: TypeAlias = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent

KINDS: Mapping[str, Kind] = {
    "Agent": "think",
    "Bash": "execute",
    "Edit": "edit",
    "Glob": "search",
    "Grep": "search",
    "Read": "read",
    "Skill": "read",
    "ToolSearch": "search",
    "WebFetch": "fetch",
    "Write": "edit",
    "correct": "edit",
    "forget": "delete",
    "recall": "search",
    "remember": "edit",
    "search_sessions": "search",
}
"""What a tool does, which decides its symbol; tools of MCP servers are "other"."""
TASK_LIST = "TaskList"
"""The tool whose calls are shown as the plan of the protocol."""
_FILE_TOOLS = frozenset({"Read", "Edit", "Write"})
MAX_SHOWN_CHARS = 20_000
"""Of a result; the model has all of it, and so has the log."""
MARKS: Mapping[NoticeLevel, str] = {"info": "›", "warning": "⚠"}
_STATES: Mapping[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "done": "completed",
}


@dataclass(frozen=True, slots=True)
class ToolCallView:
    """Shows tool calls of a session in one working directory."""

    cwd: Path

    def started(
        self, call: ToolCall, status: Literal["pending", "in_progress"] = "in_progress"
    ) -> ToolCallStart:
        """Return the update for a new call."""
        snippet = self.snippet(call)
        return ToolCallStart(
            session_update="tool_call",
            tool_call_id=call.id,
            title=self.title(call.name, call.input),
            kind=KINDS.get(call.name, "other"),
            status=status,
            content=[snippet] if snippet else None,
            locations=self.locations(call.name, call.input),
            raw_input=call.input,
        )

    def finished(
        self, call: ToolCall, result: ToolResult, diff: FileEditToolCallContent | None = None
    ) -> ToolCallProgress:
        """Return the update for a call that was answered."""
        content: list[Content] = list(result_content(result, as_code=call.name not in {"Agent", "Skill"}))
        locations = None
        if call.name in {"Edit", "Write"} and not result.is_error:
            # The text of the result says less than the diff.
            change = diff or self.snippet(call)
            content = [change] if change else content
            locations = self.locations(call.name, call.input, line=first_line_of(result.text))
        return ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=call.id,
            status="failed" if result.is_error else "completed",
            content=content,
            locations=locations,
        )

    def title(self, tool: str, arguments: JsonObject) -> str:
        return clean(call_line(ToolCall("", tool, arguments), cwd=self.cwd))

    def locations(
        self, tool: str, arguments: JsonObject, line: int | None = None
    ) -> list[ToolCallLocation] | None:
        """Return the file that a call is about."""
        named = arguments.get("file_path") if tool in _FILE_TOOLS else arguments.get("path")
        if not isinstance(named, str) or not named or "\0" in named:
            return None
        offset = arguments.get("offset")
        if line is None and tool == "Read" and isinstance(offset, int):
            line = max(offset, 1)
        return [ToolCallLocation(path=self.path(named), line=line)]

    def path(self, named: str) -> str:
        """Return the absolute path that the protocol requires."""
        return os.path.normpath(self.cwd / os.path.expanduser(named))  # noqa: PTH111 - no error on an unknown ~user

    def snippet(self, call: ToolCall) -> FileEditToolCallContent | None:
        """Return what an Edit or a Write says that it changes."""
        match call.name, call.input:
            case "Edit", {"file_path": str(path), "old_string": str(old), "new_string": str(new)}:
                return helpers.tool_diff_content(self.path(path), clean(new), clean(old))
            case "Write", {"file_path": str(path), "content": str(content)}:
                return helpers.tool_diff_content(self.path(path), clean(content))
            case _:
                return None


def update_of(event: Event, calls: ToolCallView) -> Update | None:
    """Return the update for an event; None if it shows nothing."""
    match event:
        case TextDelta(text):
            return message(text)
        case ThinkingDelta(text):
            return thought(text)
        case ToolCallEvent(call) if call.name != TASK_LIST:
            return calls.started(call)
        case ToolResultEvent(call, result) if call.name != TASK_LIST:
            return calls.finished(call, result)
        case Waiting(seconds, reason):
            return thought(f"\n… {reason}; trying again in {seconds:.0f} s\n")
        case StartedOver(reason):
            return notice_chunk(f"what was said so far of this reply is void: {reason}", "warning")
        case Notice(text, level):
            return notice_chunk(text, level)
        case _:
            return None


def message(text: str) -> AgentMessageChunk:
    return helpers.update_agent_message_text(clean(text))


def thought(text: str) -> AgentThoughtChunk:
    return helpers.update_agent_thought_text(clean(text))


def notice_chunk(text: str, level: NoticeLevel = "info") -> AgentMessageChunk:
    """Return a line of nacre's own, which is not the model's, as a quotation."""
    lines = clean(text).strip().splitlines() or [""]
    return helpers.update_agent_message_text(
        "\n\n" + "".join(f"> {MARKS[level]} {line}  \n" for line in lines) + "\n"
    )


def result_content(result: ToolResult, *, as_code: bool = True) -> Iterator[ContentToolCallContent]:
    """Return a result as text and pictures; of an offloaded one, what the model saw of it."""
    text = clean(as_shown(result.text, {})[0])
    if len(text) > MAX_SHOWN_CHARS:
        text = f"{text[:MAX_SHOWN_CHARS]}\n… {len(text) - MAX_SHOWN_CHARS:,} more characters"
    if text.strip():
        yield helpers.tool_content(helpers.text_block(fenced(text.rstrip("\n")) if as_code else text))
    for part in result.content:
        if isinstance(part, Image) and (picture := image_block(part)):
            yield helpers.tool_content(picture)


def image_block(image: Image) -> ImageContentBlock | None:
    """Return a picture that the session has as bytes."""
    match image.source:
        case {"data": str(data), "media_type": str(kind)}:
            return helpers.image_block(data, kind)
        case _:
            return None


def plan_update(tasks: Sequence[Task]) -> AgentPlanUpdate:
    """Return the task list; cancelled tasks are left out, because the protocol has no such state."""
    return helpers.update_plan(
        helpers.plan_entry(clean(task.title), status=_STATES[task.state])
        for task in tasks
        if task.state in _STATES
    )


def usage_update(used: int, window: int, usd: float | None) -> UsageUpdate:
    """Return how full the window is, and what the session has cost."""
    cost = None if usd is None else Cost(amount=round(usd, 6), currency="USD")
    return UsageUpdate(session_update="usage_update", used=used, size=window, cost=cost)


def replay(records: Iterable[Record], calls: ToolCallView) -> Iterator[Update]:
    """Yield the updates that show a stored conversation, without what was undone or attached."""
    known = list(records)
    undone = {one.target for one in known if isinstance(one, Undone)}
    said = [one for one in known if isinstance(one, Said) and not one.aside and one.id not in undone]
    made = {block.id: block for one in said for block in one.blocks if isinstance(block, ToolCall)}
    answered = {block.call_id for one in said for block in one.blocks if isinstance(block, ToolResult)}
    for one in said:
        for block in one.blocks:
            yield from _replayed(block, one, made, calls)
            if isinstance(block, ToolCall) and block.id not in answered and block.name != TASK_LIST:
                yield interrupted(block.id)


def interrupted(call_id: str) -> ToolCallProgress:
    """Return the update for a call that will never be answered."""
    return helpers.update_tool_call(call_id, status="failed")


def _replayed(
    block: Block, said: Said, made: Mapping[str, ToolCall], calls: ToolCallView
) -> Iterator[Update]:
    match block:
        case Text(text) if text.strip() and not said.meta:
            yield helpers.update_user_message_text(clean(text)) if said.role == "user" else message(text)
        case Image() if said.role == "user" and not said.meta and (picture := image_block(block)):
            yield helpers.update_user_message(picture)
        case Thinking(text) if text.strip():
            yield thought(text)
        case ToolCall() if block.name != TASK_LIST:
            yield calls.started(block)
        case ToolResult(call_id=id_) if id_ in made and made[id_].name != TASK_LIST:
            yield calls.finished(made[id_], block)
        case _:
            pass
