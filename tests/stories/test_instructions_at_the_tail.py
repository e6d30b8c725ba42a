"""Instructions that come in late or change are told at the tail; nothing already sent moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.messages.events import Notice
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider, call, say


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "web").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("Answer briefly.")
    (folder / "web" / "CLAUDE.md").write_text("No inline styles.")
    (folder / "web" / "page.html").write_text("<p>hi</p>")
    (folder / ".claude" / "rules").mkdir(parents=True)
    (folder / ".claude" / "rules" / "html.md").write_text("---\npaths: '**/*.html'\n---\nClose every tag.")
    return folder


def settings_of(project: Path) -> Settings:
    home = project.parent / "home"
    return load(project, {"HOME": str(project.parent), "NACRE_HOME": str(home)})


async def play(
    project: Path, provider: ScriptedProvider, *texts: str, session: str = "new", model: str | None = None
) -> list[str]:
    """Some turns; what the person was told on the way."""
    settings = settings_of(project)
    if model:
        settings = load(project, {"NACRE_HOME": str(settings.home), "NACRE_MODEL": model})
    told = []
    async with open_agent(settings, provider=provider, session=session) as ready:
        for text in texts:
            told += [event.text async for event in ready.agent.stream(text) if isinstance(event, Notice)]
    return told


def tail(provider: ScriptedProvider) -> str:
    """The last message of the last request."""
    return str(provider.requests[-1].messages[-1]["content"])


async def test_a_nested_file_and_a_scoped_rule_load_when_a_file_they_mean_is_read(project: Path) -> None:
    """M23, M25: behind the results, once, and never before."""
    read = call("Read", file_path=str(project / "web" / "page.html"))
    provider = ScriptedProvider([read, read, say("done"), say("again")])
    told = await play(project, provider, "look at the page", "and now?")
    first, second, third, _ = (str(request.messages) for request in provider.requests)
    assert "Answer briefly." in first
    assert "No inline styles." not in first
    assert second.count("No inline styles.") == second.count("Close every tag.") == 1
    assert third.count("No inline styles.") == 1
    assert told == [f"now in force: {project}/web/CLAUDE.md, {project}/.claude/rules/html.md"]


async def test_a_long_nested_file_is_loaded_with_a_warning(project: Path) -> None:
    """M24: more than 40,000 characters are sent and the notice says so."""
    (project / "web" / "CLAUDE.md").write_text(
        "No inline styles.\n" + "Use short words here.\n" * 2_000 + "END"
    )
    read = call("Read", file_path=str(project / "web" / "page.html"))
    provider = ScriptedProvider([read, say("done")])
    (told,) = await play(project, provider, "look at the page")
    sent = str(provider.requests[-1].messages)
    assert sent.count("Use short words here.") == 2_000
    assert "END" in sent
    assert told.startswith(f"now in force: {project}/web/CLAUDE.md, {project}/.claude/rules/html.md; ")
    assert f"{project}/web/CLAUDE.md: 44,021 characters, more than 40,000" in told


async def test_a_nested_file_too_long_for_one_message_is_not_said_to_be_in_force(project: Path) -> None:
    """M24: the person is told what the model is told."""
    (project / "web" / "CLAUDE.md").write_text("Use short words here.\n" * 20_000)
    read = call("Read", file_path=str(project / "web" / "page.html"))
    provider = ScriptedProvider([read, say("done")])
    (told,) = await play(project, provider, "look at the page")
    assert "Use short words here." not in str(provider.requests[-1].messages)
    assert told == (
        f"now in force: {project}/.claude/rules/html.md; "
        f"too long, the model is only told their paths: {project}/web/CLAUDE.md"
    )


async def test_where_user_text_would_cost_the_cache_it_rides_inside_the_last_result(project: Path) -> None:
    """R1: the model loses its old thinking at any text of a user."""
    read = call("Read", file_path=str(project / "web" / "page.html"))
    provider = ScriptedProvider([read, say("done")])
    await play(project, provider, "look at the page", model="claude-haiku-4-5")
    content = provider.requests[-1].messages[-1]["content"]
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["tool_result"]  # type: ignore[index,call-overload]
    assert "No inline styles." in str(content)


async def test_a_file_changed_in_mid_session_is_announced_with_the_next_words(project: Path) -> None:
    """M25: what was sent stays as it is; the prefix net sees to that."""
    provider = ScriptedProvider([say("one"), say("two"), say("three")])
    settings = settings_of(project)
    async with open_agent(settings, provider=provider) as ready:
        async for _ in ready.agent.stream("hello"):
            pass
        (project / "CLAUDE.md").write_text("Answer at length.")
        (project / "AGENTS.md").write_text("New here.")
        notices = [event.text async for event in ready.agent.stream("go on") if isinstance(event, Notice)]
        assert "Answer at length." in tail(provider)
        assert "New here." in tail(provider)
        async for _ in ready.agent.stream("and on"):
            pass
    assert "Answer at length." not in tail(provider)
    assert notices == [f"instructions changed: {project}/CLAUDE.md, {project}/AGENTS.md"]


async def test_what_the_model_wrote_itself_it_is_not_told_again(project: Path) -> None:
    """M25: its own edit is in the conversation already."""
    write = call("Write", file_path=str(project / "AGENTS.md"), content="Mine.")
    provider = ScriptedProvider([write, say("written"), say("ok")])
    settings = load(project, {"NACRE_HOME": str(project.parent / "home"), "HOME": str(project.parent)})

    async def yes(*_: object) -> str:
        return "once"

    async with open_agent(settings, provider=provider, ask=yes) as ready:  # type: ignore[arg-type]
        async for _ in ready.agent.stream("write AGENTS.md"):
            pass
        assert (project / "AGENTS.md").read_text() == "Mine."
        async for _ in ready.agent.stream("thanks"):
            pass
    assert "changed on disk" not in tail(provider)


async def test_a_resumed_session_hears_what_changed_while_nobody_was_there(project: Path) -> None:
    """M25: also that a file is gone; what is as it was is not told again."""
    read = call("Read", file_path=str(project / "web" / "page.html"))
    await play(project, ScriptedProvider([read, say("one")]), "hello")
    (project / "CLAUDE.md").unlink()
    provider = ScriptedProvider([read, say("two")])
    await play(project, provider, "go on", session="latest")
    words = str(provider.requests[0].messages[-1]["content"])
    assert f"no longer to be followed: `{project}/CLAUDE.md`" in words
    assert "No inline styles." not in words
    assert str(provider.requests[-1].messages).count("No inline styles.") == 1


async def test_a_session_that_another_program_began_is_told_what_stands_ahead_of_it(project: Path) -> None:
    """M10, M25: its log never held the instructions or the index."""
    await play(project, ScriptedProvider([say("one")]), "hello")
    (log,) = (project.parent / "home").glob("projects/*/*.jsonl")
    lines = log.read_text().splitlines(keepends=True)
    theirs = [line for line in lines if '"opening"' not in line and "Answer briefly." not in line]
    assert len(theirs) == len(lines) - 2
    log.write_text("".join(theirs))
    provider = ScriptedProvider([say("two"), say("three")])
    await play(project, provider, "go on", "and on", session="latest")
    assert str(provider.requests[0].messages).count("Answer briefly.") == 1
    assert str(provider.requests[1].messages).count("Answer briefly.") == 1
    assert "MEMORY.md" in str(provider.requests[0].messages)


@pytest.mark.moves_prefix(reason="rewind")
async def test_what_a_rewind_takes_away_is_told_again(project: Path) -> None:
    """M25: the opening comes with the next first message, and a change that was rewound is told again."""
    provider = ScriptedProvider([say("one"), say("two"), say("three"), say("four")])
    async with open_agent(settings_of(project), provider=provider) as ready:
        for text in ("hello", "go on"):
            async for _ in ready.agent.stream(text):
                pass
            (project / "CLAUDE.md").write_text("Answer at length.")
        assert "Answer at length." in tail(provider)
        await ready.rewind.forget(ready.rewind.points()[-1])
        async for _ in ready.agent.stream("go on again"):
            pass
        assert "Answer at length." in tail(provider)
        await ready.rewind.forget(ready.rewind.points()[0])
        async for _ in ready.agent.stream("from the start"):
            pass
    first = str(provider.requests[-1].messages[0]["content"])
    assert "MEMORY.md" in first
    assert "Answer briefly." in first
