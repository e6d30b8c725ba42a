"""Stories that leave memories behind: by tools, by extraction, by a dream, by hand, from elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from nacre.testing import Cast, ScriptedProvider, call, say
from tests.frozen.commands import nacre
from tests.frozen.scenarios import EXTRACT
from tests.frozen.scenes import QUIET, Scene

Story = Callable[[Scene], None]
DEPLOYS = "Deploys go out on Tuesdays through the pipeline after two approvals from the platform group."


def directory(scene: Scene) -> Path:
    """The project's memory directory."""
    return Path(nacre(scene, "memory", "path").out.strip())


def lay(scene: Scene, files: dict[str, str]) -> None:
    """Memories that are there before a story begins."""
    for name, text in files.items():
        path = directory(scene) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    scene.settle_times()


def topic(name: str, body: str, kind: str = "project", **more: str) -> str:
    """A memory as a file has it."""
    head = {"name": name, "description": body.partition(".")[0], "type": kind, **more}
    lines = "".join(f"{key}: {value}\n" for key, value in head.items())
    return f"---\n{lines}---\n\n{body}\n"


def by_tools(scene: Scene) -> None:
    """The model remembers, corrects, and says something again."""
    provider = ScriptedProvider([
        call("remember", text="The person lives in Lisbon.", type="user"),
        call("remember", text=DEPLOYS, name="Deploys", description="When deploys go out", type="project"),
        say("Noted."),
        call("correct", query="lives in Lisbon", text="The person lives in Porto."),
        call("remember", text=f"{DEPLOYS} Never on Fridays.", name="Deploys"),
        say("Corrected."),
    ])  # fmt: skip

    async def talk() -> None:
        async with scene.opened(scene.settings(QUIET), provider=provider) as ready:
            await scene.said(ready, f"I live in Lisbon. {DEPLOYS}", "I live in Porto now. Never on Fridays.")

    asyncio.run(talk())


def extraction_by_rule(scene: Scene) -> None:
    """Without a model what was stated is kept by rule, and a newer statement replaces an older one."""

    async def talk(*texts: str) -> None:
        settings = scene.settings({"NACRE_NOTES": "0", "NACRE_DREAM": "0"}, model=None, interactive=True)
        async with scene.opened(settings) as ready:
            await scene.said(ready, *texts)

    asyncio.run(talk("I live in Lisbon.", "Please always use tabs in this project.", "我住在里斯本。"))
    scene.clock.advance(86_400)
    asyncio.run(talk("I live in Porto now.", "What is two plus two?"))


def extraction_by_model(scene: Scene) -> None:
    """A fork writes what the turn taught: one memory that stands in it, and one that nobody said."""
    main, fork = ScriptedProvider([say("Nice."), say("Welcome.")]), ScriptedProvider()
    settings = scene.settings({**QUIET, "NACRE_EXTRACT": "1"}, interactive=True)
    home = topic("Home", "The user lives in Porto.", "user")
    invented = topic("Car", "The user drives a red car to Madrid on 3 May 2024.", "user")

    async def talk() -> None:
        async with scene.opened(settings, provider=Cast(main, {EXTRACT: fork})) as ready:
            where = ready.memories[0].location.directory
            fork.script(call("Write", file_path=str(where / "home.md"), content=home))
            fork.script(call("Write", file_path=str(where / "car.md"), content=invented), say("Saved."))
            fork.script(say("Nothing."))
            await scene.said(ready, "I live in Porto, by the way.", "Thanks.")

    asyncio.run(talk())


def dream_by_rule(scene: Scene) -> None:
    """One memory twice, an index with a line to nothing, and memories that it does not list."""
    hobbies = ("sailing", "chess", "pottery", "beekeeping", "calligraphy", "fencing")
    lay(scene, {
        "MEMORY.md": "# Memory\n\n- [Gone](gone.md) - nothing\n- [Deploys](deploys.md) - when\n",
        "deploys.md": topic("Deploys", DEPLOYS),
        "deploys_again.md": topic("Deploys", DEPLOYS),
        **{
            f"hobby_{n}.md": topic(f"Hobby {word}", f"The person likes {word} and talks about it.", "user")
            for n, word in enumerate(hobbies)
        },
    })  # fmt: skip
    assert nacre(scene, "dream", "--force", "--by-rule").code == 0


def forget_and_undo(scene: Scene) -> None:
    """By hand: saved, replaced, forgotten, and the last change taken back; one that is pinned, one local."""
    for text in ("The person drinks green tea.", "Backups of the orca database run at night."):
        assert nacre(scene, "memory", "save", text).code == 0
    assert nacre(scene, "memory", "save", "Room 12 is ours.", "--pin", "--local-only").code == 0
    assert nacre(scene, "memory", "save", "The person drinks black tea.", "--type", "user").code == 0
    assert nacre(scene, "memory", "forget", "orca", "--yes").code == 0
    assert nacre(scene, "memory", "forget", "Room 12", "--yes").code == 0
    assert nacre(scene, "memory", "undo").code == 0


def lint_fix(scene: Scene) -> None:
    """An index out of step, a file without a head, one with a head that cannot be read, a link to nothing."""
    lay(scene, {
        "MEMORY.md": "# Memory\n\n- [Gone](gone.md) - none\n- [Tea](tea.md) - green\n- [Tea](tea.md) - x\n",
        "tea.md": topic("Tea", "The person drinks green tea.", "user"),
        "plain.md": "The office is in room 12.\n",
        "odd.md": "---\nname: Odd\ntype: [user\n---\n\nSomething odd.\n",
        "links.md": topic("Links", "See [the plan](plan.md) and [tea](tea.md)."),
    })  # fmt: skip
    nacre(scene, "memory", "lint", "--fix")


def imported(scene: Scene) -> None:
    """A folder of memories, notes in Markdown, and facts of another program."""
    folder = scene.root / "theirs"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n\n- [Tea](tea.md) - green\n")
    (folder / "tea.md").write_text(topic("Tea", "The person drinks green tea.", "user"))
    note = scene.root / "note.md"
    note.write_text("# Releases\n\nReleases go out on Thursdays.\n")
    facts = scene.root / "mem0.json"
    fact = {"id": "1", "memory": "Lives in Porto", "created_at": "2026-01-02T03:04:05Z"}
    facts.write_text(json.dumps({"results": [fact]}))
    scene.settle_times()
    for path in (folder, note, facts, folder):
        assert nacre(scene, "memory", "import", str(path)).code == 0


def daily(scene: Scene) -> None:
    """Memory as a log of the day."""
    provider = ScriptedProvider([call("remember", text="Deploys go out on Tuesdays."), say("Noted.")])

    async def talk() -> None:
        settings = scene.settings({**QUIET, "NACRE_MEMORY_MODE": "daily"})
        async with scene.opened(settings, provider=provider) as ready:
            await scene.said(ready, "Deploys go out on Tuesdays.")

    asyncio.run(talk())
    scene.clock.advance(86_400)
    saved = nacre(scene, "memory", "save", "The person drinks green tea.", NACRE_MEMORY_MODE="daily")
    assert saved.code == 0


STORIES: dict[str, Story] = {
    one.__name__: one
    for one in (
        by_tools, extraction_by_rule, extraction_by_model, dream_by_rule, forget_and_undo, lint_fix, imported,
        daily,
    )
}  # fmt: skip
