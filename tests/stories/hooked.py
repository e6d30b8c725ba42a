"""Sessions in which commands of the person's run: settings that name them, and turns with a script."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from nacre.app.open_agent import Chooser, open_agent
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import Notice
from nacre.session.agent import SessionAgent
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider
from nacre.tools.base import Tool
from nacre.tools.guard import Ask
from tests.stories.processes import eventually, is_running, pids


def configure(cwd: Path, permissions: JsonObject | None = None, /, **commands: str | JsonObject) -> None:
    """Write a user's settings that run these commands; a group says more than that."""
    hooks: JsonObject = {
        event: [given if isinstance(given, dict) else {"hooks": [{"type": "command", "command": given}]}]
        for event, given in commands.items()
    }
    (cwd / "home").mkdir(exist_ok=True)
    written: JsonObject = {"hooks": hooks, "permissions": permissions or {}}
    (cwd / "home" / "settings.json").write_text(json.dumps(written))


def matched(matcher: str, *commands: str, timeout: float | None = None) -> JsonObject:
    """A group of commands that run for what this means."""
    entries: list[Json] = [
        {"type": "command", "command": command, **({"timeout": timeout} if timeout else {})}
        for command in commands
    ]
    return {"matcher": matcher, "hooks": entries}


def script(folder: Path, name: str, body: str) -> str:
    """A command that runs this Python."""
    path = folder / name
    path.write_text(body)
    return f"{sys.executable} {path}"


def says(**own: Json) -> str:
    """A command that answers with these fields of its own event."""
    return f"cat > /dev/null; echo '{json.dumps({'hookSpecificOutput': own})}'"


def settings_of(cwd: Path, **cli: str | int | bool) -> Settings:
    environ = {
        "HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "PATH": "/usr/bin:/bin",
        # Nothing beside the conversation, which would take replies of the script.
        "NACRE_EXTRACT": "0", "NACRE_DREAM": "0", "NACRE_NOTES": "0",
    }  # fmt: skip
    return load(cwd, environ, cli={"model": "claude-opus-5-5", **cli})


async def talk(
    settings: Settings,
    provider: ScriptedProvider,
    *texts: str,
    session: str = "new",
    ask: Ask | None = None,
    tools: Sequence[Tool] | Chooser | None = None,
) -> list[object]:
    """Some turns, and all that happened in them."""
    seen: list[object] = []
    async with open_agent(settings, provider=provider, session=session, ask=ask, tools=tools) as ready:
        for text in texts:
            async for event in ready.agent.stream(text):
                seen.append(event)
    return seen


async def play(agent: SessionAgent, text: str) -> None:
    """One turn, which leaves nothing open where it is cancelled."""
    async with aclosing(agent.stream(text)) as events:
        async for _ in events:
            pass


async def cancel_in_the_command(agent: SessionAgent, text: str, pid_file: Path) -> None:
    """A turn that is cancelled while a command runs which says its process ids: none of them lives on."""
    turn = asyncio.ensure_future(play(agent, text))
    await asyncio.to_thread(eventually, lambda: bool(pids(pid_file)), "the command runs")
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert [pid for pid in pids(pid_file) if is_running(pid)] == []


def notices(events: list[object]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def results(provider: ScriptedProvider, request: int = -1) -> list[tuple[bool, str]]:
    """The tool results of a request's last message: whether each is an error, and its words."""
    content = provider.requests[request].messages[-1]["content"]
    assert isinstance(content, list)
    return [
        (bool(block.get("is_error")), _text(block.get("content")))
        for block in content
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]


def tail(provider: ScriptedProvider, request: int = -1) -> str:
    """What stands behind the tool results of a request's last message."""
    content = provider.requests[request].messages[-1]["content"]
    assert isinstance(content, list)
    return "\n".join(_text([block]) for block in content)


def told(folder: Path) -> list[dict[str, object]]:
    """What commands that append to the file `told` were told, line by line."""
    path = folder / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keeps(folder: Path) -> str:
    """A command that appends what it is told to the file `told`, in one write."""
    return f"printf '%s\\n' \"$(cat)\" >> {folder}/told"


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)
