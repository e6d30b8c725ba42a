"""`/memory`: all that a conversation did to memory, whoever did it, and the last of it taken back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.cli.chat.slash import SlashContext, dream_now, run_slash
from nacre.cli.chat.slash_memory import remember, saved_here
from nacre.providers.embedded.provider import EmbeddedProvider
from nacre.settings import Settings, load
from nacre.store.input_history import remember_command


def settings_in(cwd: Path, **cli: str) -> Settings:
    environ = {"HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "NACRE_NOTES": "false", **cli}
    return replace(load(cwd, environ), is_interactive=True)


async def say(ready: OpenedAgent, text: str) -> None:
    async for _ in ready.agent.stream(text):
        pass


async def test_what_was_remembered_corrected_and_drawn_is_all_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """E6, M15: by the session in the history, newest first, and not what another conversation saved."""
    settings = settings_in(tmp_path)
    async with open_agent(settings, provider=EmbeddedProvider()) as ready:
        await say(ready, "remember that the lamp is on")
    async with open_agent(settings, provider=EmbeddedProvider()) as ready:
        await saved_here(ready, "")
        assert capsys.readouterr().out.startswith("nothing was saved from this conversation yet")
        await say(ready, "remember: deploys are on Tuesday")
        await say(ready, "actually it is Friday, not Tuesday")
        await say(ready, "By the way, I live in Lisbon.")
        await saved_here(ready, "")
        told = capsys.readouterr().out.splitlines()
        assert [line.partition(" (undo: nacre memory undo ")[0] for line in told] == [
            "saved, as drawn from the conversation: user_home.md",
            "corrected project_deploys_tuesday.md",
            "saved project_deploys_tuesday.md",
        ]


async def test_undo_takes_back_the_last_and_then_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """E6, M15: also where nothing is drawn from the conversation."""
    settings = settings_in(tmp_path, NACRE_EXTRACT_MODE="off")
    async with open_agent(settings, provider=EmbeddedProvider()) as ready:
        await saved_here(ready, "undo")
        assert "none is drawn from it (see extract.mode)" in capsys.readouterr().out
        await say(ready, "remember: deploys are on Tuesday")
        await say(ready, "actually it is Friday, not Tuesday")
        for left in (["deploys are on Tuesday\n"], []):
            await saved_here(ready, "undo")
            assert "took back project_deploys_tuesday.md" in capsys.readouterr().out
            assert [entry.body for entry in await ready.memories[0].list()] == left
        await saved_here(ready, "")
        assert capsys.readouterr().out.startswith("nothing was saved")


async def test_the_users_own_words_are_saved_without_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_agent(settings_in(tmp_path), provider=EmbeddedProvider()) as ready:
        for text, said in (
            ("", "give the text: /remember TEXT"),
            ("Deploys are on Tuesday.", "saved project_deploys_tuesday.md; /memory undo takes it back"),
            ("Deploys are on Tuesday.", "project_deploys_tuesday.md says so already"),
            ("The password is kF9#qLz2!mVw", "secrets do not belong into memory"),
        ):
            await remember(ready, text, is_daily=False)
            told = capsys.readouterr()
            assert said in told.out + told.err
        entries = await ready.memories[0].list()
        assert [(one.body, one.origin) for one in entries] == [("Deploys are on Tuesday.\n", "user")]


async def test_words_that_a_command_does_not_know_are_answered_with_those_it_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_agent(settings_in(tmp_path), provider=EmbeddedProvider()) as ready:
        for act, said in (
            (remember(ready, "that", is_daily=False), "give the text: /remember TEXT"),
            (remember(ready, "这个。", is_daily=False), "give the text: /remember TEXT"),
            (saved_here(ready, "why pnpm"), "type /memory or /memory undo"),
            (dream_now(ready, "bogus"), "type /dream, /dream status or /dream kill"),
        ):
            await act
            told = capsys.readouterr()
            assert said in told.err and not told.out
        assert await ready.memories[0].list() == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/why pnpm", "no command /why; in a shell, `nacre memory why` does that"),
        ("/undo", "no command /undo; /memory undo undoes the last change to memory"),
        (f"/{'y' * 5000}", "…; /help lists them"),
    ],
)
def test_a_command_of_the_shell_is_named_in_a_chat(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_slash(line, cast(SlashContext, None))
    told = capsys.readouterr().err
    assert said in told
    assert len(told) < 200


async def test_the_users_own_words_become_a_line_of_a_daily_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_in(tmp_path, NACRE_MEMORY_MODE="daily")
    async with open_agent(settings, provider=EmbeddedProvider()) as ready:
        await remember(ready, "Deploys are on Tuesday.", is_daily=True)
        assert capsys.readouterr().out.startswith("logged in ")


async def test_a_session_that_only_reads_memory_saves_no_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_in(tmp_path)
    async with open_agent(settings, provider=EmbeddedProvider(), ephemeral=True) as ready:
        await remember(ready, "Deploys are on Tuesday.", is_daily=False)
    told = capsys.readouterr()
    assert told.err and not told.out
    assert not list(tmp_path.rglob("project_deploys*"))


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("#use tabs", "/remember use tabs"),
        ("# use tabs ", "/remember use tabs"),
        ("#用制表符", "/remember 用制表符"),
        ("#12 is broken", None),
        ("## Heading", None),
        ("# Heading\ntext", None),
        ("#", None),
        ("a #tag", None),
    ],
)
def test_a_line_after_a_number_sign_is_a_command_to_remember(text: str, command: str | None) -> None:
    assert remember_command(text) == command
