"""Start-up: the quick commands import next to nothing, and no command imports a vendor it does not use."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.program import ended, started, world

LISTED = """
import sys
before = set(sys.modules)
sys.argv = ["nacre", *sys.argv[1:]]
import runpy
extra = set(sys.modules) - before
try:
    runpy.run_module("nacre", run_name="__main__", alter_sys=True)
except SystemExit:
    pass
print(*sorted(set(sys.modules) - before - extra), file=sys.stderr)
"""
"""Runs a command as `python -m nacre` does, then lists what that imported beyond `runpy` itself."""

HEAVY = {
    "anthropic",
    "openai",
    "httpx2",
    "httpx",
    "pydantic",
    "pydantic_core",
    "rich",
    "textual",
    "mcp",
    "numpy",
    "yaml",
    "asyncio",
    "opentelemetry",
}
"""Vendors, UI and ranking: each costs more than all of a quick command."""


def imported(cwd: Path, *args: str) -> set[str]:
    done = started(cwd, "-c", LISTED, *args)
    return set(done.stderr.splitlines()[-1].split())


def test_version_imports_nothing_but_the_package(tmp_path: Path) -> None:
    assert imported(tmp_path, "--version") <= {"nacre", "nacre.__main__", "nacre.version"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [["--help"], ["doctor", "--json"], ["doctor"], ["memory", "path"], ["--nonsense"], ["nonsense"]]
)
def test_quick_commands_import_no_vendor_no_ui_and_no_event_loop(tmp_path: Path, args: list[str]) -> None:
    loaded = imported(tmp_path, *args)
    assert "click" in loaded  # or the list below would prove nothing
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()


def test_settings_load_without_the_command_line_or_a_vendor(tmp_path: Path) -> None:
    done = started(
        tmp_path,
        "-c",
        "import sys, nacre.settings, pathlib; nacre.settings.load(pathlib.Path('.'), {'HOME': '/nowhere'}); "
        "print(*sorted({n.partition('.')[0] for n in sys.modules}))",
    )
    assert {"click", "difflib", "tempfile", *HEAVY} & set(done.stdout.split()) == set()


@pytest.mark.slow
def test_a_prompt_imports_no_telemetry_until_somebody_sets_it_up(tmp_path: Path) -> None:
    """An SDK that listens has imported the API; without one nothing of it is needed."""
    loaded = imported(tmp_path, "-p", "hello")
    assert "nacre.session.telemetry" in loaded
    assert {name for name in loaded if name.startswith("opentelemetry")} == set()


NOT_FOR_A_PROMPT = {
    "nacre.agents.worktree",
    "nacre.layers.l4_compact.summarise",
    "nacre.layers.l5_extract.extract",
    "nacre.layers.l6_dream.dream",
    "nacre.mcp_client",
    "nacre.memory.corrections",
    "nacre.memory.recall.drift.check",
    "nacre.memory.recall.ranking.ranker",
    "nacre.memory.recall.usage",
    "nacre.memory.team.sync",
    "nacre.messages.jsonl",
    "nacre.session.cache_warming",
    "nacre.store.sessions",
}
"""Needed by few sessions, or only after the first reply; each brings others with it."""
MAX_MODULES = 241
"""Modules of nacre that one prompt imports."""


@pytest.mark.slow
def test_a_prompt_imports_only_what_its_first_request_needs(tmp_path: Path) -> None:
    loaded = imported(tmp_path, "-p", "hello")
    assert loaded & NOT_FOR_A_PROMPT == set()
    assert {name.partition(".")[0] for name in loaded} & ((HEAVY - {"asyncio"}) | {"anyio"}) == set()
    assert len([name for name in loaded if name.partition(".")[0] == "nacre"]) <= MAX_MODULES


SCREEN_LISTED = "import sys, nacre.cli.main, nacre.cli.chat.chat, nacre.tui.app; print(*sys.modules)"
NOT_FOR_THE_SCREEN = {
    "markdown_it",
    "nacre.app.open_agent",
    "nacre.cli.chat.slash",
    "nacre.loop",
    "nacre.memory.memory",
    "nacre.providers",
    "nacre.session.session",
    "nacre.tui.memory",
    "nacre.tui.talk",
    "pygments",
    "textual.widgets._markdown",
}
"""Imported after the screen is there: each would delay the prompt."""
MAX_SCREEN_MODULES = 60
"""Modules of nacre before the first picture, with what the settings need."""


def test_the_screen_is_there_before_what_opens_a_session_is_imported(tmp_path: Path) -> None:
    loaded = set(started(tmp_path, "-c", SCREEN_LISTED).stdout.split())
    assert "textual.app" in loaded  # or the list below would prove nothing
    assert loaded & NOT_FOR_THE_SCREEN == set()
    assert {name.partition(".")[0] for name in loaded} & {
        "anthropic",
        "openai",
        "httpx2",
        "pydantic",
        "mcp",
    } == set()
    assert len([name for name in loaded if name.partition(".")[0] == "nacre"]) <= MAX_SCREEN_MODULES


HELLO = "".join(
    f"{json.dumps({'jsonrpc': '2.0', **message})}\n"
    for message in (
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    )
)
NOT_FOR_A_LIST_OF_TOOLS = {
    "anthropic",
    "openai",
    "numpy",
    "nacre.agents.directory",
    "nacre.app.open_agent",
    "nacre.context.privacy",
    "nacre.loop",
    "nacre.session.session",
}
"""A client waits for the list of tools only for a moment."""
MAX_MCP_MODULES = 150
"""Modules of nacre that the MCP server imports until then."""


@pytest.mark.slow
def test_the_mcp_server_imports_no_session_before_a_tool_is_called(tmp_path: Path) -> None:
    listed = ended([sys.executable, "-c", LISTED, "mcp"], tmp_path, world(tmp_path), given=HELLO)
    assert '"memory_recall"' in listed.stdout
    loaded = set(listed.stderr.splitlines()[-1].split())
    assert loaded & NOT_FOR_A_LIST_OF_TOOLS == set()
    assert len([name for name in loaded if name.partition(".")[0] == "nacre"]) <= MAX_MCP_MODULES
