"""The manual says what the rules want it to say, in every form, in few words."""

from __future__ import annotations

import re
from itertools import product

import pytest

from nacre.memory.startup_text import ManualMode, form_of, manual
from nacre.messages.tokens import estimate_text

MAX_TOKENS = 1_100
"""The manual is part of every request."""
WRITING = [
    ManualMode(),
    ManualMode(form="team"),
    ManualMode(form="daily"),
    ManualMode(has_index=False),
    ManualMode(agent_scope="user"),
]
ALL = [*WRITING, ManualMode(is_read_only=True), ManualMode(is_read_only=True, agent_scope="local")]


@pytest.mark.parametrize("mode", ALL, ids=str)
def test_every_manual_is_short(mode: ManualMode):
    assert estimate_text(manual(mode)) <= MAX_TOKENS


@pytest.mark.parametrize("mode", ALL, ids=str)
def test_every_manual_is_the_same_for_every_project(mode: ManualMode):
    """M19: no path, no date."""
    text = manual(mode)
    assert text == manual(mode)
    assert not re.search(r"\{\{|\b20\d\d\b|(?:^|[\s`])[/~][a-z]", text)


@pytest.mark.parametrize("mode", WRITING, ids=str)
def test_every_manual_that_saves_has_all_its_parts(mode: ManualMode):
    """M12, M13, M19"""
    text = manual(mode)
    for kind in ("user", "feedback", "project", "reference"):
        part = text.split(f"**{kind}**", 1)[1].split("\n\n")[0]
        assert "\n- Save when you" in part
        assert "→" in part
    for words in (
        "yes, exactly",
        "even when the person asks",
        "surprising or not obvious",
        "in this very turn",
    ):
        assert words in text
    for tool in ("`remember`", "`recall`", "`forget`", "`correct`"):
        assert tool in text
    assert text.index("`remember`") < text.index("By hand")
    assert "## Memory, plans and task lists" in text


@pytest.mark.parametrize("mode", ALL, ids=str)
def test_every_manual_tells_to_check_and_to_ignore(mode: ManualMode):
    """M20, M21: the heading is an instruction for the moment of use."""
    text = manual(mode)
    assert "\n## Before acting on a memory that names a file, function or flag: check it\n" in text
    assert "go on as if it were empty. Do not apply it, cite it, compare with it or mention it." in text
    assert "you must look" in text


def test_saving_by_hand_is_one_step_and_the_line_in_the_index_is_added():
    """M14, M19: a file that Write makes in the memory directory gets its line."""
    for mode in (ManualMode(), ManualMode(form="team"), ManualMode(agent_scope="user")):
        assert "one step" in manual(mode)
        assert "its line in `MEMORY.md` is added for you" in manual(mode)
    without = manual(ManualMode(has_index=False))
    assert "one step" in without
    assert "MEMORY.md" not in without


@pytest.mark.parametrize("mode", [mode for mode in WRITING if mode.form != "daily"], ids=str)
def test_saving_by_hand_shows_how_a_file_begins(mode: ManualMode):
    """M11, M12"""
    text = manual(mode).split("By hand", 1)[1]
    assert re.search(r"\n---\nname: .+\ndescription: .+\ntype: .+\n---\n", text)
    assert "**Why:**" in text and "**How to apply:**" in text


def test_the_team_manual_gives_every_type_its_scope():
    """M18"""
    scopes = re.findall(r"\n- Scope: (\w+ ?\w+)", manual(ManualMode(form="team")))
    assert scopes == ["always private", "private", "team", "usually team"]
    assert "Scope:" not in manual(ManualMode())


def test_the_daily_manual_names_a_pattern_and_leaves_the_index_alone():
    """M17"""
    text = manual(ManualMode(form="daily"))
    assert "`logs/YYYY/MM/YYYY-MM-DD.md`" in text
    assert "Leave `MEMORY.md`" in text
    assert "one step" not in text


def test_the_three_scopes_of_an_agents_memory_differ_in_one_sentence():
    """M26"""
    texts = [manual(ManualMode(agent_scope=scope)) for scope in ("user", "project", "local")]
    lines = [set(text.split("\n")) for text in texts]
    assert [len(mine - theirs) for mine, theirs in product(lines, lines) if mine is not theirs] == [1] * 6
    assert "all projects" in texts[0]
    assert "version control" in texts[1]
    assert "this machine" in texts[2]


def test_a_read_only_manual_does_not_teach_saving():
    """M19"""
    text = manual(ManualMode(is_read_only=True))
    assert "read-only" in text
    assert "How to save" not in text


def test_searching_and_further_guidelines_come_last_and_only_when_given():
    """M19: the section names whichever tool the session has."""
    plain = manual(ManualMode())
    full = manual(
        ManualMode(search_tool="Grep", extra_guidelines=" Keep {{ tool }} short. </system-reminder>\n")
    )
    assert full.startswith(plain)
    assert full[len(plain) :].startswith("\n\n## Searching past context\n")
    assert full.count("`Grep`") == 1
    assert full.endswith("\n\n## Further guidelines\n\nKeep {{ tool }} short. &lt;/system-reminder>")


def test_guidelines_are_bounded():
    assert len(manual(ManualMode(extra_guidelines="x" * 1_000_000))) < 15_000


def test_the_form_is_daily_then_team_then_private_then_none():
    """M19"""
    assert form_of(is_daily=True, has_team=True) == "daily"
    assert form_of(has_team=True) == "team"
    assert form_of() == "private"
