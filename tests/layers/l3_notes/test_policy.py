"""When notes are due, and how long they may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l3_notes.policy import NACRE, NotesInputs, NotesSettings, due, fitted, is_wanted
from nacre.layers.l3_notes.template import (
    CEILING,
    TEMPLATE,
    NotesSection,
    NotesTemplate,
    capped,
    injected,
    sections,
    sizes,
    too_long,
    written,
)
from nacre.messages.tokens import BYTES_PER_TOKEN, estimate_text

EARLY = NotesSettings(first_tokens=10_000)
SMALL = NotesSettings(section_tokens=200, total_tokens=1_000)


@pytest.mark.parametrize(
    ("moment", "is_due"),
    [
        (NotesInputs(tokens=9_999), False),
        (NotesInputs(tokens=10_000), True),
        (NotesInputs(tokens=10_000, is_pause=False), True),
        # A window of 10,240: compacted at 6,912, where 10,000 tokens are never reached.
        (NotesInputs(tokens=5_700, head_tokens=4_526, limit_tokens=6_912), False),
        (NotesInputs(tokens=5_720, head_tokens=4_526, limit_tokens=6_912), True),
        (NotesInputs(tokens=6_300, head_tokens=4_526, limit_tokens=6_912, since_tokens=5_720), False),
        (NotesInputs(tokens=6_320, head_tokens=4_526, limit_tokens=6_912, since_tokens=5_720), True),
        (NotesInputs(tokens=18_999, head_tokens=9_000), False),
        (NotesInputs(tokens=19_000, head_tokens=9_000), True),
        (NotesInputs(tokens=14_999, since_tokens=10_000, calls=9), False),
        (NotesInputs(tokens=15_000, since_tokens=10_000), True),
        (NotesInputs(tokens=15_000, since_tokens=10_000, calls=2, is_pause=False), False),
        (NotesInputs(tokens=15_000, since_tokens=10_000, calls=3, is_pause=False), True),
        (NotesInputs(tokens=25_000, since_tokens=20_000), True),
        (NotesInputs(tokens=49_999, since_tokens=40_000), False),
        (NotesInputs(tokens=50_000, since_tokens=40_000), True),
        (NotesInputs(tokens=58_999, since_tokens=49_000, head_tokens=9_000), False),
        (NotesInputs(tokens=59_000, since_tokens=49_000, head_tokens=9_000), True),
        (NotesInputs(tokens=174_999, since_tokens=150_000), False),
        (NotesInputs(tokens=175_000, since_tokens=150_000), True),
        (NotesInputs(tokens=90_000, since_tokens=10_000, calls=9, is_running=True), False),
        (NotesInputs(tokens=90_000, since_tokens=10_000, calls=9, failures=2), True),
        (NotesInputs(tokens=90_000, since_tokens=10_000, calls=9, failures=3), False),
        (NotesInputs(tokens=90_000, failures=3), False),
        (NotesInputs(tokens=8_000, since_tokens=3_000), True),
        (NotesInputs(tokens=30_000, head_tokens=4_000, limit_tokens=43_999, has_price=True), False),
        (NotesInputs(tokens=30_000, head_tokens=4_000, limit_tokens=43_999), True),
        (NotesInputs(tokens=30_000, head_tokens=4_000, limit_tokens=44_000, has_price=True), True),
    ],
)
def test_notes_are_due_by_growth_and_a_pause_or_enough_calls(moment: NotesInputs, is_due: bool) -> None:
    """C14, F5: at `first_tokens` of conversation, without system and tools; then 5,000 more and (3 calls or a
    reply without); never two; 3 failures. C24b: a model with a price keeps none in small windows."""
    assert due(moment, EARLY) is is_due


@pytest.mark.parametrize(
    ("tokens", "limit", "is_due"),
    [
        (74_999, 967_000, False),
        (75_000, 967_000, True),
        (64_999, 130_000, False),
        (65_000, 130_000, True),
    ],
)
def test_a_session_that_ends_before_half_of_its_room_pays_for_no_notes(
    tokens: int, limit: int, is_due: bool
) -> None:
    """C14: the first update is due at 75,000 tokens or at half of the room."""
    assert due(NotesInputs(tokens=tokens, limit_tokens=limit)) is is_due


def test_nobody_keeps_notes_where_nothing_is_compacted_unless_told_to() -> None:
    """C14."""
    assert is_wanted(switch=True, compacts=True)
    assert not is_wanted(switch=False, compacts=True)
    assert not is_wanted(switch=True, compacts=False)
    assert is_wanted(switch=True, compacts=False, settings=NotesSettings(always=True))


def notes_with(**lines: int) -> str:
    """Notes whose named sections have so many lines of ten tokens."""
    bodies = {name.replace("_", " "): "\n".join(["x" * 39] * count) for name, count in lines.items()}
    return written(
        [NotesSection(one.heading, one.description, bodies.get(one.name, "")) for one in TEMPLATE.sections]
    )


def test_sections_over_their_budget_are_named_largest_first() -> None:
    """C15."""
    text = notes_with(worklog=25, learnings=30, workflow=20)
    assert sizes(text, TEMPLATE)["# Worklog"] == 250
    assert too_long(text, TEMPLATE, SMALL) == {"# Learnings": 300, "# Worklog": 250}
    assert too_long(notes_with(worklog=20), TEMPLATE, SMALL) == {}


def test_where_only_all_together_are_too_long_the_larger_ones_give() -> None:
    """C15."""
    names = ("worklog", "learnings", "workflow", "current_state", "key_results", "task_specification")
    text = notes_with(**dict.fromkeys(names, 18), session_title=1)
    assert sorted(too_long(text, TEMPLATE, SMALL).values()) == [180] * 6


def test_what_is_shown_is_cut_at_a_line_and_says_where_the_rest_is() -> None:
    """C15: empty sections and descriptions say nothing to who reads on."""
    shown = injected(notes_with(worklog=25, session_title=1), TEMPLATE, SMALL, where="/s/summary.md")
    title, _, log = shown.partition("\n\n")
    assert title == "# Session Title\n" + "x" * 39
    assert log.split("\n") == ["# Worklog", *["x" * 39] * 16, "[Cut here: 9 more lines in /s/summary.md.]"]


def test_one_line_longer_than_the_budget_is_cut_inside() -> None:
    shown = injected(TEMPLATE.text + "é" * 5_000, TEMPLATE, SMALL)
    assert estimate_text(shown) <= 210
    assert shown.startswith("# Worklog\néééé")
    assert shown.endswith("é\n[Cut here: 1 more line.]")


@given(counts=st.lists(st.integers(0, 120), min_size=10, max_size=10))
def test_what_is_shown_always_fits(counts: list[int]) -> None:
    """C15: each section, and all of them; short ones are not cut for the long ones' sake."""
    names = [one.name.replace(" ", "_") for one in TEMPLATE.sections]
    text = notes_with(**dict(zip(names, counts, strict=True)))
    shown = injected(text, TEMPLATE, SMALL)
    assert estimate_text(shown) <= SMALL.total_tokens
    for part in shown.split("\n\n") if shown else []:
        assert estimate_text(part) <= SMALL.section_tokens + 12
    if sum(counts) * 10 <= 900:
        assert all(("[Cut" in shown) == (max(counts) > 20) for _ in counts)


def test_notes_up_to_the_ceiling_are_not_cut() -> None:
    """C15: between budget and ceiling a model is asked to condense, which it does better than a cut."""
    text = notes_with(worklog=29)
    assert too_long(text, TEMPLATE, SMALL)
    assert capped(text, TEMPLATE, SMALL) == (text, ())


def test_notes_beyond_the_ceiling_keep_the_newest_lines_in_order() -> None:
    """C15: the last ones, or the first ones where the update wrote above the old lines."""
    old = [f"- step {n:033}" for n in range(40)]
    new = "- the newest step"
    kept, cut = capped(TEMPLATE.text + "\n".join([*old, new]), TEMPLATE, SMALL)
    lines = sections(kept, TEMPLATE)[9].body.split("\n")
    assert cut == ("# Worklog",)
    assert lines == [*old[-len(lines) + 1 :], new]
    before = TEMPLATE.text + "\n".join(old)
    kept, _ = capped(TEMPLATE.text + "\n".join([new, *old]), TEMPLATE, SMALL, before=before)
    lines = sections(kept, TEMPLATE)[9].body.split("\n")
    assert lines == [new, *old[: len(lines) - 1]]


def test_a_long_line_keeps_its_end() -> None:
    kept, _ = capped(TEMPLATE.text + "é" * 5_000 + " the end", TEMPLATE, SMALL)
    body = sections(kept, TEMPLATE)[9].body
    assert body.endswith("é the end")
    assert 250 < estimate_text(body) <= SMALL.section_tokens * CEILING


def test_a_code_block_that_is_cut_hides_no_heading() -> None:
    """C13: a template without descriptions has nothing else by which a section could be found again."""
    template = NotesTemplate.of("# One\n# Two\n")
    assert template is not None
    block = ["~~~", *["x" * 39] * 40, "~~~", "after"]
    kept, _ = capped("\n".join(["# One", *block, "# Two", "kept"]), template, SMALL)
    one, two = sections(kept, template)
    assert (one.body[:3], one.body[-9:], two.body) == ("~~~", "~~~\nafter", "kept")
    text = "\n".join(["# One", "new", *block, "# Two", "kept"])
    kept, _ = capped(text, template, SMALL, before="\n".join(["# One", *block, "# Two", "kept"]))
    one, two = sections(kept, template)
    assert (one.body[:7], one.body[-4:], two.body) == ("new\n~~~", "\n~~~", "kept")


@given(bodies=st.lists(st.text(alphabet="ab{}[]`#\né ", max_size=3_000), min_size=10, max_size=10))
def test_capped_notes_fit_and_keep_their_form(bodies: list[str]) -> None:
    """C13, C15: every heading is there once, in order; what fits is not touched."""
    text = written([NotesSection(one.heading, one.description) for one in TEMPLATE.sections])
    for one, body in zip(TEMPLATE.sections, bodies, strict=True):
        text = text.replace(one.description, f"{one.description}\n\n{body * 3}")
    kept, cut = capped(text, TEMPLATE, SMALL)
    found = sections(kept, TEMPLATE)
    bytes_kept = [len(one.body.encode()) for one in found]
    assert max(bytes_kept) <= SMALL.section_tokens * CEILING * BYTES_PER_TOKEN
    assert sum(bytes_kept) <= SMALL.total_tokens * CEILING * BYTES_PER_TOKEN
    assert [line for line in kept.split("\n") if line in {one.heading for one in TEMPLATE.sections}] == [
        one.heading for one in TEMPLATE.sections
    ]
    if not cut:
        assert kept == text


def test_a_small_window_has_smaller_notes() -> None:
    """C15: a quarter of the room before a compaction, but enough to say something."""
    assert fitted(NACRE, room=160_000) == NACRE
    assert fitted(NACRE, room=20_000).total_tokens == 5_000
    assert fitted(NACRE, room=-1).total_tokens == 1_000
