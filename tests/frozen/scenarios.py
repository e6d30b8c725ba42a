"""Whole sessions by script: each plays in a scene and returns the requests that were sent, by who was asked.

They go through `open_agent` with every layer and the real loop; time, ids and answers are fixed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import anyio

from nacre import Base, Session
from nacre.messages.blocks import ToolResult
from nacre.providers.base import complete
from nacre.testing import Cast, ScriptedProvider, call, say, think, together
from nacre.tools.base import tool
from nacre.tools.run import run_all
from tests.frozen.scenes import MODEL, QUIET, Scene, compact, remember, write_plan

Voices = Mapping[str, Sequence[bytes]]
Scenario = Callable[[Scene], Awaitable[Voices]]

OLDER = "claude-sonnet-4-6"
"""Takes what is attached inside the results of tools."""
GPT = "gpt-6.1-terra"
NOTES, EXTRACT, SUMMARY = "<session-notes>", "<memory-extraction>", "Answer this message in words alone."
"""How forks are told apart from the conversation."""
STATE = "_What is being worked on at this moment, what is still pending, and the very next step._"
SUMMARISED = (
    "<analysis>\nFirst this, then that.\n</analysis>\n\n<summary>\n"
    "1. Primary request and intent:\nRead both files.\n\n"
    "2. Key technical concepts:\nNone.\n\n"
    "3. Files and code:\n- `b.py`: `two` returns 22 now.\n\n"
    "4. Errors and fixes:\nNone.\n\n"
    "5. Problem solving:\nNone.\n\n"
    "6. All user messages:\n-\n\n"
    "7. Pending tasks:\n- write, under way\n\n"
    "8. Current work:\nA long story.\n\n"
    "9. Next step:\nWrite.\n</summary>"
)
LONG = "A long stretch of talk that fills the view, number {n}. "
PAUSE_SECONDS = 2 * 3_600.0


@tool(read_only=True)
async def facts(topic: str, lines: int = 10) -> str:
    """Look something up."""
    return "\n".join(f"{topic} {n}: a fact worth knowing" for n in range(lines))


def long_text(words: int) -> str:
    return "".join(LONG.format(n=n) for n in range(words))


async def chat(scene: Scene) -> Voices:
    """Words alone: instructions, a new date, instructions that change on the way."""
    scene.write("CLAUDE.md", "Answer in one line.\n")
    scene.write("sub/CLAUDE.md", "In here, answer in verse.\n")
    provider = ScriptedProvider([say("Hello."), say("Fine.", thinking="Hm."), say("Bye."), say("In verse.")])
    async with scene.opened(scene.settings(QUIET), provider=provider) as ready:
        await scene.said(ready, "Good morning!", "How are you? — 好吗？")
        scene.clock.advance(86_400)
        await scene.said(ready, "See you.")
        scene.write("CLAUDE.md", "Answer in two lines.\n")
        await scene.said(ready, "And now?")
    return {"main": provider.sent}


async def tools(scene: Scene) -> Voices:
    """Calls side by side and one after the other, with errors, a task list, changed files, nested rules."""
    scene.write("a.py", "def one():\n    return 1\n")
    scene.write("sub/CLAUDE.md", "In here, use tabs.\n")
    scene.write("sub/b.py", "def two():\n\treturn 2\n")
    tasks = [{"title": "read", "state": "done"}, {"title": "write", "state": "pending"}]
    provider = ScriptedProvider([
        together(think("Both at once."), call("Read", file_path="a.py"), call("Grep", pattern="def")),
        call("Read", file_path="sub/b.py"),
        together("Now I change it.", call("Edit", file_path="a.py", old_string="1", new_string="11")),
        together(call("Read", file_path="missing.py"), call("Nonsense", x=1), call("Glob", pattern="*.py")),
        call("TaskList", tasks=tasks),
        call("Write", file_path="c.py", content="three = 3\n"),
        call("Bash", command="cat c.py && false"),
        say("Done."),
        say("Bye."),
    ])  # fmt: skip
    async with scene.opened(scene.settings(QUIET), provider=provider) as ready:
        await scene.said(ready, "Please mend it.", "Thanks.")
    return {"main": provider.sent}


async def offload(scene: Scene) -> Voices:
    """Results that are too long, one that came before, a file read again after a change, one read back."""
    lines = [f"line {n} of a file that is long enough to be worth a reference" for n in range(400)]
    file = scene.write("notes.txt", "\n".join(lines) + "\n")
    provider = ScriptedProvider([
        call("facts", topic="rivers", lines=3_000),
        together(call("facts", topic="lakes", lines=900), call("facts", topic="seas", lines=900)),
        call("facts", topic="lakes", lines=900),
        call("Read", file_path=str(file)),
        call("Read", file_path=str(file)),
        call("Edit", file_path=str(file), old_string="line 7 of", new_string="line seven of"),
        call("Read", file_path=str(file)),
        say("Done."),
    ])  # fmt: skip
    settings = scene.settings({**QUIET, "NACRE_OFFLOAD_MAX_CHARS": "30000"})
    async with scene.opened(settings, provider=provider, tools=lambda usual: [*usual, facts]) as ready:
        await scene.said(ready, "Tell me about water.")
        (kept,) = sorted(scene.home.rglob("call_1.txt"))
        provider.script(call("Read", file_path=str(kept), offset=2_990, limit=3), say("I have read it."))
        await scene.said(ready, "Read the end of it.")
    return {"main": provider.sent}


async def idle(scene: Scene) -> Voices:
    """Old results are cleared after a pause, and the newest stay."""
    provider = ScriptedProvider()
    for n in range(8):
        provider.script(call("Bash", command=f"seq {n}00 {n}80; echo file {n}"))
    provider.script(say("All read."), say("Welcome back."), say("Yes."))
    async with scene.opened(scene.settings(QUIET), provider=provider) as ready:
        await scene.said(ready, "Count a lot.")
        scene.clock.advance(PAUSE_SECONDS)
        await scene.said(ready, "I am back.", "Still there?")
    return {"main": provider.sent}


async def recall(scene: Scene) -> Voices:
    """Memories go with the words they help with, once; one that was saved in the session, too."""
    for text in (
        "Releases go out on Thursdays, because support is staffed on Fridays.",
        "The person drinks green tea.",
        "Backups of the orca database run at night, see `ops/backup.sh`.",
    ):
        await remember(scene, text)
    scene.write("ops/backup.sh", "#!/bin/sh\n")
    provider = ScriptedProvider([
        say("Thursday."), say("Yes, Thursday."), say("Green tea."),
        call("remember", text="The person lives in Porto.", type="user"), say("Noted."),
        call("recall", query="orca backups"), say("At night."),
        call("forget", query="green tea"), say("Forgotten."),
    ])  # fmt: skip
    settings = scene.settings({**QUIET, "NACRE_RECALL": "1"})
    async with scene.opened(settings, provider=provider) as ready:
        await scene.said(
            ready, "When do releases go out?", "Releases, which day again?", "Which tea do I drink?"
        )
        await scene.said(
            ready, "I live in Porto, please keep that.", "When do backups of the orca database run?"
        )
        await scene.said(ready, "Forget the tea.")
    again = ScriptedProvider([say("In Porto."), say("At night.")])
    scene.settle_times()
    async with scene.opened(settings, provider=again) as ready:
        await scene.said(ready, "Where do I live, in Porto?", "And the orca database, when are its backups?")
    return {"main": provider.sent, "next session": again.sent}


async def notes(scene: Scene) -> Voices:
    """Notes are written beside the work by a fork, and a compaction stands on them."""
    scene.write("CLAUDE.md", "Answer in one line.\n")
    scene.write("a.py", "def one():\n    return 1\n")
    main = ScriptedProvider([call("Read", file_path="a.py"), say(long_text(400)), say("Go on."), say("Yes.")])
    fork = ScriptedProvider()
    environ = {**QUIET, "NACRE_NOTES": "1", "NACRE_NOTES_FIRST_TOKENS": "5000"}
    async with scene.opened(scene.settings(environ), provider=Cast(main, {NOTES: fork})) as ready:
        file = ready.agent.session.writer.folder / "session-memory" / "summary.md"  # type: ignore[attr-defined]
        state = f"{STATE}\n\nThe function `one` was read."
        fork.script(
            call("Edit", file_path=str(file), old_string=STATE, new_string=state), say("They are up to date.")
        )
        await scene.said(ready, "Read a.py and tell me a story.")
        await compact(ready)
        await scene.said(ready, "Where were we?", "Good.")
    return {"main": main.sent, "notes": fork.sent}


async def compaction(scene: Scene) -> Voices:
    """By rule when the window is full, then by a model's summary; files, tasks, rules and plan come back."""
    scene.write("CLAUDE.md", "Answer in one line.\n")
    scene.write("a.py", "def one():\n    return 1\n")
    scene.write("b.py", "def two():\n    return 2\n")
    tasks = [{"title": "read", "state": "done"}, {"title": "write", "state": "in_progress"}]
    main, summary = ScriptedProvider(), ScriptedProvider()
    main.script(together(call("Read", file_path="a.py"), call("Read", file_path="b.py")))
    main.script(call("TaskList", tasks=tasks))
    main.script(call("Edit", file_path="b.py", old_string="2", new_string="22"), say("Read and changed."))
    settings = scene.settings(QUIET)
    async with scene.opened(settings, provider=Cast(main, {SUMMARY: summary})) as ready:
        await scene.said(ready, "Read both. Never use the word blue.")
        await write_plan(ready, "1. Read.\n2. Write.\n")
        main.script(say(long_text(300)), say("Behind it."))
        await scene.said(ready, "Tell me something long.")
        await compact(ready, by_rule=True)
        await scene.said(ready, "Where were we?")
        main.script(say(long_text(500)), say("Then."), say("On."))
        await scene.said(ready, "Tell me something longer.")
        summary.script(say(SUMMARISED))
        scene.clock.advance(60)
        await compact(ready, focus="the files")
        await scene.said(ready, "And then?", "Go on.")
    return {"main": main.sent, "summary": summary.sent}


async def full_window(scene: Scene) -> Voices:
    """A window that fills up is compacted by itself: with a summary, and by rule where none is given."""
    scene.write("a.py", "def one():\n    return 1\n")
    main = ScriptedProvider()
    summary = ScriptedProvider([say(SUMMARISED)], otherwise=say("I would rather not."))
    environ = {
        **QUIET,
        "NACRE_MAX_CONTEXT_TOKENS": "35000",
        "NACRE_COMPACTION_SUMMARY_ROOM": "0",
        "NACRE_OFFLOAD": "0",
        "NACRE_CLEAR_IDLE": "0",
    }
    async with scene.opened(
        scene.settings(environ), provider=Cast(main, {SUMMARY: summary}), tools=lambda usual: [*usual, facts]
    ) as ready:
        for n in range(11):
            main.script(call("facts", topic=f"topic {n}", lines=250), say(f"That was {n}."))
            await scene.said(ready, f"Please look up number {n}.")
    return {"main": main.sent, "summary": summary.sent}


async def resumed(scene: Scene) -> Voices:
    """A session goes on in another process: after an answer, after a compaction, after a cut-off call."""
    scene.write("a.py", "def one():\n    return 1\n")
    first = ScriptedProvider([call("Read", file_path="a.py"), say(long_text(300))])
    settings = scene.settings(QUIET)
    async with scene.opened(settings, provider=first) as ready:
        await scene.said(ready, "Read a.py.")
    second = ScriptedProvider([say("I remember."), say("Behind it.")])
    async with scene.opened(settings, provider=second, session="latest") as ready:
        await scene.said(ready, "Go on.")
        await compact(ready, by_rule=True)
        await scene.said(ready, "Go on again.")
    log = _newest_log(scene)
    lines = log.read_bytes().splitlines(keepends=True)
    third = ScriptedProvider([call("Bash", command="true"), say("Done.")])
    async with scene.opened(settings, provider=third, session="latest") as ready:
        await scene.said(ready, "Run it.")
    # As a killed process leaves it: the call is there, its result is not, and the last line is torn.
    whole = log.read_bytes().splitlines(keepends=True)
    called = next(n for n in range(len(lines), len(whole)) if b'"tool_use"' in whole[n])
    log.write_bytes(b"".join(whole[: called + 1]) + whole[called + 1][:40])
    fourth = ScriptedProvider([say("It was interrupted.")])
    async with scene.opened(settings, provider=fourth, session="latest") as ready:
        await scene.said(ready, "What happened?")
    voices = (first, second, third, fourth)
    return {f"process {n}": one.sent for n, one in enumerate(voices, 1)}


async def extraction(scene: Scene) -> Voices:
    """After a turn a fork is asked for memories; what it writes is told with the next turn."""
    await remember(scene, "The person drinks green tea.")
    main, fork = ScriptedProvider([say("Nice."), say("Welcome."), say("Sure.")]), ScriptedProvider()
    settings = scene.settings({**QUIET, "NACRE_EXTRACT": "1"}, interactive=True)
    body = "---\nname: Home\ndescription: Lives in Porto\ntype: user\n---\n\nThe user lives in Porto.\n"
    async with scene.opened(settings, provider=Cast(main, {EXTRACT: fork})) as ready:
        where = ready.memories[0].location.directory
        fork.script(call("Write", file_path=str(where / "home.md"), content=body), say("Saved."))
        fork.script(say("Nothing."), say("Nothing."))
        await scene.said(
            ready, "I live in Porto, by the way.", "Thanks for that.", "Please go on with the work."
        )
    return {"main": main.sent, "extraction": fork.sent}


async def skills_and_plan(scene: Scene) -> Voices:
    """Skills are listed, loaded and change on the way; a plan is shown; both come back after a compaction."""
    scene.write(
        ".claude/skills/deploy/SKILL.md",
        "---\nname: deploy\ndescription: How this project is deployed.\n---\n\nAsk for the green light.\n",
    )
    provider = ScriptedProvider([call("Skill", skill="deploy"), say("Loaded."), say(long_text(300))])
    provider.script(say("I see the plan."), say("A new one."), say("After."))
    async with scene.opened(scene.settings(QUIET), provider=provider) as ready:
        await scene.said(ready, "Deploy it.", "Tell me more.")
        await write_plan(ready, "1. Ask.\n2. Deploy.\n")
        await scene.said(ready, "Look at the plan.")
        scene.write(
            ".claude/skills/test/SKILL.md", "---\nname: test\ndescription: How to test.\n---\n\nRun make.\n"
        )
        await scene.said(ready, "Anything new?")
        await compact(ready, by_rule=True)
        await scene.said(ready, "Go on.")
    return {"main": provider.sent}


async def agents(scene: Scene) -> Voices:
    """An agent that is waited for, one in the background, a fork, a letter there and its answer."""
    scene.write("CLAUDE.md", "Answer in one line.\n")
    scene.write("a.py", "def one():\n    return 1\n")
    asking, writing, looking = anyio.Event(), anyio.Event(), anyio.Event()
    counter = ScriptedProvider([call("Glob", pattern="*.py"), say("One file.")])
    letter = call("SendMessage", to="main", message="Which style?", summary="a question")
    poet = ScriptedProvider([
        together(letter, gate=asking), say("I have asked."), together("Roses are red.", gate=writing),
    ])  # fmt: skip
    branch = ScriptedProvider([together("Seen from here, all is well.", gate=looking)])
    start = {"description": "write a poem", "prompt": "You write poems.", "name": "poet"}
    main = ScriptedProvider([
        call("Agent", description="count files", prompt="Count the files.", subagent_type="explore"),
        say("One file."),
        call("Agent", **start, run_in_background=True),
        say("It is at work."),
        call("SendMessage", to="poet", message="Short lines.", summary="an answer"),
        say("I have answered."),
        call("Agent", description="look around", prompt="Look around in a fork.", subagent_type="fork"),
        say("A fork looks around."),
        say("It is done."),
    ])  # fmt: skip
    parts = {"Look around in a fork.": branch, "Count the files.": counter, "You write poems.": poet}
    async with scene.opened(scene.settings(QUIET), provider=Cast(main, parts)) as ready:
        await scene.said(ready, "How many files?")
        await scene.said(ready, "Have a poem written.", gate=asking)
        await scene.said(ready, "Answer the poet.", gate=writing)
        await scene.said(ready, "Look around.", gate=looking)
        await scene.said(ready, "And?")
    voices = {"main": main, "counter": counter, "poet": poet, "fork": branch}
    return {name: one.sent for name, one in voices.items()}


async def hooks(scene: Scene) -> Voices:
    """The person's commands add to the first words, to every prompt and to results, refuse, and go on."""
    once = scene.root / "once"
    commands = {
        "SessionStart": "echo 'The build is green.'",
        "UserPromptSubmit": "echo 'Be brief.'",
        "PreToolUse": "grep -q a.py && exit 0; echo 'not this file' >&2; exit 2",
        "PostToolUse": 'echo \'{"hookSpecificOutput": {"additionalContext": "Formatted."}}\'',
        "Stop": f"mkdir {once} 2>/dev/null || exit 0; echo 'run the tests first' >&2; exit 2",
    }
    table = {event: [{"hooks": [{"type": "command", "command": one}]}] for event, one in commands.items()}
    (scene.home / "settings.json").write_text(json.dumps({"hooks": table}), encoding="utf-8")
    scene.write("a.py", "def one():\n    return 1\n")
    scene.write("b.py", "def two():\n    return 2\n")
    provider = ScriptedProvider([
        call("Read", file_path="a.py"), call("Read", file_path="b.py"), say("Read."), say("Tested."),
        say("Fine."),
    ])  # fmt: skip
    async with scene.opened(scene.settings(QUIET), provider=provider) as ready:
        await scene.said(ready, "Read both.", "Thanks.")
    return {"main": provider.sent}


async def older_model(scene: Scene) -> Voices:
    """Where thinking is stripped, what is attached goes into the results; another vendor's model, too."""
    await remember(scene, "Releases go out on Thursdays, because support is staffed on Fridays.")
    scene.write("sub/CLAUDE.md", "In here, use tabs.\n")
    scene.write("sub/b.py", "def two():\n\treturn 2\n")
    voices: dict[str, Sequence[bytes]] = {}
    for model in (OLDER, GPT):
        provider = ScriptedProvider([
            together(think("Hm."), call("Read", file_path="sub/b.py")), say("Read."), say("Thursday."),
        ])  # fmt: skip
        settings = scene.settings({**QUIET, "NACRE_RECALL": "1"}, model=model)
        async with scene.opened(settings, provider=provider) as ready:
            await scene.said(ready, "Read sub/b.py.", "When do releases go out?")
        voices[model] = provider.sent
    return voices


async def own_loop(scene: Scene) -> Voices:
    """A loop of one's own with the pieces: prepare, record, add_results."""
    provider = ScriptedProvider([
        together(call("facts", topic="rivers"), call("facts", topic="lakes")), say("Water."), say("Yes."),
    ])  # fmt: skip
    base = Base(MODEL, "You look things up.", [facts], opening="<system-reminder>Sunday.</system-reminder>")
    session = Session(base, clock=scene.clock)
    for text in ("What is it?", "And now?"):
        await session.add_user(text)
        while True:
            reply = await complete(provider, await session.prepare())
            await session.record(reply)
            results: Sequence[ToolResult] = await run_all(reply.message.tool_calls, {"facts": facts})
            if not results:
                break
            await session.add_results(results)
    return {"main": provider.sent}


SCENARIOS: dict[str, Scenario] = {
    one.__name__: one
    for one in (
        chat, tools, offload, idle, recall, notes, compaction, full_window, resumed, extraction,
        skills_and_plan, agents, hooks, older_model, own_loop,
    )
}  # fmt: skip


def _newest_log(scene: Scene) -> Path:
    (log,) = scene.home.glob("projects/*/*.jsonl")
    return log
