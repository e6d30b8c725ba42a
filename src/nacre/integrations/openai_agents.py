"""Session and input filter for the OpenAI Agents SDK: conversations in nacre's log, smaller requests.

session = NacreSession("user-42")
config = RunConfig(call_model_input_filter=NacreFilter(Layers(results=Path("results"))))
await Runner.run(agent, "Hello.", session=session, run_config=config)
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from nacre.formatting import how_to_install

try:
    from agents import Agent, FunctionTool, RunContextWrapper, TResponseInputItem
except ImportError as error:
    raise ImportError(
        f"this module needs the OpenAI Agents SDK: {how_to_install('openai-agents')}"
    ) from error
from agents.memory import SessionSettings
from agents.run import CallModelData, ModelInputData

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import SessionBusy, ToolError, TranscriptError
from nacre.integrations.framework_session import Follower, FrameworkMessage, Layers, MessageToSend
from nacre.layers.l1_offload.reader import result_reader
from nacre.messages.blocks import Block, Json, JsonObject, Opaque, ResultPart, Text, ToolCall, ToolResult
from nacre.messages.jsonl import Envelope, decode
from nacre.messages.records import Record, ReplyFacts, Said, Undone
from nacre.messages.view import live_records
from nacre.messages.wire import canonical, render_block
from nacre.providers.parse import parse_arguments
from nacre.session.log_writer import SessionLogWriter
from nacre.session.session import Base
from nacre.store.home import home as home_of
from nacre.store.session_log import SessionLog, log_path
from nacre.version import VERSION

ITEMS = "inputItems"
"""Key of the SDK's own items in a log line, one per block."""
BUSY_SECONDS = 5.0
POLL_SECONDS = 0.01
"""How long to wait for another process that writes to the same session, and how often to check."""
OUTPUT = "function_call_output"
RULES = frozenset({"system", "developer"})
MAX_NAME = 80
"""Characters of an id in a file name, if the id cannot be the name itself."""


class NacreSession:
    """A conversation of the SDK in a log on disk; each call opens the log, so that processes can share it."""

    def __init__(
        self,
        session_id: str,
        *,
        cwd: Path | None = None,
        home: Path | None = None,
        session_settings: SessionSettings | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._home = home or home_of(os.environ)
        self._cwd = cwd or Path.cwd()
        self._clock = clock
        self.path = _log_of(session_id, self._home, self._cwd)
        """The log; `nacre sessions show` reads it."""

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit, here or in the settings, the newest ones."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        records = await asyncio.to_thread(self._read)
        items = [item for said in _live(records) for item in _items_of(said)]
        if limit is None:
            return items
        return items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items in one write."""
        if not items:
            return
        async with self._writing() as (writer, _):
            await writer.write([_recorded(group, self._clock) for group in _grouped(items)])

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item; the log keeps it."""
        if not self.path.exists():
            return None
        async with self._writing() as (writer, records):
            live = _live(records)
            if not live:
                return None
            *rest, last = _items_of(live[-1])
            undone: list[Record] = [self._undone(live[-1])]
            await writer.write([*undone, _recorded(rest, self._clock)] if rest else undone)
            return last

    async def clear_session(self) -> None:
        """Start an empty conversation; the log keeps the old one."""
        if not self.path.exists():
            return
        async with self._writing() as (writer, records):
            if live := _live(records):
                await writer.write([self._undone(said) for said in live])

    def _undone(self, said: Said) -> Undone:
        return Undone(id=self._clock.new_id(), at=self._clock.now(), target=said.id)

    def _read(self) -> Sequence[Record]:
        try:
            return decode(self.path.read_bytes().splitlines(keepends=True), session_id=self.path.stem).records
        except FileNotFoundError:
            return ()

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[tuple[SessionLogWriter, Sequence[Record]]]:
        log = await self._held()
        try:
            loaded = decode(log.read(0), session_id=log.session)
            envelope = Envelope(session_id=log.session, cwd=str(self._cwd), git_branch="", version=VERSION)
            writer = SessionLogWriter(log, envelope, parent=loaded.leaf)
            yield writer, loaded.records
            await writer.sync()
        finally:
            log.close()

    async def _held(self) -> SessionLog:
        """Open the log exclusively, waiting for other writers."""
        until = self._clock.seconds() + BUSY_SECONDS
        while True:
            is_there = self.path.exists()
            try:
                return (SessionLog.open if is_there else SessionLog.create_at)(self.path, home=self._home)
            except TranscriptError as error:
                # Another process may have created the log meanwhile; then the second attempt finds it.
                may_pass = isinstance(error, SessionBusy) or (not is_there and self.path.exists())
                if not may_pass or self._clock.seconds() >= until:
                    raise
            await asyncio.sleep(POLL_SECONDS)


class NacreFilter:
    """For `RunConfig.call_model_input_filter`: sends a smaller input; the stored conversation stays whole."""

    def __init__(self, layers: Layers) -> None:
        self._follower = Follower(layers)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the same instructions with the view instead of the history."""
        given = data.model_data
        # System items ahead of the conversation are not compacted.
        rules = list(takewhile(lambda item: _wire(item).get("role") in RULES, given.input))
        groups = _grouped(given.input[len(rules) :])
        told = [FrameworkMessage(role=_role(group[0]), blocks=_heard(group)) for group in groups]
        standing = await self._follower.shown(told, _base(data.agent, given.instructions, rules))
        shown = [item for stood in standing for item in _shown(stood, groups)]
        return ModelInputData(input=[*rules, *shown], instructions=given.instructions)


def reader(folder: Path) -> FunctionTool:
    """Return the tool that reads offloaded results, for `Agent.tools`."""
    read = result_reader(folder)

    async def invoke(_: RunContextWrapper[Any], arguments: str) -> str:
        try:
            answer = await read.call(parse_arguments(arguments))
        except ToolError as error:
            return f"Error: {error}"
        return answer if isinstance(answer, str) else answer.text

    return FunctionTool(
        name=read.name,
        description=read.description,
        params_json_schema=cast("dict[str, Any]", read.input_schema),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


def _grouped(items: Iterable[TResponseInputItem]) -> list[list[TResponseInputItem]]:
    """Group the items of one reply and the results that answer it; groups are never split."""
    groups: list[list[TResponseInputItem]] = []
    for item in items:
        if groups and _side(item) != "words" and _side(item) == _side(groups[-1][0]):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _side(item: TResponseInputItem) -> str:
    wire = _wire(item)
    kind = str(wire.get("type", "message"))
    if kind.endswith("_output"):
        return "results"
    return (
        "reply" if wire.get("role") == "assistant" or kind not in {"message", "item_reference"} else "words"
    )


def _role(item: TResponseInputItem) -> Any:
    return "assistant" if _side(item) == "reply" else "user"


def _blocks(group: Sequence[TResponseInputItem]) -> tuple[Block, ...]:
    return tuple(_block(_wire(item)) for item in group)


def _block(item: JsonObject) -> Block:
    """Convert an item to a block; unknown ones pass through unchanged."""
    match item:
        case {"type": "function_call", "call_id": str(call), "name": str(name)}:
            return ToolCall(call, name, parse_arguments(str(item.get("arguments") or "")))
        case {"type": "function_call_output", "call_id": str(call), "output": str(output)}:
            return ToolResult(call, (Text(output),) if output else ())
        case {"role": str(), "content": str(text)}:
            return Text(text)
        case {"role": str(), "content": [{"text": str(text)}]}:
            return Text(text)
        case _:
            return Opaque(str(item.get("type", "message")), item)


def _heard(group: Iterable[TResponseInputItem]) -> tuple[Block, ...]:
    """Convert a group to blocks part by part: text beside an image is text, and so are MCP results."""
    return tuple(block for item in group for block in _parts(_wire(item)))


def _parts(item: JsonObject) -> tuple[Block, ...]:
    match item:
        case {"type": "function_call_output", "call_id": str(call), "output": list(parts)}:
            return (ToolResult(call, tuple(map(_part, parts))),)
        case {"role": str(), "content": [_, _, *_] as parts}:
            return tuple(map(_part, parts))
        case _:
            return (_block(item),)


def _part(part: Json) -> Text | Opaque:
    match part:
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return Text(text)
        case _:
            wire: JsonObject = part if isinstance(part, dict) else {"value": part}
            return Opaque(str(wire.get("type", "part")), wire)


def _shown(
    standing: MessageToSend, groups: Sequence[Sequence[TResponseInputItem]]
) -> Sequence[TResponseInputItem]:
    if standing.place is None:
        return [_item({"role": "user", "content": standing.text})]
    group = groups[standing.place]
    if standing.is_same:
        return group
    now = {block.call_id: block for block in standing.blocks if isinstance(block, ToolResult)}
    kept = (_wire(item) for item in group)
    return [_item(_rewritten(item, now.get(str(item.get("call_id"))))) for item in kept]


def _rewritten(item: JsonObject, result: ToolResult | None) -> JsonObject:
    if result is None or item.get("type") != OUTPUT or _parts(item) == (result,):
        return item
    if all(isinstance(part, Text) for part in result.content):
        return {**item, "output": result.text}
    return {**item, "output": [_output(part) for part in result.content]}


def _output(part: ResultPart) -> Json:
    return (
        part.wire if isinstance(part, Opaque) else {"type": "input_text", "text": getattr(part, "text", "")}
    )


def _recorded(group: Sequence[TResponseInputItem], clock: Clock) -> Said:
    """Convert a group to a record; the items are stored if they cannot be derived from the blocks."""
    role = _role(group[0])
    blocks = _blocks(group)
    extra: JsonObject = {}
    items: list[Json] = [_wire(item) for item in group]
    if canonical([_plain(role, block) for block in blocks]) != canonical(items):
        extra = {ITEMS: items}
    reply = ReplyFacts() if role == "assistant" else None
    return Said(id=clock.new_id(), at=clock.now(), role=role, blocks=blocks, reply=reply, extra=extra)


def _items_of(said: Said) -> list[TResponseInputItem]:
    kept = said.extra.get(ITEMS)
    if isinstance(kept, list):
        return [_item(one) for one in kept if isinstance(one, dict)]
    return [_item(_plain(said.role, block)) for block in said.blocks]


def _plain(role: str, block: Block) -> JsonObject:
    """Return the simplest item for a block."""
    match block:
        case Text(text):
            return {"role": role, "content": text}
        case ToolResult(call_id, _):
            return {"call_id": call_id, "output": block.text, "type": OUTPUT}
        case Opaque(_, wire):
            return wire
        case _:
            return render_block(block)


def _log_of(session_id: str, home: Path, cwd: Path) -> Path:
    """Return the path of the log; an id that cannot be a file name is replaced by a digest."""
    try:
        return log_path(home, cwd, session_id)
    except TranscriptError:
        if not session_id:
            raise
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", session_id).strip("-_.")[:MAX_NAME]
    told_apart = blake2b(session_id.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return log_path(home, cwd, f"{plain}-{told_apart}".lstrip("-"))


def _live(records: Sequence[Record]) -> list[Said]:
    return [one for one in live_records(records) if isinstance(one, Said)]


def _wire(item: TResponseInputItem) -> JsonObject:
    return cast("JsonObject", item)


def _item(wire: JsonObject) -> TResponseInputItem:
    return cast("TResponseInputItem", wire)


def _base(agent: Agent[Any], instructions: str | None, rules: Sequence[TResponseInputItem]) -> Base:
    """Return what precedes the items; it is counted, never sent."""
    model = agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", "")
    given = [instructions or "", *(str(_wire(item).get("content")) for item in rules)]
    system: tuple[JsonObject, ...] = tuple({"type": "text", "text": words} for words in given if words)
    tools: list[JsonObject] = [
        {"name": one.name, "description": one.description, "input_schema": one.params_json_schema}
        for one in agent.tools
        if isinstance(one, FunctionTool)
    ]
    return Base(str(model), instructions=system, tools=tuple(tools))
