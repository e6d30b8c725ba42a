"""Questions of the guard in an editor, modes and plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.testing import Simulator
from tests.integrations.acp.editor import Editor, at, begin, call, connected

WRITES = [call("Write", file_path="b.txt", content="b\n"), "Well."]


async def test_a_refused_call_is_not_made_and_the_model_is_told(work: Path, home: Path) -> None:
    async with Simulator(WRITES) as sim, connected(home, editor=Editor("no"), **at(sim)) as agent:
        session = await begin(agent, work)
        assert await agent.say(session, "Write it.") == "end_turn"
        told = str(sim.log[-1].body["messages"])
        assert agent.editor.calls(session) == {"Write b.txt +1": ("edit", "failed")}
        question, options = agent.editor.asked[0]
        assert [one.kind for one in options] == ["allow_once", "allow_always", "reject_once", "reject_always"]
        assert (question.content[1].path, question.content[1].new_text) == (str(work / "b.txt"), "b\n")
        assert question.content[1].old_text is None
    assert "the user said no" in told
    assert not (work / "b.txt").exists()


@pytest.mark.slow
async def test_a_closed_question_and_an_unknown_answer_are_a_no(work: Path, home: Path) -> None:
    for answer in ("", "something else"):
        async with Simulator(WRITES) as sim, connected(home, editor=Editor(answer), **at(sim)) as agent:
            await agent.say(await begin(agent, work), "Write it.")
    assert not (work / "b.txt").exists()


@pytest.mark.slow
async def test_always_allows_later_calls_and_is_saved_for_the_project(work: Path, home: Path) -> None:
    twice = [call("Bash", command="touch b.txt"), "Once.", call("Bash", command="touch b.txt"), "Twice."]
    for _ in range(2):  # the second agent has learned it, too
        async with Simulator(twice) as sim, connected(home, editor=Editor("always"), **at(sim)) as agent:
            session = await begin(agent, work)
            await agent.say(session, "Touch it.")
            await agent.say(session, "Again.")
            asked = agent.editor.asked
    assert (work / "b.txt").exists() and asked == []
    rules = json.loads((home / "permissions.json").read_text())
    assert rules == {str(work): ["Bash(touch b.txt)"]}


@pytest.mark.slow
async def test_never_refuses_the_same_call_without_a_question_in_this_session_only(
    work: Path, home: Path
) -> None:
    touch = call("Bash", command="touch b.txt")
    replies = [touch, "No.", touch, "Not either.", touch, "Yes."]
    async with Simulator(replies) as sim, connected(home, editor=Editor("never"), **at(sim)) as agent:
        session = await begin(agent, work)
        await agent.say(session, "Touch it.")
        await agent.say(session, "Again.")
        assert len(agent.editor.asked) == 1 and not (work / "b.txt").exists()
        agent.editor.answer = "once"
        await agent.say(await begin(agent, work), "Touch it.")
    assert (work / "b.txt").exists()
    assert not (home / "permissions.json").exists()


@pytest.mark.slow
async def test_modes_decide_what_needs_a_question(work: Path, home: Path) -> None:
    replies = [*WRITES, call("Write", file_path="c.txt", content="c\n"), "No."]
    async with Simulator(replies) as sim, connected(home, **at(sim)) as agent:
        opened = await agent.agent.new_session(cwd=str(work), mcp_servers=[])
        session = opened.session_id
        assert opened.modes.current_mode_id == "ask"
        await agent.agent.set_session_mode(session_id=session, mode_id="accept edits")
        await agent.say(session, "Write it.")
        await agent.say(session, "/mode read only")
        assert agent.editor.of(session, "current_mode_update")[-1].current_mode_id == "read only"
        await agent.say(session, "And another.")
        assert agent.editor.asked == []
        with pytest.raises(Exception, match="no mode 'bypass'"):
            await agent.agent.set_session_mode(session_id=session, mode_id="bypass")
    assert (work / "b.txt").exists() and not (work / "c.txt").exists()


@pytest.mark.slow
async def test_a_plan_is_offered_and_carried_out_in_the_mode_that_was_chosen(work: Path, home: Path) -> None:
    replies = ["# Plan\n\nWrite b.txt.", *WRITES]
    async with Simulator(replies) as sim, connected(home, editor=Editor("edits"), **at(sim)) as agent:
        session = await begin(agent, work)
        await agent.agent.set_session_mode(session_id=session, mode_id="plan")
        assert await agent.say(session, "What would you do?") == "end_turn"
        question, _ = agent.editor.asked[0]
        assert question.kind == "switch_mode" and "Write b.txt." in question.content[0].content.text
        assert len(agent.editor.asked) == 1  # edits are accepted now
        assert agent.editor.of(session, "current_mode_update")[-1].current_mode_id == "accept edits"
    assert (work / "b.txt").exists()


@pytest.mark.slow
async def test_rules_against_a_call_hold_whatever_the_editor_answers(work: Path, home: Path) -> None:
    (home / "settings.json").write_text(json.dumps({"permissions": {"deny": ["Write(b.txt)"]}}))
    async with Simulator(WRITES) as sim, connected(home, editor=Editor("always"), **at(sim)) as agent:
        await agent.say(await begin(agent, work), "Write it.")
        assert agent.editor.asked == []
    assert not (work / "b.txt").exists()


@pytest.mark.slow
async def test_a_question_of_another_agent_is_shown_as_a_call_of_its_own(work: Path, home: Path) -> None:
    replies = [
        call("Agent", description="touch it", prompt="Touch b.txt.", subagent_type="general"),
        call("Bash", command="touch b.txt"),
        "Touched.",
        "It is done.",
    ]
    async with Simulator(replies) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        assert await agent.say(session, "Have it touched.") == "end_turn"
        assert "asks:" in agent.editor.asked[0][0].content[0].content.text
        assert agent.editor.calls(session) == {
            "Agent touch it": ("think", "completed"),
            "Bash touch b.txt": ("execute", "completed"),
        }
    assert (work / "b.txt").exists()
