"""What lint finds in a memory directory, and the bytes that would put it right (M14, M8, M16b)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nacre.memory.checks.lint import LintFix, LintProblem, apply_fixes, fixes, lint
from nacre.memory.files.location import Location
from nacre.memory.format.entry import MemoryChange

TEA = "---\nname: Tea\ndescription: likes green tea, no sugar\ntype: user\n---\n\nGreen.\n"


def put(directory: Path, **files: str | bytes) -> Path:
    for name, text in files.items():
        path = directory / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return directory


def found(directory: Path) -> list[tuple[str, str, bool]]:
    return [(problem.file, problem.kind, problem.fixable) for problem in lint(directory)]


def apply(directory: Path) -> None:
    for fix in fixes(directory):
        path = directory / fix.file
        assert (path.read_bytes() if path.exists() else b"") == fix.before
        path.write_bytes(fix.after)


def test_a_sound_directory_has_no_problems(tmp_path: Path) -> None:
    put(tmp_path, tea=TEA, MEMORY="# Memory\n\n- [Tea](tea.md) — green\n")
    assert lint(tmp_path) == []
    assert fixes(tmp_path) == []
    assert lint(tmp_path / "none") == []


def test_a_missing_description_is_not_said_to_hide_a_memory(tmp_path: Path) -> None:
    """Recall ranks by the body as well."""
    put(tmp_path, tea="---\nname: Tea\ntype: user\n---\n\nGreen.\n", MEMORY="# Memory\n\n- [Tea](tea.md)\n")
    (problem,) = lint(tmp_path)
    assert problem.kind == "no-description"
    assert "never" not in problem.message
    assert "found less often" in problem.message


def test_a_crash_between_the_two_steps_of_a_save_is_found_and_repaired(tmp_path: Path) -> None:
    """M14: an index that points to nothing, a file nobody points to."""
    put(tmp_path, tea=TEA, MEMORY="# Memory\n\nKeep me.\n- [Gone](gone.md) — away\n")
    assert found(tmp_path) == [("MEMORY.md", "dangling-pointer", True), ("tea.md", "unlisted", True)]
    apply(tmp_path)
    assert (tmp_path / "MEMORY.md").read_text() == (
        "# Memory\n\nKeep me.\n\n- [Tea](tea.md) — likes green tea, no sugar\n"
    )
    assert lint(tmp_path) == []


async def test_a_memory_that_is_fixed_keeps_its_age(tmp_path: Path) -> None:
    """Recall warns of old memories, so quotes around a value must not make them new."""
    location = Location(
        directory=tmp_path / "m", source="default", history=tmp_path / "m.git", cache=tmp_path / "cache"
    )
    location.directory.mkdir()
    path = location.directory / "release.md"
    path.write_text(
        "---\nname: Release\ndescription: release: done by hand\ntype: project\n---\n\nBy hand.\n"
    )
    os.utime(path, (10**9, 10**9))
    done = await apply_fixes(location, MemoryChange(author="user", reason="lint"))
    assert "release.md" in done.files
    assert 'description: "release: done by hand"' in path.read_text()
    assert path.stat().st_mtime == 10**9


def test_an_index_that_is_not_there_is_made(tmp_path: Path) -> None:
    put(tmp_path, tea=TEA)
    new = b"# Memory\n\n- [Tea](tea.md) \xe2\x80\x94 likes green tea, no sugar\n"
    assert fixes(tmp_path) == [LintFix("MEMORY.md", b"", new)]
    assert lint(tmp_path, with_index=False) == []
    assert fixes(tmp_path, with_index=False) == []


def test_each_folder_with_an_index_lists_its_own_files(tmp_path: Path) -> None:
    put(tmp_path, MEMORY="# Mine\n", ops__MEMORY="- [Gone](gone.md)\n", ops__tea=TEA)
    assert found(tmp_path) == [
        ("ops/MEMORY.md", "dangling-pointer", True),
        ("ops/tea.md", "unlisted", True),
    ]
    apply(tmp_path)
    assert (tmp_path / "ops/MEMORY.md").read_text().count("(tea.md)") == 1
    assert (tmp_path / "MEMORY.md").read_text() == "# Mine\n"
    assert lint(tmp_path) == []


def test_the_teams_memory_is_linted_by_itself(tmp_path: Path) -> None:
    """M18: it is a directory of its own; what is private may point and link there."""
    mine = TEA.replace("name: Tea", "name: Mine") + "See [[cups]] and [[Tea]].\n"
    index = "- [Mine](mine.md) — x\n- [Cups](team/cups.md) — everybody's\n- [Gone](team/gone.md) — x\n"
    put(tmp_path, MEMORY=index, mine=mine, team__cups=TEA, team__MEMORY="- [Gone](gone.md)\n")
    assert found(tmp_path) == [("MEMORY.md", "dangling-pointer", True)]
    assert found(tmp_path / "team") == [
        ("MEMORY.md", "dangling-pointer", True),
        ("cups.md", "unlisted", True),
    ]


def test_what_may_not_be_listed_is_left_out_and_taken_out(tmp_path: Path) -> None:
    """M16b: untrusted text reaches no prompt by way of the index; M8: unlisted on purpose is no problem."""
    web = TEA.replace("type: user", "type: user\norigin: untrusted").replace("Tea", "Web")
    off = TEA.replace("type: user", "type: user\nindexed: false").replace("Tea", "Off")
    put(tmp_path, web=web, off=off, MEMORY="- [Web](web.md) — x\n")
    assert found(tmp_path) == [("MEMORY.md", "untrusted-listed", True)]
    apply(tmp_path)
    assert (tmp_path / "MEMORY.md").read_text() == ""


def test_memories_beyond_the_budget_are_rightly_unlisted(tmp_path: Path) -> None:
    """M8."""
    put(tmp_path, tea=TEA, MEMORY="# Memory\n" + "words\n" * 199)
    assert found(tmp_path) == [("MEMORY.md", "long-index", False)]
    assert fixes(tmp_path) == []


@pytest.mark.parametrize(
    ("header", "kinds"),
    [
        ("name: a\ndescription: user: likes green tea\ntype: user", [("frontmatter", True)]),
        ("name: a\ndescription: fixed in #44 of the tracker\ntype: user", [("frontmatter", True)]),
        ("name: a\ndescription: one two three\ntype: user\ntype: user", [("frontmatter", False)]),
        ("name: a\ndescription: one two three\ntype: user\n\tx: y", [("frontmatter", False)]),
        ("name: a\ndescription: one two three", [("untyped", False)]),
        ("name: a\ntype: user", [("no-description", True)]),
        ("name: a\ndescription: stuff\ntype: user", [("vague-description", False)]),
        ("name: the big plan\ndescription: The big plan.\ntype: user", [("vague-description", False)]),
        ("name: a\ndescription: 用户喜欢喝绿茶不加糖也不加奶\ntype: user", []),
    ],
)
def test_a_frontmatter_is_judged(tmp_path: Path, header: str, kinds: list[tuple[str, bool]]) -> None:
    put(tmp_path, a=f"---\n{header}\n---\n\nThe user likes tea.\n", MEMORY="- [A](a.md)\n")
    assert [(kind, fixable) for _, kind, fixable in found(tmp_path)] == kinds
    apply(tmp_path)
    assert [(kind, fixable) for _, kind, fixable in found(tmp_path)] == [one for one in kinds if not one[1]]


def test_a_fix_changes_only_the_line_at_fault(tmp_path: Path) -> None:
    """M11."""
    old = (
        "---\r\nname: a # x\r\ndescription: user: likes #1 tea\r\nown: 'y'\r\ntype: user\r\n---\r\n\r\nb\r\n"
    )
    put(tmp_path, a=old, MEMORY="- [A](a.md)\n")
    (fix,) = fixes(tmp_path)
    assert fix.after == old.replace("user: likes #1 tea", '"user: likes #1 tea"').encode()
    put(tmp_path, a="---\nname: a\ndescription: likes green tea\ntype: user\n\nText.\n")
    assert found(tmp_path) == [("a.md", "frontmatter", True)]
    (fix,) = fixes(tmp_path)
    assert fix.after == b"---\nname: a\ndescription: likes green tea\ntype: user\n---\n\nText.\n"


def test_a_type_is_taken_from_the_name_of_the_file(tmp_path: Path) -> None:
    put(tmp_path, feedback_tea="No sugar in tea.\n", MEMORY="- [A](feedback_tea.md)\n")
    assert [kind for _, kind, _ in found(tmp_path)] == ["no-description", "untyped"]
    (fix,) = fixes(tmp_path)
    assert fix.after == b"---\ndescription: No sugar in tea.\ntype: feedback\n---\n\nNo sugar in tea.\n"


def test_links_between_memories_are_checked(tmp_path: Path) -> None:
    """M11: by name or by file, however spelled; not inside code."""
    body = "[[tea]] [[Green-Tea]] [[green_tea.md]] [[gone]] `[[ -f x ]]` [[tea|that]]\n```\n[[code]]\n```\n"
    put(tmp_path, tea=TEA.replace("Tea", "Green tea") + body, MEMORY="- [A](tea.md)\n")
    assert [problem.message for problem in lint(tmp_path)] == ["[[gone]] leads to no memory"]


def test_two_memories_of_one_name_are_both_told(tmp_path: Path) -> None:
    put(tmp_path, a=TEA, b=TEA.replace("Tea", "TEA"), MEMORY="- [A](a.md)\n- [B](b.md)\n")
    assert found(tmp_path) == [("a.md", "duplicate-name", False), ("b.md", "duplicate-name", False)]


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("Ship it next week.", True),
        ("Done yesterday (2026-03-04).", False),
        ("3 days ago", True),
        ("下周发布", True),
        ("Todays are fine", False),
        ("The deadline is March 5, 2026.", False),
    ],
)
def test_days_that_move_are_told(tmp_path: Path, line: str, is_told: bool) -> None:
    """M12: relative dates become absolute ones."""
    put(tmp_path, a=TEA + line + "\n", MEMORY="- [A](a.md)\n")
    problems = lint(tmp_path)
    assert [(problem.kind, problem.level) for problem in problems] == [("relative-date", "info")] * is_told


def test_an_index_is_judged(tmp_path: Path) -> None:
    text = f"---\nname: x\n---\n- [A](a.md) — {'x' * 250}\n- [A](a.md)\n" + "y\n" * 200
    put(tmp_path, a=TEA, MEMORY=text)
    assert found(tmp_path) == [
        ("MEMORY.md", "duplicate-pointer", True),
        ("MEMORY.md", "index-frontmatter", False),
        ("MEMORY.md", "long-index", False),
        ("MEMORY.md", "long-line", False),
    ]


def test_of_two_lines_for_one_file_the_longer_stays_in_the_place_of_the_first(tmp_path: Path) -> None:
    put(tmp_path, a=TEA, MEMORY="# M\n\n- [A](a.md)\n\ntext\n- [A](a.md) — about tea\n")
    (fix,) = fixes(tmp_path)
    assert fix.after == b"# M\n\n- [A](a.md) \xe2\x80\x94 about tea\n\ntext\n"


def test_odd_files_are_told_and_never_touched(tmp_path: Path) -> None:
    """The table of bad input; a pointer to an odd file is not cut off."""
    put(tmp_path, latin=b"---\nname: caf\xe9\n---\n", far=TEA.encode() + b"x" * 9_000 + b"\xff")
    put(tmp_path, MEMORY="- [L](latin.md)\n- [F](far.md)\n- [P](pipe.md)\n")
    os.mkfifo(tmp_path / "pipe.md")
    assert lint(tmp_path) == [
        LintProblem(file="far.md", kind="odd-file", message="far.md is not UTF-8"),
        LintProblem(file="latin.md", kind="odd-file", message="latin.md is not UTF-8"),
        LintProblem(file="pipe.md", kind="odd-file", message="pipe.md is a named pipe, not a file"),
    ]
    assert fixes(tmp_path) == []


def test_an_index_that_cannot_be_read_is_told_and_not_replaced(tmp_path: Path) -> None:
    put(tmp_path, tea=TEA)
    (tmp_path / "MEMORY.md").mkdir()
    assert ("MEMORY.md", "odd-file", False) in found(tmp_path)
    assert fixes(tmp_path) == []
