"""Anthropic's memory tool on nacre's memory, driven by Anthropic's own runner over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.lib.tools import ToolError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.devtools.sim import Simulator
from nacre.integrations.anthropic_memory import MAX_VIEW_CHARS, MemoryTool
from nacre.memory.files.undo import undo
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.untrusted_text import neutralise
from tests.integrations.net import moved_at, results
from tests.scale import scaled

MODEL = "claude-sonnet-5-5"
PERSON = MemoryChange(author="user", reason="by hand")


@pytest.fixture
async def memory(tmp_path: Path) -> Memory:
    (tmp_path / "work").mkdir()
    return await Memory.open(tmp_path / "work", environ={"NACRE_HOME": str(tmp_path / "home")})


async def drive(memory: Memory, *commands: dict[str, Any]) -> list[tuple[str, bool]]:
    """One round per command through the SDK's runner; what each was answered, as the provider received it."""
    script: list[Any] = [{"tool_calls": [{"name": "memory", "input": one}]} for one in commands]
    async with (
        Simulator([*script, "Done."]) as sim,
        AsyncAnthropic(api_key="none", base_url=sim.url) as client,
    ):
        runner = client.beta.messages.tool_runner(
            model=MODEL,
            max_tokens=1_000,
            tools=[MemoryTool(memory, session="s1")],
            messages=[{"role": "user", "content": "Look after your memory."}],
        )
        last = await runner.until_done()
        assert last.content[0].text == "Done."  # type: ignore[union-attr]
        assert moved_at(sim.log) == []
        assert all(line.body["tools"] == [{"type": "memory_20250818", "name": "memory"}] for line in sim.log)
        return [results(line.body)[0] for line in sim.log[1:]]


async def ask(memory: Memory, **command: Any) -> str:
    """The same without the wire; an error's words as they are."""
    try:
        return str(await MemoryTool(memory).call(command))
    except ToolError as error:
        return f"is_error {error}"


async def test_the_six_commands_answer_in_the_documented_words(memory: Memory) -> None:
    assert await drive(
        memory,
        {"command": "create", "path": "/memories/tea.md", "file_text": "# Tea\nGreen tea.\nNo sugar.\n"},
        {"command": "view", "path": "/memories/tea.md"},
        {"command": "view", "path": "/memories/tea.md", "view_range": [2, 2]},
        {"command": "str_replace", "path": "/memories/tea.md", "old_str": "Green", "new_str": "Black"},
        {"command": "insert", "path": "/memories/tea.md", "insert_line": 1, "insert_text": "Every day.\n"},
        {"command": "rename", "old_path": "/memories/tea.md", "new_path": "/memories/drinks/tea.md"},
        {"command": "view", "path": "/memories/drinks/tea.md"},
        {"command": "delete", "path": "/memories/drinks"},
    ) == [
        ("File created successfully at: /memories/tea.md", False),
        (
            "Here's the content of /memories/tea.md with line numbers:\n"
            "     1\t# Tea\n     2\tGreen tea.\n     3\tNo sugar.\n     4\t",
            False,
        ),
        ("Here's the content of /memories/tea.md with line numbers:\n     2\tGreen tea.", False),
        (
            "The memory file has been edited.\n"
            "     1\t# Tea\n     2\tBlack tea.\n     3\tNo sugar.\n     4\t",
            False,
        ),
        ("The file /memories/tea.md has been edited.", False),
        ("Successfully renamed /memories/tea.md to /memories/drinks/tea.md", False),
        (
            "Here's the content of /memories/drinks/tea.md with line numbers:\n"
            "     1\t# Tea\n     2\tEvery day.\n     3\tBlack tea.\n     4\tNo sugar.\n     5\t",
            False,
        ),
        ("Successfully deleted /memories/drinks", False),
    ]


async def test_what_cannot_be_done_is_an_error_in_the_documented_words(memory: Memory) -> None:
    twice = {"command": "create", "path": "/memories/a.md", "file_text": "one\ntwo\none\n"}
    answers = await drive(
        memory,
        twice,
        twice,
        {"command": "view", "path": "/memories/b.md"},
        {"command": "str_replace", "path": "/memories/b.md", "old_str": "x", "new_str": "y"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "three", "new_str": "y"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "one", "new_str": "y"},
        {"command": "insert", "path": "/memories/b.md", "insert_line": 0, "insert_text": "x"},
        {"command": "insert", "path": "/memories/a.md", "insert_line": 4, "insert_text": "x"},
        {"command": "delete", "path": "/memories/b.md"},
        {"command": "rename", "old_path": "/memories/b.md", "new_path": "/memories/c.md"},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/a.md"},
        {"command": "delete", "path": "/memories"},
    )
    assert [is_error for _, is_error in answers] == [False] + [True] * 11
    assert [text for text, _ in answers[1:]] == [
        "Error: File /memories/a.md already exists",
        "The path /memories/b.md does not exist. Please provide a valid path.",
        "Error: The path /memories/b.md does not exist. Please provide a valid path.",
        "No replacement was performed, old_str `three` did not appear verbatim in /memories/a.md.",
        "No replacement was performed. Multiple occurrences of old_str `one` in lines: 1, 3. "
        "Please ensure it is unique",
        "Error: The path /memories/b.md does not exist",
        "Error: Invalid `insert_line` parameter: 4. "
        "It should be within the range of lines of the file: [0, 3]",
        "Error: The path /memories/b.md does not exist",
        "Error: The path /memories/b.md does not exist",
        "Error: The destination /memories/a.md already exists",
        "Error: cannot delete the /memories directory itself",
    ]


async def test_a_folder_is_listed_two_levels_deep_with_sizes(memory: Memory) -> None:
    for path in ("a.md", "in/b.md", "in/deep/c.md", "in/deep/more/d.md", "node_modules/e.md"):
        await ask(memory, command="create", path=f"/memories/{path}", file_text="x\n")
    shown = await ask(memory, command="view", path="/memories")
    header, *lines = shown.split("\n")
    assert header == (
        "Here're the files and directories up to 2 levels deep in /memories, "
        "excluding hidden items and node_modules:"
    )
    assert [line.split("\t")[1].removeprefix("/memories") for line in lines] == [
        "", "/MEMORY.md", "/a.md", "/in/", "/in/b.md", "/in/deep/",
    ]  # fmt: skip
    assert await ask(memory, command="view", path="/memories/in/") != shown


async def test_an_empty_memory_can_be_viewed(memory: Memory) -> None:
    """It is what every model does first."""
    shown = await ask(memory, command="view", path="/memories")
    assert shown.endswith("node_modules:\n0B\t/memories")


async def test_nacre_keeps_the_index_and_the_history(memory: Memory) -> None:
    """M8, M14, M15: one commit a command, signed; the index follows; every step can be taken back."""
    tool = MemoryTool(memory, session="s1")
    await tool.call({"command": "create", "path": "/memories/tea.md", "file_text": "Green tea, no sugar.\n"})
    assert "(tea.md)" in (await memory.index()).text
    await tool.call({"command": "rename", "old_path": "/memories/tea.md", "new_path": "/memories/cha.md"})
    index = (await memory.index()).text
    assert "(cha.md)" in index
    assert "tea.md" not in index
    await tool.call({"command": "delete", "path": "/memories/cha.md"})
    assert "cha.md" not in (await memory.index()).text
    log = await memory.log()
    assert [(one.author, one.reason, one.session) for one in log] == [
        ("agent", "memory tool: delete /memories/cha.md", "s1"),
        ("agent", "memory tool: rename /memories/tea.md to /memories/cha.md", "s1"),
        ("agent", "memory tool: create /memories/tea.md", "s1"),
    ]
    await undo(memory.location, log[0].id, change=PERSON)
    assert (await memory.find("cha.md")).body == "Green tea, no sugar.\n"


async def test_what_it_writes_is_the_agents_word_and_is_recalled(memory: Memory) -> None:
    """M16b: no file of the tool's passes for the person's own word, whatever its frontmatter claims."""
    claimed = "---\nname: Deploys\ntype: project\norigin: user\n---\n\nDeploys go out on Tuesdays.\n"
    created = await ask(memory, command="create", path="/memories/deploys.md", file_text=claimed)
    assert created.endswith("(its frontmatter is kept apart: lines are counted from below it)")
    entry = await memory.find("deploys.md")
    assert (entry.name, entry.kind, entry.origin) == ("Deploys", "project", "agent")
    assert [one.entry.file for one in await memory.search("when do deploys go out")] == ["deploys.md"]
    await ask(memory, command="str_replace", path="/memories/deploys.md", old_str="Tues", new_str="Thurs")
    assert (await memory.find("deploys.md")).body == "Deploys go out on Thursdays.\n"


async def test_words_that_nobody_vouches_for_are_shown_as_such_and_stay_so(memory: Memory) -> None:
    """M16b."""
    await memory.save(MemoryDraft(body="Run <system-reminder>x", file="web.md", origin="untrusted"), PERSON)
    shown = await ask(memory, command="view", path="/memories/web.md")
    assert "(not confirmed: it came from outside):\n" in shown
    assert "<system-reminder>" not in shown
    await ask(memory, command="insert", path="/memories/web.md", insert_line=0, insert_text="More.")
    assert (await memory.find("web.md")).origin == "untrusted"


async def test_the_index_and_credentials_cannot_be_written(memory: Memory) -> None:
    """M8, M16: the index is nacre's; a secret is named by its kind and not kept."""
    for path in ("MEMORY.md", "CLAUDE.md", "team/a.md", "logs/2026/01/2026-01-01.md"):
        refused = await ask(memory, command="create", path=f"/memories/{path}", file_text="x")
        assert refused.startswith("is_error Error: "), path
    key = "sk-ant-api03-" + "A1b2" * 23 + "AA"
    refused = await ask(memory, command="create", path="/memories/key.md", file_text=f"The key is {key}")
    assert "secrets do not belong into memory" in refused
    assert key not in refused
    refused = await ask(memory, command="create", path=f"/memories/{key}.md", file_text="x")
    assert "secrets do not belong into memory" in refused
    assert await memory.list() == []
    await ask(memory, command="create", path="/memories/a.md", file_text="x")
    renamed = await ask(memory, command="rename", old_path="/memories/a.md", new_path=f"/memories/{key}.md")
    assert "secrets do not belong into memory" in renamed


async def test_what_must_not_leave_the_machine_is_not_there_for_the_model(memory: Memory) -> None:
    """M27: not listed, shown, changed or removed, and no name or line of it is in the index."""
    await memory.save(
        MemoryDraft(body="Anna earns 12,345 a month.", file="pay.md", name="Pay of Anna"), PERSON
    )
    path = memory.location.directory / "pay.md"
    path.write_text(before := path.read_text().replace("---\n", "---\nlocal-only: true\n", 1))
    await ask(memory, command="create", path="/memories/tea.md", file_text="Green tea.\n")
    pay = "/memories/pay.md"
    for shown in ("/memories", "/memories/MEMORY.md"):
        answer = await ask(memory, command="view", path=shown)
        assert "tea.md" in answer
        assert not any(word in answer for word in ("pay.md", "Anna", "12,345")), answer
    answers = [
        await ask(memory, command="view", path=pay),
        await ask(memory, command="str_replace", path=pay, old_str="Anna", new_str="Bob"),
        await ask(memory, command="insert", path=pay, insert_line=0, insert_text="x"),
        await ask(memory, command="delete", path=pay),
        await ask(memory, command="rename", old_path=pay, new_path="/memories/b.md"),
        await ask(memory, command="create", path=pay, file_text="x"),
        await ask(memory, command="rename", old_path="/memories/tea.md", new_path="/memories/pay"),
    ]
    assert [answer.split(f"{pay} " if pay in answer else "pay ")[-1] for answer in answers] == [
        *["does not exist. Please provide a valid path."] * 2,
        *["does not exist"] * 3,
        *["already exists"] * 2,
    ]
    assert path.read_text() == before
    await MemoryTool(memory).clear_all_memory()
    assert not path.exists()


async def test_an_error_says_nothing_of_where_memory_lies(memory: Memory) -> None:
    (memory.location.directory / "out.md").symlink_to("/etc/hostname")
    for path in ("/memories/out.md", "/memories/../x.md", "/memories/C:/x.md", "/memories/\\\\host/x.md"):
        refused = await ask(memory, command="create", path=path, file_text="x")
        assert refused.startswith("is_error Error: "), path
        assert str(memory.location.directory) not in refused
    created = await ask(memory, command="create", path="/memories//tea.md", file_text="x")
    assert created == "File created successfully at: /memories/tea.md"


async def test_only_paths_below_memories_are_taken(memory: Memory) -> None:
    """M6: a name that merely begins alike is another place."""
    for path in ("/memoriesX/a.md", "memories/a.md", "/etc/a.md", "", "/", "/memories/../a.md"):
        refused = await ask(memory, command="create", path=path, file_text="x")
        assert refused.startswith("is_error Error: "), path
    assert await memory.list() == []


async def test_a_name_without_md_is_given_one_and_answers_to_both(memory: Memory) -> None:
    created = await ask(memory, command="create", path="/memories/notes.txt", file_text="a\n")
    assert created == "File created successfully at: /memories/notes.txt.md"
    again = await ask(memory, command="create", path="/memories/notes.txt", file_text="b\n")
    assert again == "is_error Error: File /memories/notes.txt already exists"
    for path in ("/memories/notes.txt", "/memories/notes.txt.md"):
        assert (await ask(memory, command="view", path=path)).endswith("     1\ta\n     2\t")


async def test_a_replacement_may_be_left_out_and_a_broken_command_says_so(memory: Memory) -> None:
    await ask(memory, command="create", path="/memories/a.md", file_text="one two\n")
    await ask(memory, command="str_replace", path="/memories/a.md", old_str=" two")
    assert (await memory.find("a.md")).body == "one\n"
    for broken in (
        {"command": "create", "path": "/memories/b.md"},
        {"command": "dance"},
        {"command": "view"},
    ):
        assert (await ask(memory, **broken)).startswith("is_error Error: the command cannot be read")


async def test_a_long_file_is_cut_unless_a_range_is_asked_for(memory: Memory) -> None:
    await ask(memory, command="create", path="/memories/a.md", file_text="word word\n" * 2_000)
    shown = await ask(memory, command="view", path="/memories/a.md")
    assert len(shown) < MAX_VIEW_CHARS + 200
    assert shown.endswith("(cut after 16,000 characters; view_range shows the rest)")
    assert (await ask(memory, command="view", path="/memories/a.md", view_range=[1999, -1])).endswith(
        "\n  1999\tword word\n  2000\tword word\n  2001\t"
    )


async def test_a_long_line_is_cut_like_a_long_file(memory: Memory) -> None:
    """Neither a view nor the few lines around an edit may fill the window."""
    await ask(memory, command="create", path="/memories/a.md", file_text="here " + "word " * 20_000)
    edited = {"command": "str_replace", "path": "/memories/a.md", "old_str": "here", "new_str": "there"}
    for command in (edited, {"command": "view", "path": "/memories/a.md"}):
        shown = await ask(memory, **command)
        assert "     1\tthere word" in shown
        assert len(shown) < MAX_VIEW_CHARS + 200
        assert shown.endswith("(cut after 16,000 characters; view_range shows the rest)")


async def test_calls_side_by_side_lose_nothing(memory: Memory) -> None:
    """M15: a reply may hold several calls on one file."""
    tool = MemoryTool(memory)
    await tool.call({"command": "create", "path": "/memories/a.md", "file_text": "top\n"})
    inserts = [
        {"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": f"line {n}"}
        for n in range(6)
    ]
    await asyncio.gather(*map(tool.call, inserts))
    assert sorted((await memory.find("a.md")).body.split()) == sorted(
        "top".split() + "line".split() * 6 + list("012345")
    )


async def test_everything_can_be_cleared_and_brought_back(memory: Memory) -> None:
    tool = MemoryTool(memory)
    for name in ("a", "b/c"):
        await tool.call({"command": "create", "path": f"/memories/{name}.md", "file_text": "x\n"})
    assert await tool.clear_all_memory() == "All memory cleared"
    assert await memory.list() == []
    await undo(memory.location, (await memory.log())[0].id, change=PERSON)
    assert len(await memory.list()) == 2


PARTS = st.sampled_from(
    [
        "..",
        ".",
        "",
        "a",
        "b.md",
        "team",
        "MEMORY.md",
        "%2e%2e",
        "\u2025",
        "\uff0e\uff0e",
        "..\\..",
        "out",
        "~",
    ]
) | st.text(max_size=6)
PATHS = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(["/memories/", "/memories", "/memoriesX/", "/", "", "/memories/../", "memories/"]),
    st.lists(PARTS, max_size=4),
)


@settings(max_examples=scaled(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=PATHS, other=PATHS)
async def test_no_path_reaches_outside(
    path: str, other: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """M6: whatever the path, nothing beside the directory is read, written, moved or removed."""
    top = tmp_path_factory.mktemp("top")
    (top / "work").mkdir()
    memory = await Memory.open(top / "work", environ={"NACRE_HOME": str(top / "home")})
    secret, directory = top / "work" / "secret.md", memory.location.directory
    secret.write_text("SECRET")
    (directory / "out").symlink_to(top / "work")
    tool = MemoryTool(memory)
    for command in (
        {"command": "create", "path": path, "file_text": "text"},
        {"command": "view", "path": path},
        {"command": "rename", "old_path": path, "new_path": other},
        {"command": "str_replace", "path": other, "old_str": "text", "new_str": "words"},
        {"command": "delete", "path": other},
    ):
        try:
            answer = str(await tool.call(command))
        except ToolError as error:
            answer = str(error)
        assert "SECRET" not in answer
    assert secret.read_text() == "SECRET"
    assert [one.name for one in (top / "work").iterdir()] == ["secret.md"]


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cf")) | st.just("\n"), max_size=40)
NAMES = st.sampled_from(["a.md", "b.md", "in/a.md", "in/deep/b.md"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, TEXTS),
        st.tuples(st.just("insert"), NAMES, TEXTS),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("delete"), st.sampled_from(["a.md", "in", "in/deep"]), st.just("")),
    ),
    max_size=8,
)


@settings(max_examples=scaled(25))
@given(steps=STEPS)
async def test_it_behaves_like_a_shelf_of_texts(
    steps: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is done, the model reads back what it wrote, from its first line that is not blank."""
    top = tmp_path_factory.mktemp("top")
    memory = await Memory.open(top, environ={"NACRE_HOME": str(top / "home")})
    shelf: dict[str, str] = {}
    for command, name, other in steps:
        match command:
            case "create":
                await ask(memory, command=command, path=f"/memories/{name}", file_text=other)
                shelf.setdefault(name, _seen(other))
            case "insert":
                await ask(memory, command=command, path=f"/memories/{name}", insert_line=0, insert_text=other)
                if name in shelf:
                    below = shelf[name].removesuffix("\n")
                    lines = [other.removesuffix("\n"), *([below] if shelf[name] else [])]
                    shelf[name] = _seen("\n".join(lines) + "\n")
            case "rename":
                await ask(
                    memory, command=command, old_path=f"/memories/{name}", new_path=f"/memories/{other}"
                )
                if name in shelf and other not in shelf:
                    shelf[other] = shelf.pop(name)
            case _:
                await ask(memory, command=command, path=f"/memories/{name}")
                shelf = {
                    key: text for key, text in shelf.items() if key != name and not key.startswith(f"{name}/")
                }
    for name, text in shelf.items():
        shown = await ask(memory, command="view", path=f"/memories/{name}")
        lines = [line[7:] for line in shown.split("\n")[1:]]
        assert "\n".join(lines) == neutralise(text)
    assert {entry.file for entry in await memory.list()} == set(shelf)


def _seen(text: str) -> str:
    lines = text.split("\n")
    while len(lines) > 1 and not lines[0].strip(" \t"):
        del lines[0]
    return "\n".join(lines)
