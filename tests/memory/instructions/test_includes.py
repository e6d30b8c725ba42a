"""`@path` pulls a file in ahead of the one that names it; code and comments pull in nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.memory.instructions.includes import MAX_NAMES, includes_in, is_text_name, without_comments
from nacre.memory.instructions.load import load_instructions
from tests.memory.trees import names, paths_in, plant


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@a.md", ("a.md",)),
        ("see @./a.md and @../b.md\n\t@~/c.md @/d.md", ("./a.md", "../b.md", "~/c.md", "/d.md")),
        ("@a.md#part @b.md#", ("a.md", "b.md")),
        ("@my\\ file.md @x", ("my file.md", "x")),
        ("@a @a @b @a", ("a", "b")),
        ("me@example.org (@a) x@b", ()),
        ("@ @# word", ()),
        ("- @a\n> @b\n# @c\n    @d", ("a", "b", "c", "d")),
        ("`@a` @b ``x ` @c`` @d", ("b", "d")),
        ("`over\nlines @a` @b", ("b",)),
        ("a lone ` tick @a", ("a",)),
        ("a ` tick\n\n@a another ` tick", ("a",)),
        ("\\`@x @a`", ("a`",)),
        ("```\n@a\n```\n@b", ("b",)),
        ("~~~ md\n```\n@a\n~~~\n@b", ("b",)),
        ("````\n```\n@a\n````\n@b", ("b",)),
        ("- ```sh\n  @a\n  ```\n@b", ("b",)),
        ("```\n@a never closed", ()),
        ("```inline``` @a", ("a",)),
        ("<!-- @a\n@b --> @c", ("c",)),
        ("text <!-- @a --> @b", ("b",)),
        ("<!-- never closed @a", ("a",)),
        ("`<!--` @a `-->`", ("a",)),
        ("<!-- ``` -->\n@a", ("a",)),
        ("```\n<!--\n```\n@a -->", ("a",)),
    ],
)
def test_only_prose_pulls_files_in(text: str, found: tuple[str, ...]):
    """M23: not in code spans, fences or comments; at the start of a line or after a blank."""
    assert includes_in(text) == found


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\n<!-- x -->\nb", "a\nb"),
        ("a\n<!-- x\n\ny -->\nb", "a\nb"),
        ("<!-- x --> rest\n", " rest\n"),
        ("<!-- x --><!-- y -->\nb", "b"),
        ("  <!-- x -->", ""),
        ("in <!-- x --> line", "in <!-- x --> line"),
        ("`c` <!-- x -->", "`c` <!-- x -->"),
        ("```\n<!-- x -->\n```", "```\n<!-- x -->\n```"),
        ("<!-- open\nb", "<!-- open\nb"),
        ("`<!-- x -->`", "`<!-- x -->`"),
    ],
)
def test_block_comments_are_left_out(text: str, kept: str):
    """M23: block comments go, those in code and unclosed ones stay, and so does the rest of the line."""
    assert without_comments(text) == kept


@given(st.text(alphabet="`~<!->@a \n\\#", max_size=60))
def test_any_text_is_read_without_loss(text: str):
    """What is not a comment stays; what is named stands in the text."""
    kept = without_comments(text)
    assert not kept or set(kept) <= set(text)
    if "<!--" not in text:
        assert kept == text
    assert all("@" + name.replace(" ", "\\ ") in text for name in includes_in(text))


def test_pages_made_to_be_slow_are_not():
    """Hostile repository: quadratic work would not end here."""
    runs = " ".join("`" * length for length in range(1, 2_000))
    assert includes_in(f"{runs} @a") == ("a",)
    assert without_comments("x<!---->" * 200_000) == "x<!---->" * 200_000
    assert includes_in("<!--" * 500_000) == ()


def test_a_page_of_names_is_cut_off():
    assert len(includes_in(" ".join(f"@{number}" for number in range(5_000)))) == MAX_NAMES


@pytest.mark.parametrize(
    ("name", "is_text"), [("a.md", True), ("Makefile", True), ("x.PY", True), ("a.png", False)]
)
def test_only_text_files_are_pulled_in(name: str, is_text: bool):
    assert is_text_name(Path(name)) is is_text


def test_every_form_of_path_is_found_and_stands_before_the_file_that_names_it(tmp_path):
    """M23: relative to the file that names it, `~/`, absolute, bare; the fragment is ignored."""
    plant(tmp_path, {
        "repo/docs/CLAUDE.md": "",
        "repo/CLAUDE.md": f"@docs/one.md @./two.txt\n@{tmp_path}/repo/three @four\\ five.md#t @docs/six.md.",
        "repo/docs/one.md": "@inner.md",
        "repo/docs/inner.md": "",
        "repo/docs/six.md": "",
        "repo/two.txt": "",
        "repo/three": "",
        "repo/four five.md": "",
    })  # fmt: skip
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == [
        "repo/docs/inner.md", "repo/docs/one.md", "repo/two.txt", "repo/three", "repo/four five.md",
        "repo/docs/six.md", "repo/CLAUDE.md",
    ]  # fmt: skip
    assert loaded.files[0].because == tmp_path / "repo/docs/one.md"
    assert {file.kind for file in loaded.files} == {"project"}
    assert loaded.warnings == ()


def test_missing_files_folders_and_people_are_passed_over(tmp_path):
    """M23: a missing file is skipped."""
    words = "@gone.md @docs @someone @types/node @. @~ @~nobody/x @" + "x" * 5_000
    plant(tmp_path, {"repo/CLAUDE.md": words, "repo/docs/x": ""})
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == ["repo/CLAUDE.md"]
    assert (loaded.warnings, loaded.outside) == ((), ())


def test_includes_go_four_files_deep_and_no_deeper(tmp_path):
    """M23"""
    plant(tmp_path, {f"repo/{number}.md": f"@{number + 1}.md" for number in range(1, 9)})
    plant(tmp_path, {"repo/CLAUDE.md": "@1.md"})
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == ["repo/4.md", "repo/3.md", "repo/2.md", "repo/1.md", "repo/CLAUDE.md"]
    assert loaded.warnings == (f"{tmp_path}/repo/5.md is not loaded: included more than 4 files deep",)
    assert len(load_instructions(paths_in(tmp_path, max_depth=8)).files) == 9
    assert len(load_instructions(paths_in(tmp_path, max_depth=0)).files) == 1


def test_pictures_and_pipes_are_not_pulled_in(tmp_path):
    plant(tmp_path, {"repo/CLAUDE.md": "@logo.png @pipe", "repo/logo.png": b"\x89PNG"})
    os.mkfifo(tmp_path / "repo/pipe")
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == ["repo/CLAUDE.md"]
    assert [skipped.why for skipped in loaded.skipped] == [
        "included, but its ending is not one of a text file",
        "not a regular file",
    ]


def test_a_path_outside_the_working_tree_needs_consent_unless_the_person_named_it(tmp_path):
    """M23"""
    plant(tmp_path, {
        "repo/CLAUDE.md": "@../secret.txt @~/notes.md @link.md @../gone.md",
        "person/notes.md": "@inner.md", "person/inner.md": "", "secret.txt": "", "linked.md": "",
    })  # fmt: skip
    (tmp_path / "repo/link.md").symlink_to(tmp_path / "linked.md")
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == ["repo/CLAUDE.md"]
    assert loaded.outside == (tmp_path / "secret.txt", tmp_path / "person/notes.md", tmp_path / "linked.md")

    agreed = load_instructions(paths_in(tmp_path, allow_outside=frozenset({tmp_path / "person/notes.md"})))
    assert names(agreed, tmp_path) == ["person/notes.md", "repo/CLAUDE.md"]
    assert agreed.outside == (
        tmp_path / "secret.txt",
        tmp_path / "person/inner.md",
        tmp_path / "linked.md",
    )

    plant(tmp_path, {"person/.nacre/CLAUDE.md": "@~/notes.md"})
    own = load_instructions(paths_in(tmp_path))
    assert names(own, tmp_path)[:3] == ["person/inner.md", "person/notes.md", "person/.nacre/CLAUDE.md"]


@st.composite
def webs(draw) -> dict[int, list[int]]:
    """Files 0..n, each naming some of the others; circles are likely."""
    count = draw(st.integers(1, 7))
    numbers = st.integers(0, count - 1)
    return {number: draw(st.lists(numbers, max_size=4)) for number in range(count)}


def expected(web: dict[int, list[int]], max_depth: int) -> list[int]:
    """The order in plain words: visit what is named first, each file once, no deeper than allowed."""
    seen: set[int] = set()
    order: list[int] = []

    def visit(number: int, depth: int) -> None:
        if number in seen or depth > max_depth:
            return
        seen.add(number)
        for named in web[number]:
            visit(named, depth + 1)
        order.append(number)

    visit(0, 0)
    return order


@settings(deadline=None)
@given(webs(), st.integers(0, 6))
def test_any_web_of_includes_ends_with_each_file_once(web: dict[int, list[int]], max_depth: int):
    """M23: cycles are harmless."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        for number, named in web.items():
            name = f"{number}.md" if number else "CLAUDE.md"
            links = " ".join(f"@{other}.md" if other else "@./CLAUDE.md" for other in named)
            plant(top, {f"repo/{name}": links})
        loaded = load_instructions(paths_in(top, max_depth=max_depth))
        order = ["CLAUDE.md" if number == 0 else f"{number}.md" for number in expected(web, max_depth)]
        assert [file.path.name for file in loaded.files] == order


def test_what_a_rule_keeps_from_the_model_is_not_included_nor_loaded_through_a_link(tmp_path):
    """A repository's CLAUDE.md must not bring in a file that Read may not open."""
    plant(
        tmp_path,
        {
            "repo/CLAUDE.md": "@.env @notes.md Project words.",
            "repo/.env": "KEY=secret",
            "repo/notes.md": "@private/plan.md Notes.",
            "repo/private/plan.md": "secret plan",
            "person/.nacre/CLAUDE.md": "@mine.md",
            "person/.nacre/mine.md": "the user's own words",
        },
    )
    (tmp_path / "repo/AGENTS.md").symlink_to("private/plan.md")
    (tmp_path / "repo/.claude").mkdir()
    (tmp_path / "repo/.claude/rules").symlink_to("../private")

    def refusal(path):
        return "Read(x) says deny" if path.name in {".env", "plan.md", "mine.md"} else ""

    loaded = load_instructions(paths_in(tmp_path, refusal=refusal))
    assert "secret" not in str(loaded)
    assert "the user's own words" in str(loaded), "the user's own files may include anything"
    assert names(loaded, tmp_path)[-2:] == ["repo/notes.md", "repo/CLAUDE.md"]
    assert {line for line in loaded.warnings if "Read(x) says deny" in line}


def test_a_folder_that_becomes_a_link_after_the_check_is_not_read(tmp_path, monkeypatch):
    """Each step of the path is opened by itself, not only the last one."""
    plant(tmp_path, {"repo/docs/a.md": "Words.", "repo/CLAUDE.md": "@docs/a.md", "outside/a.md": "secret"})

    def exchange(path):
        if path.name == "a.md":
            (tmp_path / "repo/docs").rename(tmp_path / "repo/docs.real")
            (tmp_path / "repo/docs").symlink_to(tmp_path / "outside")
        return ""

    loaded = load_instructions(paths_in(tmp_path, refusal=exchange))
    assert "secret" not in str(loaded)
    assert any("symbolic link was put" in line for line in loaded.warnings)
