"""Grep and Glob on real trees, with ripgrep where it is installed and always with our own search."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ToolError
from nacre.tools import patterns
from nacre.tools.search_tools import GlobSettings, GrepSettings, glob_tool, grep_tool
from nacre.tools.workspace import Workspace


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    tree = {
        "a.py": "import os\nprint('Hello')\nx = 1\nprint('bye')\n",
        "sub/b.py": "def hello():\n    return 1\n",
        "sub/deep/c.md": "hello world\n",
        ".hidden/d.py": "hello\n",
        ".git/config": "hello\n",
        "bin.dat": "hello\0",
    }
    for name, content in tree.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return Workspace(tmp_path)


@pytest.fixture(params=["plain", "ripgrep"])
def engine(request, monkeypatch) -> str:
    if request.param == "ripgrep" and shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    if request.param == "plain":
        monkeypatch.setenv("PATH", "/nowhere")
    return request.param


async def grep(workspace: Workspace, pattern: str, settings: GrepSettings | None = None, **arguments) -> str:
    answer = await grep_tool(workspace, settings).call({"pattern": pattern, **arguments})
    assert isinstance(answer, str)
    return answer


async def glob(
    workspace: Workspace, pattern: str, settings: GlobSettings | None = None, **arguments
) -> list[str]:
    answer = await glob_tool(workspace, settings).call({"pattern": pattern, **arguments})
    assert isinstance(answer, str)
    return answer.split("\n")


async def test_names_of_matching_files_are_the_default(workspace, engine):
    assert sorted((await grep(workspace, "hello")).split("\n")) == [
        ".hidden/d.py",
        "sub/b.py",
        "sub/deep/c.md",
    ]


async def test_a_path_stands_once_above_its_lines(workspace, tmp_path, engine):
    """Whatever signs it has: also those that come between a path and a number, as in a line of a file."""
    for name in ("2-1-x.py", "a:3:b.py"):
        (tmp_path / name).write_text("needle\nother\nb.py:7:needle\n")
    assert await grep(workspace, "needle", output_mode="content", glob="*.py", after=1) == (
        "2-1-x.py\n1:needle\n2-other\n3:b.py:7:needle\n\na:3:b.py\n1:needle\n2-other\n3:b.py:7:needle"
    )


async def test_what_ripgrep_prints_is_shown_by_file(workspace, tmp_path, monkeypatch):
    """Its format, with a zero byte behind each path; also where it is not installed."""
    program = tmp_path / "bin" / "rg"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" --null "*) ;; *) exit 2 ;; esac\n'
        r"printf './a.py\0001:x\n./a.py\0002-y\n--\n./sub/b-1-c.py\0007:z\n'" + "\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert await grep(workspace, "x", output_mode="content", after=1) == (
        "a.py\n1:x\n2-y\n\nsub/b-1-c.py\n7:z"
    )


async def test_matching_lines_come_with_path_and_number(workspace, engine):
    assert await grep(
        workspace, "HELLO", output_mode="content", ignore_case=True, glob="*.py", path="sub"
    ) == ("sub/b.py\n1:def hello():")


async def test_lines_around_a_match_are_shown_and_groups_set_apart(workspace, tmp_path, engine):
    (tmp_path / "n").write_text("a\nb\nHIT\nc\nd\ne\nf\nHIT\nHIT\ng\n")
    assert await grep(workspace, "HIT", path="n", output_mode="content", before=1, after=1) == (
        "n\n2-b\n3:HIT\n4-c\n--\n7-f\n8:HIT\n9:HIT\n10-g"
    )
    assert await grep(workspace, "^c$", path="n", output_mode="content", context=1) == "n\n3-HIT\n4:c\n5-d"


async def test_matching_lines_are_counted_per_file(workspace, engine):
    assert await grep(workspace, "print", output_mode="count") == "a.py:2"


async def test_nothing_found_is_said(workspace, engine):
    assert await grep(workspace, "no such words") == "No matches."


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "*"])
async def test_a_pattern_that_is_none_gives_one_line(workspace, engine, pattern):
    with pytest.raises(ToolError) as caught:
        await grep(workspace, pattern)
    assert str(caught.value).startswith(f"Cannot search for {pattern!r}: ")
    assert "\n" not in str(caught.value)


async def test_a_pattern_may_look_like_an_option(workspace, tmp_path, engine):
    (tmp_path / "o").write_text("--files\n")
    assert await grep(workspace, "--files", output_mode="content") == "o\n1:--files"


async def test_many_matches_are_cut_and_say_how_many_are_missing(workspace, tmp_path, engine):
    (tmp_path / "many").write_text("match\n" * 1_000)
    lines = (await grep(workspace, "match", output_mode="content", path="many")).split("\n")
    assert (len(lines), lines[0]) == (252, "many")
    assert lines[-1] == "[750 more lines; narrow the search or raise head_limit.]"
    assert (
        len((await grep(workspace, "match", output_mode="content", path="many", head_limit=3)).split("\n"))
        == 5
    )


async def test_a_flood_of_matches_is_ended(workspace, tmp_path, engine):
    (tmp_path / "many").write_text("match\n" * 100_000)
    text = await grep(
        workspace, "match", GrepSettings(max_bytes=100_000), output_mode="content", path="many", head_limit=2
    )
    assert text == "many\n1:match\n2:match\n[Far too many matches; narrow the path, glob or pattern.]"


async def test_long_lines_are_cut(workspace, tmp_path, engine):
    (tmp_path / "long").write_text("hit" + "x" * 3_000_000 + "\nhit\n")
    text = await grep(workspace, "hit", output_mode="content", path="long")
    assert len(text) < 700
    assert text.endswith("\n2:hit")


async def test_a_pattern_that_would_run_for_hours_is_stopped(workspace, tmp_path, monkeypatch):
    """Bad input: a tool that never ends; the matcher holds the interpreter, hence a process of its own."""
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "evil").write_text("a" * 60 + "!\n")
    with pytest.raises(ToolError, match=r"took longer than 0\.5 s"):
        await grep(workspace, "(a+)+$", GrepSettings(seconds=0.5), path="evil")


async def test_a_search_can_be_cancelled(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    (tmp_path / "evil").write_text("a" * 60 + "!\n")
    searching = asyncio.create_task(grep(workspace, "(a+)+$", path="evil"))
    await asyncio.sleep(0.3)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(searching, 5)
    mark = str(tmp_path / "evil").encode()
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if _holds(p, mark)]


def _holds(path: Path, mark: bytes) -> bool:
    try:
        return mark in path.read_bytes()
    except OSError:
        return False


async def test_pipes_in_the_tree_do_not_hold_the_search(workspace, tmp_path, engine):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert await grep(workspace, "bye") == "a.py"


async def test_a_place_outside_the_working_directory_is_named_in_full(workspace, tmp_path, engine):
    workspace.cwd = tmp_path / "sub"
    assert await grep(workspace, "Hello", path=str(tmp_path / "a.py")) == f"{tmp_path}/a.py"


async def test_a_missing_place_is_said(workspace, engine):
    with pytest.raises(ToolError, match="There is no file or directory nope to search"):
        await grep(workspace, "x", path="nope")


async def test_files_are_listed_newest_first(workspace, tmp_path):
    for age, name in enumerate(("sub/b.py", "a.py", ".hidden/d.py")):
        os.utime(tmp_path / name, (1_000 - age, 1_000 - age))
    assert await glob(workspace, "**/*.py") == ["sub/b.py", "a.py", ".hidden/d.py"]
    assert await glob(workspace, "*.py") == ["a.py"]
    assert await glob(workspace, "sub/**") == ["sub/deep/c.md", "sub/b.py"]
    assert await glob(workspace, "a.py") == ["a.py"]


async def test_a_glob_may_be_absolute_or_start_at_a_path(workspace, tmp_path):
    assert await glob(workspace, f"{tmp_path}/sub/*.{{py,md}}") == ["sub/b.py"]
    assert await glob(workspace, "**/c.*", path="sub") == ["sub/deep/c.md"]
    workspace.cwd = tmp_path / "sub"
    assert await glob(workspace, "../*.py") == [f"{tmp_path}/a.py"]


async def test_a_long_list_is_cut_and_says_so(workspace, tmp_path):
    for number in range(7):
        (tmp_path / f"{number}.txt").write_text("")
    lines = await glob(workspace, "*.txt", GlobSettings(files=5))
    assert (len(lines), lines[-1]) == (6, "[The newest 5 of 7 files; narrow the pattern to see others.]")


async def test_no_files_is_said_and_a_wrong_place_is_one_line(workspace):
    assert await glob(workspace, "*.nothing") == ["No files match."]
    with pytest.raises(ToolError, match=r"There is no directory .*nope to search"):
        await glob(workspace, "*.py", path="nope")
    with pytest.raises(ToolError, match="The pattern is empty"):
        await glob(workspace, "")


async def test_names_that_are_no_text_can_be_listed_and_searched(workspace, tmp_path, engine):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xff.txt")).write_text("needle\n")
    assert await glob(workspace, "n*.txt") == ["n�.txt"]
    assert await grep(workspace, "needle") == "n�.txt"


@pytest.mark.slow
async def test_a_glob_with_many_stars_ends(workspace, tmp_path):
    (tmp_path / ("a" * 200)).write_text("")
    try:
        assert await glob(workspace, "*a" * 30 + "b", GlobSettings(seconds=1.0)) == ["No files match."]
    except ToolError as error:
        assert "took longer than 1 s" in str(error)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "x/y/a.py"], ["a.md"]),
        ("src/**/t?st.{py,md}", ["src/test.py", "src/a/b/tast.md"], ["test.py", "src/tst.py"]),
        ("[!a-c]x", ["dx", "-x"], ["ax", "/x"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[x", ["[x"], ["x"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "{a"]),
        ("{a", ["{a"], ["a"]),
        ("a,b", ["a,b"], ["a"]),
        ("a.b+(c)", ["a.b+(c)"], ["aXb+(c)"]),
        ("docs/**", ["docs/a", "docs/a/b"], ["docs", "x/docs/a"]),
    ],
)
def test_patterns_mean_what_a_shell_means(pattern, yes, no):
    compiled = re.compile(patterns.translate(pattern))
    assert [path for path in yes + no if compiled.fullmatch(path)] == yes


@given(st.text(alphabet="ab*?[]{},!/^-\\.|&~(+", max_size=12))
def test_every_pattern_becomes_a_regular_expression_or_a_clear_error(pattern: str):
    try:
        re.compile(patterns.translate(pattern))
    except re.error as error:
        assert "bad character range" in str(error)


@given(st.text(alphabet="ab.c/é+", min_size=1, max_size=12))
def test_a_pattern_without_wildcards_matches_only_itself(path: str):
    assert re.fullmatch(patterns.translate(path), path)
    assert not re.fullmatch(patterns.translate(path), path + "x")


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("*.py", ("", "*.py")),
        ("a/b/*.py", ("a/b", "*.py")),
        ("/*.py", ("/", "*.py")),
        ("/a/b.py", ("/a", "b.py")),
        ("a.py", ("", "a.py")),
        ("a/**/b/c", ("a", "**/b/c")),
    ],
)
def test_the_fixed_part_of_a_pattern_is_where_the_walk_begins(pattern, parts):
    assert patterns.split_fixed(pattern) == parts
