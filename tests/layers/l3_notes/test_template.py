"""The form of notes: headings and descriptions outlive every edit, and nothing that was written is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l3_notes.template import (
    TEMPLATE,
    NotesForm,
    NotesTemplate,
    asks_for,
    filled,
    is_bare,
    mended,
    sections,
)

NAMES = [
    "# Session Title",
    "# Current State",
    "# Task specification",
    "# Files and Functions",
    "# Workflow",
    "# Errors & Corrections",
    "# Codebase and System Documentation",
    "# Learnings",
    "# Key results",
    "# Worklog",
]
BODY = ["- ran `make`", "", "  indented", "```", "# a comment", "## Sub", "_italic_", "Worklog", "a\u2028b"]
OTHER = NotesTemplate.of("# Aim\n_Why._\n\n# Steps\n\n# Left\n_What is left._\n\nnothing yet\n") or TEMPLATE


def fixed(text: str, template: NotesTemplate = TEMPLATE) -> list[str]:
    """The lines of a file that are the template's own, in order."""
    own = {line for one in template.sections for line in (one.heading, one.description) if line}
    return [line for line in text.split("\n") if line in own]


def is_body(line: str, template: NotesTemplate = TEMPLATE) -> bool:
    plain = " ".join(line.strip().lstrip("#").strip().strip("*:").split()).casefold()
    is_heading = line.strip().startswith("#") and plain in template.headings
    return bool(line.strip()) and not is_heading and line.strip() not in template.descriptions


def test_the_ten_sections_stand_in_their_order_each_with_one_italic_line() -> None:
    """C13."""
    assert [one.heading for one in TEMPLATE.sections] == NAMES
    assert all(one.description[0] == one.description[-1] == "_" for one in TEMPLATE.sections)
    assert fixed(TEMPLATE.text) == [
        line for one in TEMPLATE.sections for line in (one.heading, one.description)
    ]


lines = st.lists(
    st.one_of(
        st.sampled_from([*TEMPLATE.text.split("\n"), *BODY]),
        st.sampled_from([f"#{name}" for name in NAMES] + ["# Log", "# WORKLOG:", "~~~"]),
        st.text(max_size=12),
    ),
    max_size=40,
).map("\n".join)


@given(new=lines, old=lines)
def test_whatever_an_edit_did_the_form_is_intact_and_no_line_is_lost(new: str, old: str) -> None:
    """C13: headings and descriptions are immutable; text outside any section is kept in the nearest."""
    after = mended(old, new, TEMPLATE)
    assert [one.heading for one in sections(after, TEMPLATE)] == NAMES
    whole = iter(after.split("\n"))
    for line in fixed(TEMPLATE.text):
        assert line in whole, f"{line} is missing, or out of order"
    kept = set(after.split("\n"))
    lost = [line for line in new.replace("\r\n", "\n").split("\n") if is_body(line) and line not in kept]
    assert not lost


@given(bodies=st.lists(st.lists(st.sampled_from([*BODY, "x", "y"]), max_size=4), min_size=10, max_size=10))
def test_a_file_in_form_stays_as_it_is(bodies: list[list[str]]) -> None:
    """C13: mending is no rewriting."""
    texts = ["\n".join(lines).strip("\n") for lines in bodies]
    written = "".join(
        f"{one.heading}\n{one.description}\n\n{text}\n\n"
        for one, text in zip(TEMPLATE.sections, texts, strict=True)
    )
    once = mended("", written, TEMPLATE)
    assert mended(once, once, TEMPLATE) == once
    assert [one.body for one in sections(once, TEMPLATE)] == [one.strip("\n") for one in texts]


@pytest.mark.parametrize(
    ("edit", "place", "body"),
    [
        (lambda text: text.replace("# Worklog\n", ""), 9, "- step one"),
        (lambda text: text.replace("# Worklog", "## worklog:"), 9, "- step one"),
        (lambda text: text.replace("# Worklog", "# Log"), 9, "# Log\n\n- step one"),
        (lambda text: text.replace(TEMPLATE.sections[9].description, ""), 9, "- step one"),
        (lambda text: text.partition("# Worklog")[0], 9, "- step one"),
        (lambda text: text + "\n# Worklog\n- step two\n", 9, "- step one\n\n- step two"),
        (lambda text: "A preface.\n" + text, 0, "A preface.\n\nFixing the lexer"),
        (lambda text: text.replace("- step one", "- step one\n```sh\n# Workflow\n```"), 4, ""),
    ],
    ids=["no heading", "respelt", "renamed", "no description", "cut out", "twice", "preface", "in code"],
)
def test_a_broken_form_is_mended_where_its_text_can_be_matched(edit, place: int, body: str) -> None:  # type: ignore[no-untyped-def]
    """C13: by name, by description, by what stood there before."""
    good = TEMPLATE.text.replace(
        TEMPLATE.sections[0].description, TEMPLATE.sections[0].description + "\n\nFixing the lexer"
    )
    good += "\n- step one\n"
    after = sections(mended(good, edit(good), TEMPLATE), TEMPLATE)[place].body
    assert [line for line in after.split("\n") if line] == [line for line in body.split("\n") if line]


def test_a_section_whose_lines_went_elsewhere_does_not_come_back_twice() -> None:
    old = TEMPLATE.text + "\n- step one\n"
    moved = old.partition("# Worklog")[0] + "- step one\n"
    after = mended(old, moved, TEMPLATE)
    assert after.count("- step one") == 1
    assert sections(after, TEMPLATE)[8].body == "- step one"


def test_bare_notes_are_told_from_written_ones() -> None:
    """C16: an untouched template is no summary."""
    assert is_bare("", TEMPLATE)
    assert is_bare(TEMPLATE.text, TEMPLATE)
    assert not is_bare(TEMPLATE.text + "x\n", TEMPLATE)
    assert is_bare(OTHER.text, OTHER)
    assert not is_bare(OTHER.text.replace("nothing yet", "the tests"), OTHER)


@given(new=st.lists(st.sampled_from([*OTHER.text.split("\n"), *BODY, "x"]), max_size=20).map("\n".join))
def test_any_template_of_headings_and_descriptions_is_kept(new: str) -> None:
    """C13: a custom template may have other headings, and sections without a description."""
    after = mended(OTHER.text, new, OTHER)
    assert [one.heading for one in sections(after, OTHER)] == ["# Aim", "# Steps", "# Left"]
    assert all(line in after.split("\n") for line in new.split("\n") if is_body(line, OTHER))


@pytest.mark.parametrize("text", ["", "no headings", "## Only\n### deeper", "# One\n\n# one\n"])
def test_a_template_without_headings_to_tell_apart_is_none(text: str) -> None:
    assert NotesTemplate.of(text) is None


def test_a_persons_template_and_prompt_are_used_and_a_useless_one_is_said(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """C13: `<home>/session-memory/config/`."""
    assert NotesForm.of(tmp_path) == NotesForm()
    config = tmp_path / "session-memory" / "config"
    config.mkdir(parents=True)
    (config / "template.md").write_text("# Aim\r\n_Why._\r\n", encoding="utf-8")
    (config / "prompt.md").write_text("Edit {{path}}.\n", encoding="utf-8")
    form = NotesForm.of(tmp_path)
    assert [one.description for one in form.template.sections] == ["_Why._"]
    assert (form.prompt, form.problems) == ("Edit {{path}}.", ())
    (config / "template.md").write_text("nothing\n", encoding="utf-8")
    form = NotesForm.of(tmp_path)
    assert form.template == TEMPLATE
    assert form.problems == (
        f"{config / 'template.md'} needs different `# Headings`; the usual template is used instead.",
    )


def test_slots_are_filled_in_one_pass_and_unknown_ones_stay() -> None:
    """C13: a value that holds `{{` or `$1` is left alone."""
    text = filled(r"{{notes}} {{ path }} {{what}} \1", notes="{{path}} $1 \\g<0>", path="/a")
    assert text == r"{{path}} $1 \g<0> /a {{what}} \1"
    assert asks_for("x {{ condense }}", "condense")
    assert not asks_for("x {condense}", "condense")
