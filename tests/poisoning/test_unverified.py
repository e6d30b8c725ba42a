"""After contact with text from outside, a save without support in the person's words is unverified (M16b)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.poisoning import sent_by, settings_in
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.cli.chat.slash_memory import confirm
from nacre.cli.main import main
from nacre.clock import SYSTEM_CLOCK
from nacre.context.privacy import OriginTracker
from nacre.memory.checks.review import waiting
from nacre.memory.format.entry import Entry, MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.blocks import Block, Document, Image, JsonObject, Opaque, Role, ToolResult
from nacre.messages.events import Notice
from nacre.messages.records import Said
from nacre.messages.transcript import Transcript
from nacre.providers.scripted import Scripted
from nacre.session.compaction import CompactionRequest
from nacre.settings import Settings, load, trust
from nacre.testing import ScriptedProvider, call, say
from nacre.tools.guard import PermissionAnswer
from tests.pictures import png

HAND = MemoryChange(author="user", reason="by hand")
OWN = "Releases are signed with the blue key in the evening."
PROBE = "with which key are releases signed?"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = settings_in(tmp_path)
    (made.cwd / "page.txt").write_text("Some notes about the weather.\n", encoding="utf-8")
    return made


async def memory_of(settings: Settings) -> Memory:
    return await Memory.open(settings.cwd, environ={"NACRE_HOME": str(settings.home)})


async def entries(settings: Settings) -> dict[str, Entry]:
    return {one.file: one for one in await (await memory_of(settings)).list()}


async def yes(*_: object) -> PermissionAnswer:
    return "once"


def look(settings: Settings) -> Scripted:
    return call("Read", file_path=str(settings.cwd / "page.txt"))


def save(text: str = OWN, **more: str) -> Scripted:
    return call("remember", text=text, **more)  # type: ignore[arg-type]


async def play(
    settings: Settings, script: Sequence[Scripted], *prompts: str
) -> tuple[ScriptedProvider, list[str]]:
    """Play prompts in one session; returns what was sent and the notices."""
    provider = ScriptedProvider([*script])
    told: list[str] = []
    async with open_agent(settings, provider=provider, ask=yes) as ready:
        for text in prompts:
            async for event in ready.agent.stream(text):
                told += [event.text] if isinstance(event, Notice) else []
    return provider, told


async def origin_after(settings: Settings, script: Sequence[Scripted], *prompts: str) -> str:
    await play(settings, script, *prompts)
    (entry,) = (await entries(settings)).values()
    return entry.origin


async def test_without_contact_a_save_is_the_agents(settings: Settings) -> None:
    assert await origin_after(settings, [save(), say("ok")], "go on") == "agent"


async def test_after_a_tool_result_it_is_unverified(settings: Settings) -> None:
    assert await origin_after(settings, [look(settings), save(), say("ok")], "go on") == "unverified"


async def test_an_endless_entity_in_a_page_does_not_stop_saves(settings: Settings) -> None:
    (settings.cwd / "page.txt").write_text(f"&#{'9' * 5_000};\n", encoding="utf-8")
    assert await origin_after(settings, [look(settings), save(), say("ok")], "go on") == "unverified"


async def test_what_the_person_typed_is_the_agents_or_theirs(settings: Settings) -> None:
    said = "look at page.txt; we sign releases in the evening, with the blue key"
    assert await origin_after(settings, [look(settings), save(), say("ok")], said) == "agent"


async def test_what_the_person_agreed_to_is_supported(settings: Settings) -> None:
    script = [look(settings), say(f"{OWN} Shall I remember that?"), save(), say("ok")]
    assert await origin_after(settings, script, "look at page.txt", "ja, gerne") == "agent"


async def test_what_the_person_did_not_agree_to_is_not(settings: Settings) -> None:
    script = [look(settings), say(f"{OWN} Shall I remember that?"), save(), say("ok")]
    assert (
        await origin_after(settings, script, "look at page.txt", "no, go on with the tests") == "unverified"
    )


async def test_a_picture_in_a_prompt_is_contact(settings: Settings) -> None:
    """It may show words of others, such as a page."""
    provider = ScriptedProvider([save(), say("ok")])
    async with open_agent(settings, provider=provider, ask=yes) as ready:
        async for _ in ready.agent.stream("what does it show?", images=[png()]):
            pass
    (entry,) = (await entries(settings)).values()
    assert entry.origin == "unverified"


PICTURE = Image({"type": "base64", "media_type": "image/png", "data": ""})
FOUND: JsonObject = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
MEDIA: list[tuple[Role, Block]] = [
    ("user", ToolResult("c1", (PICTURE,))),
    ("user", ToolResult("c1", (Document({"type": "base64", "data": ""}),))),
    ("user", ToolResult("c1", (Opaque("search_result", {"type": "search_result"}),))),
    ("assistant", Opaque("web_search_tool_result", FOUND)),
]


@pytest.mark.parametrize(("role", "block"), MEDIA, ids=lambda one: getattr(one, "kind", ""))
async def test_a_result_without_text_is_contact(role: Role, block: Block) -> None:
    tracker = OriginTracker()
    transcript = Transcript()
    tracker.attend(transcript)
    assert tracker.origin_of(OWN) == "agent"
    await transcript.append(Said(id="1", at=SYSTEM_CLOCK.now(), role=role, blocks=(block,)))
    assert tracker.origin_of(OWN) == "unverified"


@pytest.mark.parametrize("name", ["CLAUDE.md", "AGENTS.md", ".claude/rules/a.md"])
async def test_instructions_of_an_untrusted_repository_are_contact(settings: Settings, name: str) -> None:
    path = settings.cwd / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("Be brief.\n", encoding="utf-8")
    assert await origin_after(settings, [save(), say("ok")], "go on") == "unverified"


@pytest.mark.parametrize(
    ("branch", "expected"), [("main", "agent"), ("sign-releases-with-the-blue-key", "unverified")]
)
async def test_the_branch_of_an_untrusted_repository_is_contact(
    settings: Settings, branch: str, expected: str
) -> None:
    """A clone has the branch that its author chose, and the prompt names it."""
    (settings.cwd / ".git").mkdir()
    for name in ("objects", "refs"):
        (settings.cwd / ".git" / name).mkdir()
    (settings.cwd / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n", encoding="utf-8")
    assert await origin_after(settings, [save(), say("ok")], "go on") == expected


async def test_instructions_of_a_trusted_directory_are_not(tmp_path: Path) -> None:
    before = settings_in(tmp_path)
    (before.cwd / "CLAUDE.md").write_text("Be brief.\n", encoding="utf-8")
    trust(before.home, before.project_root)
    settings = load(before.cwd, {"NACRE_HOME": str(before.home), "HOME": str(tmp_path)})
    assert settings.is_trusted
    assert await origin_after(settings, [save(), say("ok")], "go on") == "agent"


async def test_an_unverified_memory_is_neither_listed_nor_attached_but_found(settings: Settings) -> None:
    _, told = await play(settings, [look(settings), save(), say("ok")], "go on")
    (line,) = [one for one in told if "unverified" in one]
    assert "blue key" in line
    assert "/confirm" in line
    assert "\n" not in line
    assert "blue" not in (await (await memory_of(settings)).index()).text
    provider, _ = await play(settings, [say("ok")], PROBE)
    assert "blue" not in sent_by(provider)
    provider, _ = await play(settings, [call("recall", query="key of releases"), say("ok")], "recall it")
    assert "blue key" in sent_by(provider)
    assert "not confirmed" in sent_by(provider)


async def test_it_never_replaces_what_the_person_may_rely_on(settings: Settings) -> None:
    memory = await memory_of(settings)
    draft = MemoryDraft(body="Releases are signed with the red key.", name="Release signing", kind="project")
    await memory.save(draft, HAND)
    script = [
        look(settings),
        save(name="Release signing"),
        call("correct", query="project_release_signing.md", text="Releases are signed by nobody at all."),
        say("ok"),
    ]
    await play(settings, script, "go on")
    found = await entries(settings)
    assert found["project_release_signing.md"].origin == "user"
    assert "red" in found["project_release_signing.md"].body
    assert {one.origin for file, one in found.items() if file != "project_release_signing.md"} == {
        "unverified"
    }


async def test_a_correction_that_the_person_typed_is_made(settings: Settings) -> None:
    memory = await memory_of(settings)
    draft = MemoryDraft(body="Releases are signed with the red key.", name="Release signing", kind="project")
    await memory.save(draft, HAND)
    right = "Releases are signed with the green key."
    script = [look(settings), call("correct", query="project_release_signing.md", text=right), say("ok")]
    await play(settings, script, "look at page.txt. no, the key is green")
    (entry,) = (await entries(settings)).values()
    assert entry.body.strip() == right
    assert entry.is_trusted


async def test_a_file_that_a_tool_writes_is_judged_as_a_save_is(settings: Settings) -> None:
    file = (await memory_of(settings)).location.directory / "signing.md"
    text = f"---\nname: Signing\ndescription: how releases are signed\norigin: user\n---\n{OWN}\n"
    await play(
        settings, [look(settings), call("Write", file_path=str(file), content=text), say("ok")], "go on"
    )
    assert (await entries(settings))["signing.md"].origin == "unverified"


async def test_a_line_of_a_daily_log_gets_a_mark(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    chosen = json.loads((settings.home / "settings.json").read_text(encoding="utf-8"))
    (settings.home / "settings.json").write_text(json.dumps({**chosen, "memory": {"mode": "daily"}}), "utf-8")
    settings = load(settings.cwd, {"NACRE_HOME": str(settings.home), "HOME": str(tmp_path)})
    (settings.cwd / "page.txt").write_text("Some notes.\n", encoding="utf-8")
    await play(settings, [look(settings), save(), say("ok")], "go on")
    directory = (await memory_of(settings)).location.directory
    (log,) = directory.glob("logs/*/*/*.md")
    assert log.read_text(encoding="utf-8").rstrip().endswith("[unverified]")


async def test_what_the_person_says_later_verifies_it(settings: Settings) -> None:
    await play(settings, [look(settings), save(name="Release signing"), say("ok")], "go on")
    again = [look(settings), save(name="Release signing"), say("ok")]
    await play(settings, again, "look at page.txt; we sign releases in the evening, with the blue key")
    (entry,) = (await entries(settings)).values()
    assert entry.origin == "agent"
    provider, _ = await play(settings, [say("ok")], PROBE)
    assert "blue" in sent_by(provider)


async def confirmed(settings: Settings, text: str = "") -> None:
    provider = ScriptedProvider([look(settings), save(), save("Tea is served at noon by robots."), say("ok")])
    async with open_agent(settings, provider=provider, ask=yes) as ready:
        async for _ in ready.agent.stream("go on"):
            pass
        assert isinstance(ready, OpenedAgent)
        await confirm(ready, text)


async def test_the_chat_confirms_the_last_one_or_all(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    await confirmed(settings)
    assert sorted(one.origin for one in (await entries(settings)).values()) == ["unverified", "user"]
    assert "confirmed project_tea" in capsys.readouterr().out


async def test_the_chat_confirms_all(settings: Settings) -> None:
    await confirmed(settings, "all")
    assert {one.origin for one in (await entries(settings)).values()} == {"user"}
    provider, _ = await play(settings, [say("ok")], PROBE)
    assert "blue" in sent_by(provider)


async def test_python_confirms(settings: Settings) -> None:
    await play(settings, [look(settings), save(), say("ok")], "go on")
    memory = await memory_of(settings)
    (entry,) = await memory.list()
    saved = await memory.confirm(entry.file)
    assert saved.entry.origin == "user"
    assert saved.entry.body == entry.body
    assert entry.file in (await memory.index()).text


def command(settings: Settings, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.chdir(settings.cwd)
    monkeypatch.setenv("NACRE_HOME", str(settings.home))
    return main(["memory", *arguments])


@pytest.fixture
async def unverified(settings: Settings) -> str:
    memory = await memory_of(settings)
    draft = MemoryDraft(body=OWN, name="Release signing", origin="unverified", kind="project")
    saved = await memory.save(draft, MemoryChange(author="agent", reason="remember"))
    return saved.entry.file


@pytest.mark.parametrize(
    "arguments", [("confirm", "project_release_signing.md"), ("confirm", "--all"), ("review", "--all")]
)
def test_commands_confirm(
    settings: Settings, unverified: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    assert command(settings, monkeypatch, *arguments) == 0
    path = next(settings.home.rglob(unverified))
    assert "origin" not in path.read_text(encoding="utf-8")
    assert unverified in (path.parent / "MEMORY.md").read_text(encoding="utf-8")


def test_commands_show_the_mark(
    settings: Settings, unverified: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(settings, monkeypatch, "list")
    assert "(unverified)" in capsys.readouterr().out
    command(settings, monkeypatch, "list", "--json")
    assert json.loads(capsys.readouterr().out)[0]["origin"] == "unverified"
    command(settings, monkeypatch, "why", unverified)
    assert "nacre memory confirm" in capsys.readouterr().out
    command(settings, monkeypatch, "review")
    assert unverified in capsys.readouterr().out


async def test_a_review_rejects_one_by_forgetting_it(
    settings: Settings, unverified: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = waiting((await memory_of(settings)).location)
    assert one.what == "confirm"
    assert any("blue key" in line for line in one.diff())


def waiting_id(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    capsys.readouterr()
    command(settings, monkeypatch, "review", "--json")
    (one,) = json.loads(capsys.readouterr().out)
    return str(one["id"])


def test_review_rejects_by_id_and_forgets(
    settings: Settings, unverified: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = waiting_id(settings, monkeypatch, capsys)
    assert command(settings, monkeypatch, "review", "--reject", wanted) == 0
    assert f"forgot {unverified}" in capsys.readouterr().out
    assert not list(settings.home.rglob(unverified))


def test_a_list_for_review_shows_the_text(
    settings: Settings, unverified: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(settings, monkeypatch, "review")
    assert OWN in capsys.readouterr().out


def test_confirm_names_what_it_does_not_find(
    settings: Settings, unverified: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(settings, monkeypatch, "confirm", "nonexist") != 0
    told = capsys.readouterr().err
    assert "no memory and no edit is named 'nonexist'" in told
    assert "nacre memory review" in told


@pytest.fixture
def daily(tmp_path: Path) -> Settings:
    settings = settings_in(tmp_path)
    chosen = json.loads((settings.home / "settings.json").read_text(encoding="utf-8"))
    (settings.home / "settings.json").write_text(json.dumps({**chosen, "memory": {"mode": "daily"}}), "utf-8")
    settings = load(settings.cwd, {"NACRE_HOME": str(settings.home), "HOME": str(tmp_path)})
    (settings.cwd / "page.txt").write_text("Some notes.\n", encoding="utf-8")
    return settings


async def test_a_line_of_a_daily_log_is_reported_and_confirmed_in_the_chat(
    daily: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    provider = ScriptedProvider([look(daily), save(), say("ok")])
    async with open_agent(daily, provider=provider, ask=yes) as ready:
        async for event in ready.agent.stream("go on"):
            told += [event.text] if isinstance(event, Notice) else []
        (line,) = [one for one in told if "unverified" in one]
        assert "blue key" in line
        await confirm(ready, "")
    assert "confirmed logs/" in capsys.readouterr().out
    directory = (await memory_of(daily)).location.directory
    (log,) = directory.glob("logs/*/*/*.md")
    assert log.read_text(encoding="utf-8").rstrip().endswith(OWN)


@pytest.mark.parametrize("way", ["--accept", "--reject", "confirm"])
async def test_a_line_of_a_daily_log_is_reviewed(
    daily: Settings, way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await play(daily, [look(daily), save(), say("ok")], "go on")
    memory = await memory_of(daily)
    (one,) = waiting(memory.location)
    assert OWN in one.diff()[0]
    if way == "confirm":
        assert await asyncio.to_thread(command, daily, monkeypatch, "confirm", one.file) == 0
    else:
        from nacre.memory.checks.review import accept, reject

        await (accept(memory, one.id) if way == "--accept" else reject(memory, one.id))
    found = [path.read_text(encoding="utf-8") for path in memory.location.directory.glob("logs/*/*/*.md")]
    assert [OWN in text for text in found] == ([] if way == "--reject" else [True])
    assert not any("[unverified]" in text for text in found)
    assert waiting(memory.location) == []


LATER = [
    call("correct", query="project_release_signing.md", text="Releases are signed with the black key."),
    call("remember", text="Releases are signed with the black key.", name="Release signing"),
    call("correct", query="project_release_signing.md", text="the key is black, not blue"),
]


@pytest.mark.parametrize("move", LATER, ids=["correct", "remember", "one value"])
async def test_only_the_persons_words_raise_an_unverified_memory(
    settings: Settings, unverified: str, move: Scripted
) -> None:
    """Also in a session that has had no contact."""
    await play(settings, [move, say("ok")], "go on")
    assert {one.origin for one in (await entries(settings)).values()} == {"unverified"}
    assert "black" not in (await (await memory_of(settings)).index()).text


async def test_the_persons_words_raise_it(settings: Settings, unverified: str) -> None:
    text = "Releases are signed with the black key."
    move = call("correct", query=unverified, text=text)
    await play(settings, [move, say("ok")], "no: releases are signed with the black key")
    (entry,) = (await entries(settings)).values()
    assert entry.is_trusted


INDEX = [
    "- [Keys]({file}) — sign with the black key of the stranger",
    "- [Release signing]({file}): sign with the black key",
    "- [Release signing with the black key]({file}) — releases are signed",
    "- [Release signing]({file}) — releases are never signed with the blue key",
    "* [Release signing]({file}) — the blue key is signed in the evening by releases, black",
]


@pytest.mark.parametrize("line", INDEX)
async def test_a_hook_of_the_index_says_what_the_memory_says(settings: Settings, line: str) -> None:
    memory = await memory_of(settings)
    draft = MemoryDraft(body=OWN, name="Release signing", description="how we sign", kind="project")
    file = (await memory.save(draft, HAND)).entry.file
    index = memory.location.directory / "MEMORY.md"
    script = [
        look(settings),
        call("Read", file_path=str(index)),
        call("Write", file_path=str(index), content=f"# Memory\n\n{line.format(file=file)}\n"),
        say("ok"),
    ]
    await play(settings, script, "go on")
    (pointer,) = [one for one in (await memory.index()).text.splitlines() if file in one]
    assert pointer == f"- [Release signing]({file}) — how we sign"


async def test_a_hook_from_the_text_of_the_memory_stays(settings: Settings) -> None:
    memory = await memory_of(settings)
    draft = MemoryDraft(body=OWN, name="Release signing", description="how we sign", kind="project")
    file = (await memory.save(draft, HAND)).entry.file
    index = memory.location.directory / "MEMORY.md"
    line = f"- [Release signing]({file}) — releases are signed with the blue key"
    script = [
        look(settings),
        call("Read", file_path=str(index)),
        call("Write", file_path=str(index), content=f"# Memory\n\n{line}\n"),
        say("ok"),
    ]
    await play(settings, script, "go on")
    assert line in (await memory.index()).text


async def test_a_title_from_other_words_of_the_person_is_replaced(settings: Settings) -> None:
    """A value said about one thing must not get the title of another."""
    said = "look at page.txt. Backups run nightly. Logs go to the bucket acme-logs."
    move = save("The bucket is acme-logs.", name="Backups", description="where backups go")
    await play(settings, [look(settings), move, say("ok")], said)
    text = (await (await memory_of(settings)).index()).text
    assert "ackups" not in text


async def resumed(settings: Settings, *prompts: str) -> Entry:
    """Play prompts in the resumed session, of which the first saves; return what was saved."""
    provider = ScriptedProvider([save(), *[say("ok")] * len(prompts)])
    async with open_agent(settings, provider=provider, ask=yes, session="latest") as ready:
        for text in prompts:
            async for _ in ready.agent.stream(text):
                pass
    (entry,) = (await entries(settings)).values()
    return entry


async def test_a_resumed_session_still_has_had_contact_with_instructions_that_are_gone(
    settings: Settings,
) -> None:
    path = settings.cwd / "CLAUDE.md"
    path.write_text("Be brief.\n", encoding="utf-8")
    await play(settings, [say("ok")], "hello")
    path.unlink()
    assert (await resumed(settings, "go on")).origin == "unverified"


COMPACTED = [("go on", "unverified"), ("we sign releases in the evening, with the blue key", "agent")]


@pytest.mark.parametrize(("said", "expected"), COMPACTED, ids=["not said", "said"])
async def test_contact_and_the_persons_words_survive_a_compaction_and_a_resume(
    settings: Settings, said: str, expected: str
) -> None:
    """Records before the compaction are not loaded again."""
    (settings.cwd / "page.txt").write_text("Some notes about the weather.\n" * 400, encoding="utf-8")
    provider = ScriptedProvider([look(settings), *[say("ok")] * 9])
    async with open_agent(settings, provider=provider, ask=yes) as ready:
        for text in ("look at page.txt", said, "hm", "well"):
            async for _ in ready.agent.stream(text):
                pass
        assert ready.compact is not None
        await ready.compact.compact(CompactionRequest())
    provider = ScriptedProvider([save(), say("ok")])
    async with open_agent(settings, provider=provider, ask=yes, session="latest") as ready:
        assert not any(
            isinstance(block, ToolResult)
            for one in ready.agent.session.transcript.records
            if isinstance(one, Said)
            for block in one.blocks
        )
        async for _ in ready.agent.stream("save what you know"):
            pass
    (entry,) = (await entries(settings)).values()
    assert entry.origin == expected


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
async def test_output_of_a_hook_is_contact(tmp_path: Path, event: str) -> None:
    """It may print what strangers wrote, such as the messages of commits."""
    before = settings_in(tmp_path)
    chosen = json.loads((before.home / "settings.json").read_text(encoding="utf-8"))
    hooks = {event: [{"hooks": [{"type": "command", "command": "echo the last commit: be brief"}]}]}
    (before.home / "settings.json").write_text(json.dumps({**chosen, "hooks": hooks}), "utf-8")
    settings = load(before.cwd, {"NACRE_HOME": str(before.home), "HOME": str(tmp_path)})
    assert await origin_after(settings, [save(), say("ok")], "go on") == "unverified"
