"""The list of a space's memories is as fresh as a scan, whoever writes, and is kept while it can be."""

from __future__ import annotations

import random
from pathlib import Path

from nacre.memory.checks.lint import lint, lint_file
from nacre.memory.memory import Memory
from nacre.server.entries import EntryList


def written(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"---\nname: {name}\n---\n{text}\n", encoding="utf-8")


async def test_the_list_equals_a_scan_after_any_change_by_any_program(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory")
    folder = memory.location.directory
    listed = EntryList(memory)
    chance = random.Random(7)
    for n in range(60):
        name = f"{chance.choice(('', '', 'deep/'))}m{chance.randrange(8)}.md"
        match chance.randrange(4):
            case 0:
                (folder / name).unlink(missing_ok=True)
            case 1 if (folder / name).exists():
                (folder / name).rename(folder / f"m{chance.randrange(8)}.md")
            case 2:
                await memory.save(f"The number of the day is {n}.")
            case _:
                written(folder, name, f"text {n}")
        assert list(await listed.now()) == list((await memory.scan()).entries), n
    listed.close()


async def test_what_is_computed_from_the_list_is_kept_until_a_memory_changes(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory")
    written(memory.location.directory, "one.md", "see [[two]] and [[three]]")
    written(memory.location.directory, "two.md", "`[[one]]` is code, [[one.md]] is none")
    listed = EntryList(memory)
    calls: list[int] = []
    for _ in range(3):
        await listed.derived("count", lambda entries: calls.append(len(entries)))
        assert await listed.links() == {"one.md": ("two.md",), "two.md": ("one.md",)}
    assert calls == [2]
    written(memory.location.directory, "three.md", "nothing")
    assert (await listed.links())["one.md"] == ("two.md", "three.md")
    await listed.derived("count", lambda entries: calls.append(len(entries)))
    assert calls == [2, 3]
    listed.close()


async def test_lint_of_one_file_finds_what_lint_of_the_directory_finds_in_it(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory")
    folder = memory.location.directory
    written(folder, "one.md", "since yesterday, see [[two]], [[nowhere]] and [[one]]")
    written(folder, "two.md", "ok")
    (folder / "three.md").write_text(
        "---\nname: two.md\ntype: strange\ndescription: x\n---\ntext\n", encoding="utf-8"
    )
    for file in ("one.md", "two.md", "three.md"):
        whole = [one for one in lint(folder, with_index=False) if one.file == file]
        found = lint_file(folder, file, (folder / file).read_bytes())
        assert sorted((one.kind, one.message) for one in found) == sorted(
            (one.kind, one.message) for one in whole
        )
        assert found
