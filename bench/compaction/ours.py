"""The same sessions through a whole agent of nacre's, with its log, files and layers; the model is made up.

By rule means that every request for a summary fails, as it does where no model can be reached. Notes are off,
so that it is the summary, or nothing, that stands for the conversation.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.compaction.lossy import lossy
from bench.compaction.sessions import Known, Scripted, Turn
from bench.compaction.steps import MODEL, PACE, Seen, Watch
from nacre.app.open_agent import open_agent
from nacre.errors import Overloaded
from nacre.layers.l4_compact.summarise import directive
from nacre.messages.blocks import Block, JsonObject, Message, Text, ToolCall
from nacre.messages.events import ProviderEvent, Reply, ToolCallEvent
from nacre.messages.records import Compacted
from nacre.messages.tokens import estimate_blocks, estimate_json, estimate_text
from nacre.messages.usage import Usage
from nacre.providers.base import Capabilities, Request, capabilities_of
from nacre.session.session import Session
from nacre.settings import load
from nacre.testing import FrozenClock
from nacre.tools.base import Tool


def by_nacre(script: Scripted, window: int, *, has_model: bool) -> Iterator[Seen]:
    """What nacre sends, with a model that sums up badly or with none."""
    with tempfile.TemporaryDirectory(prefix="nacre-survival-") as folder:
        # Judged while the files are there, because a pointer must lead somewhere.
        yield from asyncio.run(_played(script, window, Path(folder), has_model=has_model))


@dataclass
class Voice:
    """The model: it says what the script says, and sums up as badly as everybody's."""

    script: Scripted
    watch: Watch
    known: Known
    has_model: bool
    name: str = "scripted"
    session: Session | None = None
    turn: Turn | None = None
    seen: list[Seen] = field(default_factory=list)
    replies: list[tuple[Block, ...]] = field(default_factory=list)
    said: int = 0
    """Tokens since the last request."""
    asked: int = 0
    _sizes: dict[int, tuple[JsonObject, int]] = field(default_factory=dict)

    def capabilities(self, model: str) -> Capabilities:
        return capabilities_of(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.asked += 1
        if is_for_summary(request):
            if not self.has_model:
                raise Overloaded("nobody is there to sum anything up")
            blocks: tuple[Block, ...] = (Text(lossy().tagged),)
        else:
            self._look(request)
            blocks = self.replies.pop(0)
            self.said = estimate_blocks(blocks)
        for block in blocks:
            if isinstance(block, ToolCall):
                yield ToolCallEvent(block)
        yield Reply(
            message=Message("assistant", blocks),
            usage=Usage(cache_read=tokens_of(request, self._sizes), output=estimate_blocks(blocks)),
            stop_reason="tool_use" if any(isinstance(one, ToolCall) for one in blocks) else "end_turn",
            id=f"msg_{self.asked}",
            model=request.model,
        )

    def _look(self, request: Request) -> None:
        assert self.session is not None
        if len(self.replies) == 1 and self.turn is not None:
            self.known.see(self.turn)
        view = self.session.view
        for moment in self.watch.due(compactions=view.epochs.count("compact"), said=self.said):
            last = [one for one in view.records if isinstance(one, Compacted)][-1:]
            dropped = last[0].extra.get("dropped") if last else None
            count = len(dropped) if isinstance(dropped, list) else dropped if isinstance(dropped, int) else 0
            sent = (*request.system, *request.messages)
            self.seen.append(Seen(moment, sent, self.known.copy(), count))
        self.said = 0

    def hear(self, turn: Turn) -> None:
        self.known.hear(turn)
        self.turn = turn
        self.said += estimate_text(turn.words)
        calls = ((ToolCall(one.call_id, one.tool, one.input),) for one in turn.rounds)
        self.replies += [*calls, (Text(turn.closing),)]

    async def count_tokens(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None


async def _played(script: Scripted, window: int, folder: Path, *, has_model: bool) -> Sequence[Seen]:
    project = folder / "project"
    project.mkdir()
    (project / "AGENTS.md").write_text(script.instructions, encoding="utf-8")
    voice = Voice(script, Watch(window), Known(), has_model)
    results = {str(one.input.get("command")): one.result for turn in script.turns for one in turn.rounds}
    clock = FrozenClock()

    async def run(arguments: JsonObject) -> str:
        clock.advance(PACE)
        result = results[str(arguments["command"])]
        voice.said += estimate_text(result)
        return result

    bash = Tool(name="Bash", description="Run a command.", input_schema=SCHEMA, call=run, read_only=True)
    settings = load(project, environment(folder, window), cli={"model": MODEL})
    opening = open_agent(
        settings,
        provider=voice,
        tools=lambda usual: [*(one for one in usual if one.name == "TaskList"), bash],
        clock=clock,
    )
    async with opening as ready:
        voice.session = ready.agent.session
        for turn in script.turns:
            voice.hear(turn)
            clock.advance(PACE)
            async for _ in ready.agent.stream(turn.words):
                pass
            if voice.watch.is_over:
                break
        return voice.seen


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}


def environment(folder: Path, window: int) -> dict[str, str]:
    """Settings of a session with a home of its own, in which only the summary is asked of a model."""
    return {
        "HOME": str(folder),
        "NACRE_HOME": str(folder / "home"),
        "PATH": "/usr/bin:/bin",
        "NACRE_PERMISSIONS_DEFAULT_MODE": "bypassPermissions",
        "NACRE_MAX_CONTEXT_TOKENS": str(window),
        "NACRE_DISABLE_AUTO_MEMORY": "1",
        "NACRE_COMPACTION_SUMMARY_ROOM": "0",
        "NACRE_NOTES": "false",
        "NACRE_EXTRACT": "false",
        "NACRE_DREAM": "false",
        "NACRE_KEEP_WARM": "false",
    }


def is_for_summary(request: Request) -> bool:
    """Whether a request asks for a summary."""
    content = request.messages[-1]["content"]
    last = content[-1] if isinstance(content, list) and content else {}
    return isinstance(last, dict) and directive().strip() in str(last.get("text"))


def tokens_of(request: Request, known: dict[int, tuple[JsonObject, int]]) -> int:
    """How large a request is; messages are shared between requests, so that each is measured once."""
    total = 0
    for piece in (*request.system, *request.tools, *request.messages):
        if id(piece) not in known:
            known[id(piece)] = (piece, sum(_tokens(piece)))
        total += known[id(piece)][1]
    return total


def _tokens(piece: JsonObject) -> Iterator[int]:
    """As nacre estimates it, so that its estimates are right."""
    if "input_schema" in piece:
        yield estimate_json(piece)
        return
    content = piece.get("content")
    for block in content if isinstance(content, list) else [piece]:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "tool_use":
            yield estimate_text(str(block["name"])) + estimate_json(block["input"])
        elif block.get("type") == "tool_result":
            parts = block.get("content")
            texts = [one for one in parts if isinstance(one, dict)] if isinstance(parts, list) else []
            yield sum(estimate_text(str(one.get("text", ""))) for one in texts) or estimate_text(str(parts))
        else:
            yield estimate_text(str(block.get("text", "")))
