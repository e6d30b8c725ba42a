"""Large files: a page with an outline, lines exactly as asked for, edits only of lines that were shown."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ToolError
from nacre.layers.l1_offload.references import is_numbered, page_of
from nacre.messages.tokens import estimate_text
from nacre.tools.edit import edit_tool, write_tool
from nacre.tools.read import ReadSettings, read_tool
from nacre.tools.workspace import Workspace

MODULE = [
    "import os",
    "",
    *(line for n in range(400) for line in (f"def name_{n}(value):", f"    return value + {n}", "")),
]


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    (tmp_path / "large.py").write_text("\n".join(MODULE) + "\n")
    return Workspace(tmp_path)


async def read(
    workspace: Workspace, name: str = "large.py", limits: ReadSettings | None = None, **arguments
) -> str:
    answer = await read_tool(workspace, limits).call({"file_path": name, **arguments})
    assert isinstance(answer, str)
    return answer


async def edit(workspace: Workspace, old: str, new: str, *, everywhere: bool = False, name: str = "large.py"):
    arguments = {"file_path": name, "old_string": old, "new_string": new, "replace_all": everywhere}
    return await edit_tool(workspace).call(arguments)


async def refusal(work) -> str:
    with pytest.raises(ToolError) as caught:
        await work
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_large_file_is_shown_as_its_beginning_and_the_names_after_it(workspace) -> None:
    text = await read(workspace)
    page = page_of(text)
    assert page is not None and is_numbered(text)
    shown = len(page.lines)
    assert list(page.lines) == MODULE[:shown] and 50 < shown < 200
    note, *names = page.remark.split("\n")
    assert note.startswith(f"[Lines 1-{shown} of {len(MODULE):,} are shown. ")
    assert "offset and limit" in note
    for row in names[:-1]:
        number, line = row.split("\t", 1)
        assert int(number) > shown and MODULE[int(number) - 1] == line and line.startswith("def ")
    assert re.fullmatch(r"\[\d+ more names between them; Grep finds them\.\]", names[-1])
    assert len(text) <= ReadSettings().page_chars / 2 + 200


async def test_lines_that_are_asked_for_are_exact(workspace) -> None:
    assert (await read(workspace, offset=600, limit=2)).split("\n")[:2] == [
        f"600\t{MODULE[599]}",
        f"601\t{MODULE[600]}",
    ]
    whole = page_of(await read(workspace, offset=1))
    assert whole is not None and list(whole.lines) == MODULE and whole.remark is None


async def test_a_file_up_to_the_limit_is_shown_whole(workspace, tmp_path) -> None:
    (tmp_path / "a.py").write_text("\n".join(MODULE)[:12_000])
    assert "are shown" not in await read(workspace, "a.py")
    off = await read(workspace, limits=ReadSettings(page_chars=0))
    assert page_of(off).lines == tuple(MODULE)


async def test_a_file_without_names_is_shown_up_to_the_limit(workspace, tmp_path) -> None:
    (tmp_path / "a.log").write_text("12:00:01 something happened\n" * 5_000)
    text = await read(workspace, "a.log")
    assert 11_000 < len(text) < 12_100
    last = page_of(text)
    assert last.remark == f"[More lines follow; go on with offset={len(last.lines) + 1}.]"
    (tmp_path / "b.log").write_text("12:00:01 something happened\n" * 700)
    assert page_of(await read(workspace, "b.log")).remark is None, "a second call would bring little more"


async def test_a_list_with_few_headings_counts_as_a_file_without_names(workspace, tmp_path) -> None:
    """Its headings do not tell which of its lines are needed."""
    items = [f"- item {n}: {'word ' * 20}" for n in range(160)]
    (tmp_path / "a.md").write_text("\n".join(["# List", *items, "## End", "- last", ""]))
    assert page_of(await read(workspace, "a.md")).remark is None
    (tmp_path / "b.md").write_text("\n".join(["# List", *items, *items, "## End", "- last", ""]))
    assert page_of(await read(workspace, "b.md")).remark.startswith("[More lines follow; ")
    parts = [line for n in range(40) for line in (f"## Part {n}", *items[:5])]
    (tmp_path / "c.md").write_text("\n".join(parts))
    assert "## Part 39" in await read(workspace, "c.md")


async def test_where_a_call_may_return_few_tokens_smaller_files_are_paged(workspace, tmp_path) -> None:
    (tmp_path / "a.py").write_text("\n".join(MODULE)[:8_000])
    text = await read(workspace, "a.py", ReadSettings(tokens=1_000))
    assert estimate_text(text) <= 1_000 and "are shown. Names" in text


async def test_encodings_and_line_ends_make_no_difference(workspace, tmp_path) -> None:
    plain = (await read(workspace)).replace("large.py", "a.py")
    for data in (
        "\r\n".join([*MODULE, ""]).encode(),
        b"\xef\xbb\xbf" + "\n".join([*MODULE, ""]).encode(),
        "\n".join([*MODULE, ""]).encode("utf-16"),
    ):
        (tmp_path / "a.py").write_bytes(data)
        assert await read(workspace, "a.py") == plain


async def test_lines_that_were_not_shown_cannot_be_edited(workspace, tmp_path) -> None:
    await read(workspace)
    assert await refusal(edit(workspace, "    return value + 390", "    return 0")) == (
        "Line 1174 of large.py was not shown yet; Read offset=1164 limit=21 first."
    )
    assert await refusal(edit(workspace, "value + 390\n\ndef name_391(value):", "x")) == (
        "Lines 1174-1176 of large.py were not shown yet; Read offset=1164 limit=23 first."
    )
    assert (tmp_path / "large.py").read_text() == "\n".join(MODULE) + "\n"
    await read(workspace, offset=1164, limit=21)
    assert await edit(workspace, "    return value + 390", "    return 0\n    # new") == (
        "Edited large.py: 1 place, line 1174."
    )
    assert await edit(workspace, "    # new", "    # newer") == "Edited large.py: 1 place, line 1175."
    assert await edit(workspace, "def name_393(value):", "def last(value):") == (
        "Edited large.py: 1 place, line 1183."
    )
    assert "was not shown" in await refusal(edit(workspace, "return value + 399", "x"))
    assert await edit(workspace, "def name_3(value):", "def three(value):") == (
        "Edited large.py: 1 place, line 12."
    ), "from the beginning, which the page shows"


async def test_every_place_of_a_text_is_replaced_if_one_of_them_was_shown(workspace, tmp_path) -> None:
    await read(workspace)
    assert (await edit(workspace, "value", "number", everywhere=True)).startswith(
        "Edited large.py: 800 places"
    )
    assert "value" not in (tmp_path / "large.py").read_text()
    assert "was not shown" in await refusal(edit(workspace, "return number + 399", "x", everywhere=True))


async def test_a_file_is_replaced_only_if_all_of_it_was_shown(workspace, tmp_path) -> None:
    await read(workspace)
    write = write_tool(workspace)
    text = await refusal(write.call({"file_path": "large.py", "content": "x"}))
    assert re.fullmatch(
        r"Only lines 1-\d+ of the 1,202 lines of large\.py were shown; read the others before you replace "
        r"it, or change it with Edit\.",
        text,
    )
    await read(workspace, offset=2)
    assert (await write.call({"file_path": "large.py", "content": "x = 1\n"})).startswith("Replaced")
    await edit(workspace, "x = 1", "x = 2", name="large.py")


async def test_a_file_that_changed_must_be_read_again_whatever_was_shown(workspace, tmp_path) -> None:
    await read(workspace, offset=1)
    (tmp_path / "large.py").write_text("\n".join([*MODULE, "def added(): ..."]) + "\n")
    assert "has changed since it was read" in await refusal(edit(workspace, "value + 390", "x"))
    await read(workspace)
    assert "was not shown" in await refusal(edit(workspace, "value + 390", "x"))


async def test_what_was_shown_before_counts_as_long_as_the_file_is_the_same(workspace) -> None:
    await read(workspace, offset=1)
    await read(workspace)
    assert (await edit(workspace, "value + 390", "x")).startswith("Edited")


LINES = st.lists(
    st.one_of(
        st.text(alphabet="ab \t=#é漢", max_size=30),
        st.sampled_from(["def f():", "class A:", "", "1\tx", "[Lines 1-2 of 3 are shown. ", "x" * 90]),
    ),
    min_size=1,
    max_size=60,
)


@given(LINES, st.sampled_from(["a.py", "a.md", "a.log"]), st.integers(50, 400), st.integers(1, 7))
async def test_every_line_can_be_reached(lines: list[str], name: str, page_chars: int, step: int) -> None:
    """By the page and by ranges of any size; each line is shown with its number, exactly."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text("\n".join(lines) + "\n", newline="")
        workspace = Workspace(Path(folder))
        limits = ReadSettings(page_chars=page_chars)
        page = page_of(await read(workspace, name, limits))
        assert page is not None and list(page.lines) == lines[: len(page.lines)]
        assert page.remark is not None or len(page.lines) == len(lines)
        found: list[str] = []
        while len(found) < len(lines):
            part = page_of(await read(workspace, name, limits, offset=len(found) + 1, limit=step))
            assert part is not None and part.first == len(found) + 1 and len(part.lines) <= step
            found += part.lines
        assert found == lines
        assert workspace.seen(Path(folder, name).resolve()).lines in (None, ((1, len(lines)),))
