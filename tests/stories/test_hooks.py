"""The person's own commands in whole sessions: how one begins, and whether a turn is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.errors import ConfigError
from nacre.hooks.layer import HOOK
from nacre.messages.events import TurnDone
from nacre.messages.records import Noted, Said
from nacre.session.agent import MAX_CONTINUATIONS
from nacre.testing import ScriptedProvider, call, first_moved_block, say
from tests.cli.program import nacre
from tests.stories.hooked import cancel_in_the_command, configure, notices, play, settings_of, talk
from tests.stories.processes import eventually, is_running, keep_alive, logs, pids
from tests.stories.terminal import CTRL_C, CTRL_D, PROMPT, terminal


async def test_what_a_session_begins_with_rides_behind_the_first_words_and_stays(tmp_path: Path) -> None:
    """The prefix does not move; a resumed session asks again and says that it goes on."""
    configure(tmp_path, SessionStart='echo "said by $(cat)"')
    provider = ScriptedProvider([say("one"), say("two"), say("three")])
    seen = await talk(settings_of(tmp_path), provider, "hello", "again")
    assert any("A SessionStart hook added" in line for line in notices(seen))
    *_, words, behind = [block["text"] for block in provider.requests[0].messages[-1]["content"]]  # type: ignore[union-attr, index, call-overload]
    assert words == "hello"
    assert "hook_event_name" in str(behind)
    assert '"source": "startup"' in str(behind)
    assert str(provider.requests[1].messages).count("said by") == 1
    await talk(settings_of(tmp_path), provider, "and on", session="latest")
    last = str(provider.requests[2].messages)
    assert last.count("said by") == 2
    assert '"source": "resume"' in last
    assert first_moved_block(provider.requests) is None


async def test_a_turn_goes_on_until_the_command_is_content(tmp_path: Path) -> None:
    """Exit code 2 at the end of a turn: its reason is said to the model, and the command learns of it."""
    command = f"""
        cat >> {tmp_path}/told; echo >> {tmp_path}/told
        [ -e {tmp_path}/tested ] && exit 0
        touch {tmp_path}/tested; echo 'run the tests first' >&2; exit 2"""
    configure(tmp_path, Stop=command)
    provider = ScriptedProvider([say("I am done."), say("Tests are green.")])
    seen = await talk(settings_of(tmp_path), provider, "do it")
    assert "run the tests first" in str(provider.requests[1].messages[-1])
    done = seen[-1]
    assert isinstance(done, TurnDone)
    assert (done.outcome, done.rounds) == ("answered", 2)
    assert "A Stop hook makes the turn continue." in notices(seen)
    first, second = map(json.loads, (tmp_path / "told").read_text().split("\n")[:2])
    assert (first["stop_hook_active"], first["last_assistant_message"]) == (False, "I am done.")
    assert (second["stop_hook_active"], second["last_assistant_message"]) == (True, "Tests are green.")


async def test_the_reason_is_the_programs_word_and_not_the_persons(tmp_path: Path) -> None:
    """C20: nothing a command said may later pass for what the person said."""
    configure(tmp_path, Stop=f"mkdir {tmp_path}/once 2>/dev/null || exit 0; echo more >&2; exit 2")
    provider = ScriptedProvider([say("one"), say("two")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        async for _ in ready.agent.stream("do it"):
            pass
        records = ready.agent.session.transcript.records
    theirs = [each for each in records if isinstance(each, Said) and each.role == "user" and not each.meta]
    assert [each.message.text for each in theirs] == ["do it"]
    (note,) = [each for each in records if isinstance(each, Noted) and each.kind == HOOK]
    (said,) = [each for each in records if isinstance(each, Said) and each.id == note.fact("record")]
    assert "more" in said.message.text


async def test_a_command_that_is_never_content_holds_a_turn_three_times(tmp_path: Path) -> None:
    configure(tmp_path, Stop="echo never >&2; exit 2")
    provider = ScriptedProvider(otherwise=lambda _: say("done"))
    seen = await talk(settings_of(tmp_path), provider, "do it", "and again")
    assert len(provider.requests) == 2 * (1 + MAX_CONTINUATIONS)
    assert sum("The turn ends here" in line for line in notices(seen)) == 2


async def test_rounds_are_counted_over_the_whole_turn(tmp_path: Path) -> None:
    """What a person allows per turn is not widened by a command."""
    configure(tmp_path, Stop="echo never >&2; exit 2")
    provider = ScriptedProvider(otherwise=lambda _: say("done"))
    settings = settings_of(tmp_path, maxTurns=2)
    seen = await talk(settings, provider, "do it")
    assert len(provider.requests) == 2
    assert any("no round is left" in line for line in notices(seen))


async def test_a_turn_that_ends_at_its_limit_asks_nobody(tmp_path: Path) -> None:
    configure(tmp_path, Stop=f"touch {tmp_path}/asked")
    provider = ScriptedProvider(otherwise=lambda _: call("Glob", pattern="*"))
    settings = settings_of(tmp_path, maxTurns=1)
    await talk(settings, provider, "do it")
    assert not (tmp_path / "asked").exists()


async def test_cancelling_while_a_command_runs_ends_it_and_leaves_a_session_that_goes_on(
    tmp_path: Path, pid_file: Path
) -> None:
    """Q2."""
    configure(tmp_path, Stop=f"[ -e {pid_file} ] || {{ {keep_alive(pid_file)}; }}")
    provider = ScriptedProvider([say("one"), say("two")])
    async with open_agent(settings_of(tmp_path), provider=provider) as ready:
        await cancel_in_the_command(ready.agent, "do it", pid_file)
        await play(ready.agent, "again")
    assert len(provider.requests) == 2


async def test_a_bare_session_runs_none_and_minds_no_setting(tmp_path: Path) -> None:
    configure(tmp_path, SessionStart=f"touch {tmp_path}/ran", Stop=f"touch {tmp_path}/ran")
    await talk(settings_of(tmp_path, simple=True), ScriptedProvider([say("one")]), "hello")
    assert not (tmp_path / "ran").exists()
    (tmp_path / "home" / "settings.json").write_text('{"hooks": {"Stop": 7}}')
    await talk(settings_of(tmp_path, simple=True), ScriptedProvider([say("one")]), "hello")
    with pytest.raises(ConfigError, match=r"hooks\.Stop: expected a list"):
        await talk(settings_of(tmp_path), ScriptedProvider([say("one")]), "hello")


async def test_without_any_nothing_takes_part(tmp_path: Path) -> None:
    async with open_agent(settings_of(tmp_path), provider=ScriptedProvider()) as ready:
        session = ready.agent.session
        assert not any("hooks" in type(each).__module__ for each in session.layers)


def test_a_project_runs_commands_only_once_it_is_trusted(tmp_path: Path) -> None:
    """A stranger's repository starts nothing."""
    (tmp_path / ".nacre").mkdir()
    entry = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/ran"}]}
    (tmp_path / ".nacre" / "settings.json").write_text(json.dumps({"hooks": {"SessionStart": [entry]}}))
    done = nacre(tmp_path, "-p", "hello")
    assert done.returncode == 0
    assert not (tmp_path / "ran").exists()


def test_a_setting_that_cannot_be_read_is_one_line_and_exit_code_three(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.json").write_text('{"hooks": {"Stop": [{"hooks": [{"command": 1}]}]}}')
    done = nacre(tmp_path, "-p", "hello")
    assert done.returncode == 3
    assert done.stderr.strip().splitlines() == [
        "nacre: hooks.Stop[0].hooks[0].command: expected the command to run, as a string"
    ]


def test_commands_in_the_real_program_get_the_project_and_warn_in_one_line(tmp_path: Path) -> None:
    command = f'echo "$CLAUDE_PROJECT_DIR $NACRE_PROJECT_DIR" > {tmp_path}/env; echo broken >&2; exit 1'
    configure(tmp_path, SessionStart=command)
    done = nacre(tmp_path, "-p", "hello")
    assert done.returncode == 0
    assert (tmp_path / "env").read_text().split() == [str(tmp_path), str(tmp_path)]
    assert "ended with exit code 1: broken" in done.stderr


@pytest.mark.slow
def test_in_a_chat_clear_is_told_and_ctrl_c_ends_a_command(tmp_path: Path, pid_file: Path) -> None:
    """Q2: the terminal comes back, and no process stays."""
    configure(
        tmp_path,
        SessionStart=f"cat >> {tmp_path}/told; echo >> {tmp_path}/told",
        Stop=f"[ -e {pid_file} ] || {{ {keep_alive(pid_file)}; }}",
    )
    with terminal(tmp_path, "chat") as person:
        person.see(PROMPT)
        person.type("hello\n")
        eventually(lambda: bool(pids(pid_file)), "the command runs")
        person.type(CTRL_C)
        person.see("stopped; what was said so far is kept")
        assert [pid for pid in pids(pid_file) if is_running(pid)] == []
        person.see(PROMPT)
        person.type("/clear\n")
        person.see(PROMPT)
        person.type("hello again\n")
        person.see(PROMPT)
        person.type(CTRL_D)
        assert person.ends() == 0
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [each["source"] for each in told] == ["startup", "clear"]
    assert [each["transcript_path"] for each in told] == [str(path) for path in logs(tmp_path)]
