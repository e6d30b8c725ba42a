"""A whole conversation of an editor with a real `nacre acp` process."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from nacre.testing import Simulator
from tests.integrations.acp.editor import Editor, at, begin, call, connected
from tests.pictures import png


async def test_a_conversation_streams_text_thoughts_calls_diffs_and_the_plan(work: Path, home: Path) -> None:
    app = str(work / "app.py")
    tasks = [{"title": "look", "state": "done"}, {"title": "change", "state": "in_progress"}]
    replies = [
        {"thinking": "I should look first.", **call("Read", file_path=app)},
        call("TaskList", tasks=tasks),
        call("Edit", file_path=app, old_string="two = 2", new_string="two = 3"),
        call("Bash", command="exit 3"),
        "All done.",
    ]
    async with Simulator(replies) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        assert await agent.say(session, "Make two three.") == "end_turn"
        editor = agent.editor
        assert editor.calls(session) == {
            "Read app.py": ("read", "completed"),
            "Edit app.py +1 −1": ("edit", "completed"),
            "Bash exit 3": ("execute", "failed"),
        }
        assert editor.said(session) == "All done."
        assert editor.said(session, "agent_thought_chunk") == "I should look first."
        plan = editor.of(session, "plan")[-1].entries
        assert [(one.content, one.status) for one in plan] == [
            ("look", "completed"),
            ("change", "in_progress"),
        ]
        edit = next(one for one in editor.of(session, "tool_call_update") if one.locations)
        assert (edit.locations[0].path, edit.locations[0].line) == (app, 2)
        diff = edit.content[0]
        assert (diff.path, diff.old_text, diff.new_text) == (
            app,
            "one = 1\ntwo = 2\n",
            "one = 1\ntwo = 3\n",
        )
        usage = editor.of(session, "usage_update")[-1]
        assert 0 < usage.used < usage.size and usage.cost.amount > 0
        assert editor.of(session, "session_info_update")[0].title == "Make two three."
    assert (work / "app.py").read_text() == "one = 1\ntwo = 3\n"


@pytest.mark.slow
async def test_without_a_key_the_embedded_engine_answers_and_says_so_once(work: Path, home: Path) -> None:
    async with connected(home) as agent:
        assert agent.greeting.agent_capabilities.load_session
        session = await begin(agent, work)
        await agent.say(session, "read app.py")
        # A refusal would make the client drop the turn, which the session keeps.
        assert await agent.say(session, "Tell me a joke about tabs.") == "end_turn"
        said = agent.editor.said(session)
    assert "two = 2" in said
    assert said.count("no language model is configured") == 1


async def test_slash_commands_are_offered_and_run_and_reach_memory(work: Path, home: Path) -> None:
    async with connected(home) as agent:
        session = await begin(agent, work)
        await agent.until(lambda: agent.editor.of(session, "available_commands_update"))
        offered = {
            one.name: one
            for one in agent.editor.of(session, "available_commands_update")[0].available_commands
        }
        assert {"remember", "forget", "recall", "memory", "compact", "context"} <= set(offered)
        assert not {"exit", "quit", "clear", "resume"} & set(offered)
        assert offered["remember"].input.root.hint.startswith("TEXT")
        assert offered["context"].input is None

        assert await agent.say(session, "/remember the build server is heron") == "end_turn"
        await agent.say(session, "#I prefer tabs")
        await agent.say(session, "what do you know about the build server?")
        assert "heron" in agent.editor.said(session).partition("what do you know")[0]
        await agent.say(session, "/nonsense")
        assert "no command /nonsense" in agent.editor.said(session)
        await agent.say(session, "/exit")
        assert "command of the terminal" in agent.editor.said(session)
        await agent.say(session, "read app.py")  # the session goes on
    assert len(list((home / "projects").glob("*/memory/*.md"))) == 3  # two memories and the index


@pytest.mark.slow
async def test_a_path_at_the_beginning_of_a_message_is_no_command(work: Path, home: Path) -> None:
    async with Simulator(["It is a shell."]) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        await agent.say(session, "/bin/sh is what?")
        assert agent.editor.said(session) == "It is a shell."


@pytest.mark.slow
async def test_files_links_and_pictures_of_a_prompt_reach_the_model(work: Path, home: Path) -> None:
    picture = png(3, 2)
    async with Simulator(["Seen."]) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        await agent.agent.prompt(
            session_id=session,
            prompt=[
                TextContentBlock(type="text", text="Compare "),
                ResourceContentBlock(
                    type="resource_link", name="app.py", uri=f"file://{work}/app%20two.py#L3"
                ),
                TextContentBlock(type="text", text=" with this."),
                EmbeddedResourceContentBlock(
                    type="resource", resource=TextResourceContents(uri="zed:///notes", text="``` a note")
                ),
                ImageContentBlock(
                    type="image", data=base64.b64encode(picture).decode(), mime_type="image/png"
                ),
            ],
        )
        sent = sim.log[-1].body["messages"]
    blocks = [block for message in sent for block in message["content"]]
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    assert f"Compare {work}/app two.py (L3) with this." in text
    assert "zed:///notes:\n````\n``` a note\n````" in text
    assert [block["source"]["media_type"] for block in blocks if block["type"] == "image"] == ["image/png"]


@pytest.mark.slow
async def test_unsaved_text_of_the_editor_is_read_and_changed_through_it(work: Path, home: Path) -> None:
    app = str(work / "app.py")
    replies = [
        call("Read", file_path=app),
        call("Edit", file_path=app, old_string="unsaved", new_string="saved"),
        call("Write", file_path=str(work / "new.py"), content="new = 1\n"),
        "Done.",
    ]
    editor = Editor(buffers={app: "one = 1\nunsaved = 2\n"})
    async with (
        Simulator(replies) as sim,
        connected(home, editor=editor, has_files=True, **at(sim)) as agent,
    ):
        session = await begin(agent, work)
        assert await agent.say(session, "Save it.") == "end_turn"
        read = sim.log[1].body["messages"]
    assert "unsaved = 2" in str(read)
    assert editor.written == [(app, "one = 1\nsaved = 2\n"), (str(work / "new.py"), "new = 1\n")]
    diff = editor.asked[0][0].content[1]
    assert (diff.old_text, diff.new_text) == ("one = 1\nunsaved = 2\n", "one = 1\nsaved = 2\n")
    made = [one for one in editor.of(session, "tool_call_update") if one.status == "completed"][1].content[0]
    assert (made.old_text, made.new_text) == (diff.old_text, diff.new_text)


@pytest.mark.slow
async def test_a_failure_of_the_provider_is_an_error_of_the_prompt_in_one_line(
    work: Path, home: Path
) -> None:
    replies = [{"fault": {"kind": "auth"}}, "Better."]
    async with Simulator(replies) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        with pytest.raises(Exception, match=r"API key|401|refused") as failed:
            await agent.say(session, "Hello?")
        assert "\n" not in str(failed.value)
        assert await agent.say(session, "/retry") == "end_turn"
        assert "Better." in agent.editor.said(session)


@pytest.mark.slow
async def test_another_model_is_chosen_before_and_after_the_first_message(work: Path, home: Path) -> None:
    async with Simulator(["First.", "Second."]) as sim, connected(home, **at(sim)) as agent:
        session = await begin(agent, work)
        for model in ("claude-haiku-4-5", "claude-sonnet-5-5"):
            done = await agent.agent.set_config_option(config_id="model", session_id=session, value=model)
            now = {one.id: one.current_value for one in done.config_options}
            assert now["model"] == model
            await agent.say(session, "Hello")
        assert [one.body["model"] for one in sim.log] == ["claude-haiku-4-5", "claude-sonnet-5-5"]
        assert "Hello" in str(sim.log[1].body["messages"][0])  # the same conversation
        with pytest.raises(Exception, match="nonesuch"):
            await agent.agent.set_config_option(config_id="model", session_id=session, value="nonesuch")
