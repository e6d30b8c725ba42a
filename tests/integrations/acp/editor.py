"""The SDK's own client on a real `nacre acp` process: an editor without a window."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TextContentBlock,
    WriteTextFileResponse,
)
from acp.stdio import spawn_agent_process

from nacre.testing import Simulator

SECONDS = 30.0


@dataclass
class Editor:
    """A client that records what it gets and answers permissions as it was told."""

    answer: str = "once"
    """The id of the option that the person chooses; empty: they close the question."""
    buffers: dict[str, str] = field(default_factory=dict)
    """Open files with unsaved text."""
    updates: list[tuple[str, Any]] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    written: list[tuple[str, str]] = field(default_factory=list)
    on_update: Callable[[Any], None] = lambda _: None
    on_ask: asyncio.Event = field(default_factory=asyncio.Event)
    waits: bool = False
    """Never answer a question."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.on_update(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, options))
        self.on_ask.set()
        if self.waits:
            await asyncio.Event().wait()
        outcome = (
            AllowedOutcome(outcome="selected", option_id=self.answer)
            if self.answer
            else DeniedOutcome(outcome="cancelled")
        )
        return RequestPermissionResponse(outcome=outcome)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> ReadTextFileResponse:
        if path in self.buffers:
            return ReadTextFileResponse(content=self.buffers[path])
        if not Path(path).is_file():
            raise RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=Path(path).read_text())

    async def write_text_file(
        self, session_id: str, path: str, content: str, **_: Any
    ) -> WriteTextFileResponse:
        self.written.append((path, content))
        self.buffers.pop(path, None)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content)
        return WriteTextFileResponse()

    def on_connect(self, conn: Any) -> None:
        """Nothing is needed of the agent."""

    # What the tests ask about.

    def of(self, session: str, kind: str = "") -> list[Any]:
        """The updates of a session, of one kind."""
        return [
            one for id_, one in self.updates if id_ == session and (not kind or one.session_update == kind)
        ]

    def said(self, session: str, kind: str = "agent_message_chunk") -> str:
        return "".join(one.content.text for one in self.of(session, kind) if one.content.type == "text")

    def calls(self, session: str) -> dict[str, tuple[str, str]]:
        """Kind and last status of each tool call, by its title."""
        titles: dict[str, str] = {}
        found: dict[str, tuple[str, str]] = {}
        for one in self.of(session):
            if one.session_update == "tool_call":
                titles[one.tool_call_id] = one.title
                found[one.title] = (one.kind, one.status)
            elif one.session_update == "tool_call_update" and one.status:
                title = titles[one.tool_call_id]
                found[title] = (found[title][0], one.status)
        return found


@dataclass
class Connected:
    """An editor and its agent."""

    agent: ClientSideConnection
    editor: Editor
    process: asyncio.subprocess.Process
    greeting: Any

    async def say(self, session: str, text: str) -> str:
        """Send a prompt; return why the turn stopped."""
        prompt = [TextContentBlock(type="text", text=text)]
        sent = self.agent.prompt(session_id=session, prompt=prompt)
        return (await asyncio.wait_for(sent, SECONDS)).stop_reason

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(SECONDS):
            while not holds():
                await asyncio.sleep(0.01)


def environment(home: Path, **environ: str) -> dict[str, str]:
    return {"NACRE_HOME": str(home), "HOME": str(home), "PATH": os.environ["PATH"], **environ}


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "nacre", "acp", *args]


@asynccontextmanager
async def connected(
    home: Path, *args: str, editor: Editor | None = None, has_files: bool = False, **environ: str
) -> AsyncIterator[Connected]:
    """A greeted agent with its own process; leaving the block closes its stdin and waits for it."""
    editor = editor or Editor()
    program, *rest = command(*args)
    async with spawn_agent_process(
        editor, program, *rest, env=environment(home, **environ), transport_kwargs={"shutdown_timeout": 20.0}
    ) as (agent, process):
        files = FileSystemCapabilities(read_text_file=has_files, write_text_file=has_files)
        greeting = await asyncio.wait_for(
            agent.initialize(
                protocol_version=PROTOCOL_VERSION, client_capabilities=ClientCapabilities(fs=files)
            ),
            SECONDS,
        )
        yield Connected(agent, editor, process, greeting)


def at(sim: Simulator) -> dict[str, str]:
    """The environment of an agent whose model is the simulator."""
    return {"ANTHROPIC_BASE_URL": sim.url, "ANTHROPIC_API_KEY": "none", "NACRE_EXTRACT": "false"}


def call(name: str, **given: object) -> dict[str, object]:
    return {"tool_calls": [{"name": name, "input": given}]}


async def begin(agent: Connected, work: Path) -> str:
    return (await agent.agent.new_session(cwd=str(work), mcp_servers=[])).session_id
