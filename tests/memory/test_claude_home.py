"""One home, two programs (M1): nacre and Claude Code keep their memories and sessions in the same places.

What the client does was observed from outside, version 2.1.197: its requests, and the files it leaves. The
first part holds nacre to that on files made here. The last test runs the client itself against the simulator,
if NACRE_TEST_CLAUDE names its executable.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nacre.devtools.sim.simulator import Simulator
from nacre.memory.format.entry import MemoryChange, MemoryDraft, read_entry
from nacre.memory.memory import Memory
from nacre.messages.blocks import Json
from nacre.store.home import slug
from nacre.store.sessions import Sessions

CLIENT = os.environ.get("NACRE_TEST_CLAUDE", "")
"""Read before the tests' own clean environment takes it away."""
BY_HAND = MemoryChange(author="user", reason="by hand")
SESSION = "1f529758-d042-4f54-ace6-be2b0df528be"
MODEL = "claude-sonnet-4-5"

REWRITTEN = """---
name: a-fact-from-the-web
description: "user: what a page said about the port"
metadata: 
  node_type: memory
  type: reference
  created: 2026-11-15T13:41:11Z
  modified: 2026-11-15T13:41:11Z
  source: 
    - sess-1
    - msg-2
  origin: untrusted
  pinned: true
  local-only: true
  custom: keep
  originSessionId: 1f529758-d042-4f54-ace6-be2b0df528be
---

The port is 8080.
"""  # noqa: W291 (the client leaves a blank after a key whose value stands below)
"""What the client makes of a memory of nacre's: the name in kebab case, every other key moved below
`metadata`, lists in block form, comments lost."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a folder in it, beside the home that both programs share."""
    root = tmp_path / "my_Project.x"
    (root / "sub").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


async def opened(project: Path, below: str = "") -> Memory:
    return await Memory.open(project / below, environ={"CLAUDE_CONFIG_DIR": str(project.parent / "home")})


def client_memory(project: Path) -> Path:
    """Where the client looks: by the repository's root, wherever below it the work is done."""
    return project.parent / "home" / "projects" / re.sub("[^A-Za-z0-9]", "-", str(project)) / "memory"


async def test_nacre_saves_where_the_client_looks(project: Path) -> None:
    """M1, M2, M8: the folder, and one pointer a line with no frontmatter above it."""
    memory = await opened(project, "sub")
    saved = await memory.save(MemoryDraft(body="Releases leave on Thursdays.", kind="project"), BY_HAND)
    assert memory.location.directory == client_memory(project)
    index = (client_memory(project) / "MEMORY.md").read_text()
    pointer = f"- [{saved.entry.title}]({saved.entry.file})"
    assert index == f"# Memory\n\n{pointer}\n"


async def test_nothing_but_memories_lies_in_the_folder_the_client_reads(project: Path) -> None:
    """M15: history, locks and cache are elsewhere in the home; beside the client's own logs lies one file."""
    memory = await opened(project)
    saved = await memory.save(MemoryDraft(body="Releases leave on Thursdays."), BY_HAND)
    folder = client_memory(project)
    assert {path.name for path in folder.iterdir()} == {"MEMORY.md", saved.entry.file}
    assert {path.name for path in folder.parent.iterdir()} == {"memory", "identity.json"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/tmp/x/odd_näme 日本 😀.x", "-tmp-x-odd-n-me-------x"),
        (
            "/tmp/ccwbLN/" + "a" * 120 + "/" + "b" * 120,
            "-tmp-ccwbLN-" + "a" * 120 + "-" + "b" * 67 + "-gipepg",
        ),
    ],
)
def test_a_project_folder_is_called_what_the_client_calls_it(path: str, name: str) -> None:
    """M2: both were read off the folders that the client made for such paths."""
    assert slug(path) == name


def test_what_the_client_makes_of_a_memory_reads_as_before() -> None:
    """M11, M16b, M27: moved below `metadata`, a warning is still a warning."""
    entry = read_entry("web_fact.md", REWRITTEN.encode())
    assert (entry.name, entry.kind) == ("a-fact-from-the-web", "reference")
    assert entry.description == "user: what a page said about the port"
    assert (entry.origin, entry.pinned, entry.local_only) == ("untrusted", True, True)
    assert entry.sources == ("sess-1", "msg-2")
    assert entry.body == "The port is 8080.\n"


def test_a_memory_that_only_the_client_wrote_names_its_session() -> None:
    text = (
        f"---\nname: tea\nmetadata: \n  node_type: memory\n  type: user\n  originSessionId: {SESSION}\n---\n"
    )
    entry = read_entry("tea.md", text.encode())
    assert (entry.kind, entry.sources, entry.origin) == ("user", (SESSION,), "user")


async def test_an_edit_by_nacre_keeps_the_shape_the_client_gave_the_file(project: Path) -> None:
    """M11: only the lines that are meant change, byte for byte."""
    memory = await opened(project)
    path = memory.location.directory / "web_fact.md"
    path.write_text(REWRITTEN)
    draft = MemoryDraft(body="The port is 9090.", file=path.name, origin="agent")
    await memory.save(draft, MemoryChange(author="agent", reason="told so"))
    before, after = REWRITTEN.splitlines(), path.read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [old for old, _ in changed] == ["  modified: 2026-11-15T13:41:11Z", "The port is 8080."]
    assert changed[1][1] == "The port is 9090."


async def test_what_must_not_leave_the_machine_is_not_named_in_the_index(project: Path) -> None:
    """M27: the client sends the whole index, whatever its lines point to."""
    memory = await opened(project)
    await memory.save(MemoryDraft(body="The safe is behind the picture.", local_only=True), BY_HAND)
    await memory.save(MemoryDraft(body="Releases leave on Thursdays."), BY_HAND)
    index = (memory.location.directory / "MEMORY.md").read_text()
    assert "safe" not in index
    assert "Thursdays" in index


async def test_what_the_client_wrote_is_listed_and_put_on_record(project: Path) -> None:
    """M1, M15."""
    folder = client_memory(project)
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "web_fact.md").write_text(REWRITTEN)
    (folder / "plain.md").write_text("Just text.\n")
    (folder / "MEMORY.md").write_text("# Memory\n\n- [Plain](plain.md) — just text\n")
    memory = await opened(project, "sub")
    found = {entry.file: (entry.kind, entry.indexed) for entry in (await memory.scan()).entries}
    assert found == {"deep/web_fact.md": ("reference", False), "plain.md": (None, True)}
    await memory.save(MemoryDraft(body="Releases leave on Thursdays."), BY_HAND)
    newest, picked_up = await memory.log()
    assert newest.reason == "by hand"
    assert picked_up.reason.startswith("edited by other means")
    assert "- [Plain](plain.md) — just text\n" in (folder / "MEMORY.md").read_text()


def client_log(project: Path) -> Path:
    """A session as the client leaves one that was asked a single thing: lines of its own around the words."""
    shared = {
        "isSidechain": False, "userType": "external", "entrypoint": "sdk-cli", "cwd": str(project),
        "sessionId": SESSION, "version": "2.1.197", "gitBranch": "main",
        "timestamp": "2026-11-15T13:41:23.899Z",
    }  # fmt: skip
    asked = {"role": "user", "content": "What do you know about releases?"}
    said = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "They leave on Thursdays."}],
        "usage": {"input_tokens": 3, "output_tokens": 7},
    }  # fmt: skip
    listing = {"type": "skill_listing", "content": "…", "skillCount": 1, "isInitial": True}
    lines: list[dict[str, object]] = [
        {
            "type": "queue-operation",
            "operation": "enqueue",
            "sessionId": SESSION,
            "content": asked["content"],
        },
        {"type": "queue-operation", "operation": "dequeue", "sessionId": SESSION},
        {"parentUuid": None, **shared, "type": "user", "uuid": "u-1", "promptId": "p-1", "message": asked},
        {"parentUuid": "u-1", **shared, "type": "attachment", "uuid": "u-2", "attachment": listing},
        {"parentUuid": "u-2", **shared, "type": "assistant", "uuid": "u-3", "message": said},
        {"type": "last-prompt", "lastPrompt": asked["content"], "leafUuid": "u-3", "sessionId": SESSION},
    ]
    path = project.parent / "home" / "projects" / slug(str(project)) / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.slow
async def test_nacre_goes_on_with_a_session_of_the_client(project: Path) -> None:
    """The client's lines stay; nacre's hang on its last message, where the client finds them again."""
    log = client_log(project)
    before = log.read_bytes()
    (listed,) = Sessions(project.parent / "home").list(project)
    assert (listed.session, listed.messages) == (SESSION, 2)
    async with Simulator(["Thursdays, still."]) as sim:
        await nacre(project, sim.url, "-p", "Are you sure?", "--resume", SESSION[:8], "--model", MODEL)
        (sent,) = sim.log
    told = "\n".join(texts(sent.body["messages"]))
    places = [
        told.find(text) for text in ("know about releases?", "They leave on Thursdays.", "Are you sure?")
    ]
    assert -1 not in places
    assert places == sorted(places)
    assert log.read_bytes().startswith(before)
    added = [json.loads(line) for line in log.read_bytes()[len(before) :].splitlines()]
    said = [line for line in added if line["type"] in {"user", "assistant"}]
    # What stands ahead of a conversation comes first: the client does not keep it in its log.
    assert [(line["type"], line.get("isMeta", False)) for line in said] == [
        ("user", True), ("user", False), ("assistant", False),
    ]  # fmt: skip
    assert [line["parentUuid"] for line in said] == ["u-3", said[0]["uuid"], said[1]["uuid"]]


@pytest.mark.slow
@pytest.mark.skipif(not CLIENT, reason="NACRE_TEST_CLAUDE does not name a Claude Code executable")
async def test_the_client_itself_shares_a_home_with_nacre(project: Path) -> None:
    """M1 in both directions: it is sent nacre's index, nacre lists and resumes what it wrote."""
    memory = await opened(project)
    await memory.save(MemoryDraft(body="Releases leave on Thursdays.", kind="project"), BY_HAND)
    folder = client_memory(project)
    written = "---\nname: Tea preference\ndescription: likes green tea\ntype: user\n---\n\nGreen tea.\n"
    call = {"name": "Write", "input": {"file_path": str(folder / "tea.md"), "content": written}}
    script: list[Json] = [{"text": "Saving.", "tool_calls": [call]}, "Saved.", "Nacre here.", "Client here."]
    async with Simulator(script) as sim:
        assert await client(project / "sub", sim.url, "-p", "Remember tea", "--model", MODEL) == "Saved."
        index = (folder / "MEMORY.md").read_text().strip()
        assert any(index in text for text in texts(sim.log[0].body["messages"]))
        entries = {entry.file: entry for entry in (await memory.scan()).entries}
        tea = entries["tea.md"]
        (session,) = Sessions(project.parent / "home").list(project / "sub")
        assert (tea.name, tea.description, tea.kind) == ("tea-preference", "likes green tea", "user")
        assert tea.sources == (session.session,)
        resume = ("--resume", session.session, "--model", MODEL)
        assert "Nacre here." in await nacre(project / "sub", sim.url, "-p", "And now?", *resume)
        assert await client(project / "sub", sim.url, "-p", "Go on", *resume) == "Client here."
        words = texts(sim.log[-1].body["messages"])
    assert [word for word in words if word in {"Remember tea", "Saved.", "Nacre here.", "Go on"}] == [
        "Remember tea", "Saved.", "Nacre here.", "Go on",
    ]  # fmt: skip


def texts(messages: Json) -> list[str]:
    """All texts of a request, in order."""
    assert isinstance(messages, list)
    found: list[str] = []
    for message in messages:
        assert isinstance(message, dict)
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        found += [str(block["text"]) for block in blocks if isinstance(block, dict) and "text" in block]
    return found


async def nacre(cwd: Path, url: str, *arguments: str) -> str:
    return await run([sys.executable, "-m", "nacre", *arguments], cwd, url)


async def client(cwd: Path, url: str, *arguments: str) -> str:
    return await run([CLIENT, *arguments], cwd, url)


async def run(command: Sequence[str], cwd: Path, url: str) -> str:
    """In a world where nothing of the tester's is configured, with no way out but the simulator."""
    base = next(folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()).parent
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(base), "CLAUDE_CONFIG_DIR": str(base / "home"),
        "PYTHONUTF8": "1", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "no-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
    }  # fmt: skip
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=environ, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(120):
        out, err = await started.communicate()
    assert started.returncode == 0, err.decode()
    return out.decode().strip()
