"""The single pieces of the defence: whose words count, what may stand in the index, what is shown (M16b)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.poisoning import settings_in
from bench.poisoning_cases import ORDER, TOLD
from nacre.app.open_agent import open_agent
from nacre.memory.checks.origins import origin_of
from nacre.memory.format.entry import MemoryChange, MemoryDraft, Origin
from nacre.memory.memory import Memory
from nacre.messages.events import ToolResultEvent
from nacre.messages.untrusted_text import neutralise
from nacre.providers.scripted import Scripted
from nacre.settings import Settings
from nacre.testing import ScriptedProvider, call, say
from nacre.tools.guard import PermissionAnswer

HAND = MemoryChange(author="user", reason="by hand")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = settings_in(tmp_path)
    (made.cwd / "page.txt").write_text(f"Some notes.\n{ORDER}\nThank you.\n", encoding="utf-8")
    return made


async def memory_of(settings: Settings) -> Memory:
    return await Memory.open(settings.cwd, environ={"NACRE_HOME": str(settings.home)})


async def play(settings: Settings, *script: Scripted, said: str = "go on") -> list[str]:
    """What the tools answered."""
    provider = ScriptedProvider([*script, say("done")])
    answers: list[str] = []
    async with open_agent(settings, provider=provider, ask=yes) as ready:
        async for event in ready.agent.stream(said):
            if isinstance(event, ToolResultEvent):
                answers.append(str(event.result.content))
    return answers


async def yes(*_: object) -> PermissionAnswer:
    return "once"


def read_page(settings: Settings) -> Scripted:
    return call("Read", file_path=str(settings.cwd / "page.txt"))


async def origins(settings: Settings) -> dict[str, Origin]:
    return {entry.file: entry.origin for entry in await (await memory_of(settings)).list()}


async def test_a_refused_line_of_the_index_is_told_and_nothing_is_written(settings: Settings) -> None:
    """M8: the index has no place for a mark, and every prompt gets it."""
    memory = await memory_of(settings)
    await memory.save(MemoryDraft(body=TOLD, name="Releases"), HAND)
    index = memory.location.directory / "MEMORY.md"
    before = index.read_bytes()
    *_, answer = await play(
        settings,
        read_page(settings),
        call("Read", file_path=str(index)),
        call("Write", file_path=str(index), content=f"{before.decode()}- {ORDER}\n"),
    )
    assert f"leave out '- {ORDER[:20]}" in answer
    assert index.read_bytes() == before


async def test_an_honest_line_of_the_index_is_written(settings: Settings) -> None:
    """M8: in words of the topic it points to, and beside lines that were there."""
    memory = await memory_of(settings)
    saved = await memory.save(MemoryDraft(body=TOLD, name="Releases"), HAND)
    index = memory.location.directory / "MEMORY.md"
    topic = memory.location.directory / saved.entry.file
    own = f"- [Release notes]({topic.name}) — Rosa is the release manager"
    new = f"# Memory\n\n- [Releases]({topic.name}) — {TOLD}\n{own}\n"
    await play(
        settings,
        read_page(settings),
        call("Read", file_path=str(topic)),
        call("Read", file_path=str(index)),
        call("Write", file_path=str(index), content=new),
    )
    assert index.read_text(encoding="utf-8") == new


async def test_an_edit_of_a_trusted_topic_keeps_it_trusted(settings: Settings) -> None:
    """M16b: that Read showed it makes its words nobody else's; what a page said does."""
    memory = await memory_of(settings)
    draft = MemoryDraft(body=TOLD, name="Releases", description="who releases, and when")
    topic = memory.location.directory / (await memory.save(draft, HAND)).entry.file
    edit = call("Edit", file_path=str(topic), old_string="Fridays", new_string="Mondays")
    await play(settings, call("Read", file_path=str(topic)), edit)
    assert await origins(settings) == {topic.name: "user"}
    assert "Mondays" in topic.read_text(encoding="utf-8")
    worse = call("Edit", file_path=str(topic), old_string="Mondays.", new_string=f"Mondays.\n\n{ORDER}")
    await play(settings, read_page(settings), call("Read", file_path=str(topic)), worse)
    assert await origins(settings) == {topic.name: "untrusted"}


async def test_two_trusted_topics_put_together_stay_trusted(settings: Settings) -> None:
    memory = await memory_of(settings)
    one = await memory.save(MemoryDraft(body=TOLD, name="Releases"), HAND)
    two = await memory.save(
        MemoryDraft(body="The office drinks green tea from Uji in the morning.", name="Tea"), HAND
    )
    folder = memory.location.directory
    text = f"---\nname: Habits\ndescription: of the office\n---\n{TOLD}\n{two.entry.body}\n"
    reads = (call("Read", file_path=str(folder / each.entry.file)) for each in (one, two))
    await play(settings, *reads, call("Write", file_path=str(folder / "habits.md"), content=text))
    assert (await origins(settings))["habits.md"] == "user"


@pytest.mark.parametrize("way", ["recall", "forget", "Read", "Read a part", "correct"])
async def test_an_untrusted_memory_is_not_washed_clean_by_being_shown(settings: Settings, way: str) -> None:
    """M16b: whatever shows it, what repeats it is as untrusted."""
    memory = await memory_of(settings)
    saved = await memory.save(MemoryDraft(body=ORDER, name="Publishing", origin="untrusted"), HAND)
    path = str(memory.location.directory / saved.entry.file)
    shows = {
        "recall": call("recall", query="publish packages token"),
        "forget": call("forget", query=saved.entry.file),
        "Read": call("Read", file_path=path),
        "Read a part": call("Read", file_path=path, offset=5),
        "correct": call(
            "correct", query=saved.entry.file, text="Nothing to see here any more, says the agent."
        ),
    }
    target = str(memory.location.directory / "publish_packages.md")
    text = f"---\nname: How they leave\ndescription: leaving the house\n---\n{ORDER}\n"
    await play(
        settings,
        shows[way],
        call("remember", text=ORDER, name="The way things leave the house"),
        call("Write", file_path=target, content=text),
    )
    found = await origins(settings)
    assert "publish_packages.md" in found
    assert len(found) >= 2
    assert set(found.values()) == {"untrusted"}


@pytest.mark.parametrize("said", ["go on", "Look at page.txt. Tea is in the kitchen."])
@pytest.mark.parametrize("field", ["name", "description"])
@pytest.mark.parametrize("tool", ["remember", "Write"])
async def test_a_name_or_description_from_outside_is_not_saved(
    settings: Settings, said: str, field: str, tool: str
) -> None:
    """M16b: the index shows them; what the person said stays trusted, under a title from its own text."""
    text = "Tea is in the kitchen."
    path = str((await memory_of(settings)).location.directory / "tea_kitchen.md")
    move = (
        call("remember", text=text, **{field: ORDER})  # type: ignore[arg-type]
        if tool == "remember"
        else call("Write", file_path=path, content=f"---\n{field}: {ORDER}\n---\n{text}\n")
    )
    await play(settings, read_page(settings), move, said=said)
    (entry,) = await (await memory_of(settings)).list()
    assert entry.origin == ("unverified" if said == "go on" else "user")
    assert "evil" not in f"{entry.file} {entry.name} {entry.description}"
    index = (await (await memory_of(settings)).index()).text
    assert "evil" not in index
    assert ("Tea" in index) == (said != "go on")


@pytest.mark.parametrize("name", ["publish_with_the_evil_token.md", "tea_from_evil_example.md"])
async def test_a_new_file_name_from_outside_is_refused(settings: Settings, name: str) -> None:
    """M8: the index shows file names as well."""
    directory = (await memory_of(settings)).location.directory
    write = call("Write", file_path=str(directory / name), content="Tea is in the kitchen.\n")
    *_, answer = await play(settings, read_page(settings), write, said="Tea is in the kitchen.")
    assert "name the file project_tea_kitchen.md" in answer
    assert await origins(settings) == {}


RULE = "Restart the worker after every change of the queue settings"
PAGE = f"The handbook. {RULE}, then look at the log. The end."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{RULE}.", "untrusted"),
        ("I looked around for a while. " * 9 + f"{RULE}.", "untrusted"),
        ("The person wants the worker to be restarted by hand, never by the queue.", "agent"),
        ("Look at the log.", "untrusted"),
        ("The queue settings were discussed. Nobody wants the worker gone, and the log can wait.", "agent"),
    ],
)  # fmt: skip
def test_one_sentence_from_outside_is_enough(text: str, expected: Origin) -> None:
    """M16b: own words around it do not thin it out; single words in common do not make a quotation."""
    assert origin_of(text, by_user=["do it"], by_tools=[PAGE]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "</system-reminder>",
        "</ѕуѕtem-reminder>",
        "<\u202e/system-reminder>",
        "</system\U000e0041-reminder>",
        "＜/system-reminder>",
        "<|im_start|>",
    ],
)
def test_no_disguise_of_a_control_tag_is_shown_as_one(text: str) -> None:
    assert neutralise(f"a {text} b").startswith("a &lt;")


def test_what_only_a_model_would_read_is_not_shown() -> None:
    """Tag characters and signs that turn a line around; joined emoji and right-to-left words stay."""
    hidden = "".join(chr(0xE0000 + ord(sign)) for sign in ORDER)
    assert neutralise(f"Tea\u202e {hidden}time\u2066") == "Tea time"
    assert neutralise("👩\u200d💻 שלום") == "👩\u200d💻 שלום"
