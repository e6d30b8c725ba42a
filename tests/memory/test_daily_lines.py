"""Logs as text: whatever people do to one, its facts are read, and nothing of theirs is rewritten (M17)."""

from __future__ import annotations

from datetime import date, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.daily_log import (
    appended,
    as_one_line,
    bullet,
    day_of,
    log_file,
    read_log,
    with_marks,
    without,
)
from nacre.memory.format.entry import KINDS, Origin

FILE = "logs/2026/03/2026-03-09.md"


def read(text: str | bytes) -> list[tuple[str, str | None, str]]:
    data = text if isinstance(text, bytes) else text.encode()
    return [(f"{one.at:%H:%M}" if one.at else "", one.kind, one.text) for one in read_log(FILE, data)]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", []),
        ("- 14:05 feedback: one set a file\n", [("14:05", "feedback", "one set a file")]),
        ("- 14:05 just a fact", [("14:05", None, "just a fact")]),
        ("- no time at all\n", [("", None, "no time at all")]),
        (
            "# 9 March\n\n- 9:05 tea\n* 9:06 milk\n1. sugar\n",
            [("09:05", None, "tea"), ("09:06", None, "milk"), ("", None, "sugar")],
        ),
        ("- [14:05] **user:** likes tea\n", [("14:05", "user", "likes tea")]),
        ("- **14:05** [Project] ships in May\n", [("14:05", "project", "ships in May")]),
        ("- 2:05pm (reference) the board\n", [("14:05", "reference", "the board")]),
        ("- 12:05am late\n", [("00:05", None, "late")]),
        ("- 2026-03-09T14:05:09Z tea\n", [("14:05", None, "tea")]),
        ("- 09:05 am Montag ist Messe\n", [("09:05", None, "am Montag ist Messe")]),
        ("- 25:99 is no time\n", [("", None, "25:99 is no time")]),
        (
            "- 14:05 a fact\n  that was wrapped\nby an editor\n",
            [("14:05", None, "a fact that was wrapped by an editor")],
        ),
        (
            "- 14:05 a fact\n  - with a detail\n\n  and more\n- next\n",
            [("14:05", None, "a fact with a detail and more"), ("", None, "next")],
        ),
        ("  - indented\n  - as a whole\n", [("", None, "indented"), ("", None, "as a whole")]),
        (
            "words without a bullet\n\nand others\n",
            [("", None, "words without a bullet"), ("", None, "and others")],
        ),
        ("-\n- 14:05\n- \n---\n<!-- note -->\n- x\n", [("", None, "x")]),
        ("- 14:05\n  user: below its time\n", [("14:05", "user", "below its time")]),
        ("\ufeff- 14:05 a\r\n- 14:06 b\r\n", [("14:05", None, "a"), ("14:06", None, "b")]),
        (b"- 14:05 caf\xe9\n", [("14:05", None, "caf\ufffd")]),
        ("- 14:05 see user: bob in the list\n", [("14:05", None, "see user: bob in the list")]),
    ],
)
def test_facts_are_read_however_they_were_written(
    text: str | bytes, facts: list[tuple[str, str | None, str]]
) -> None:
    """M17."""
    assert read(text) == facts


@given(st.binary(max_size=300))
def test_reading_never_fails_and_every_fact_has_its_lines(data: bytes) -> None:
    lines = data.count(b"\n") + 1
    last = 0
    for fact in read_log(FILE, data):
        assert last < fact.line <= fact.end <= lines
        assert fact.text
        last = fact.end


ANY_LOG = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([b"- 09:00 tea", b"# Day", b"", b"  wrapped", b"\r", b"words", "- ☕".encode()]))
    .flatmap(lambda lines: st.sampled_from([b"\n", b"\r\n"]).map(lambda end: end.join(lines))),
)  # fmt: skip


@given(
    ANY_LOG,
    st.text(max_size=60).filter(as_one_line),
    st.sampled_from(KINDS),
    st.times(),
)
def test_a_line_is_added_behind_every_byte_that_was_there(
    data: bytes, text: str, kind: str, at: time
) -> None:
    """M17: never rewritten; what was added is read back as it was said."""
    new = appended(data, bullet(text, at=at, kind=kind))  # type: ignore[arg-type]
    assert new.startswith(data)
    assert new.endswith(b"\n")
    *before, line = read_log(FILE, new)
    assert (line.text, line.kind, line.at) == (as_one_line(text), kind, at.replace(second=0, microsecond=0))
    assert before == list(read_log(FILE, data))
    assert without(new, [line]).removesuffix(b"\n").removesuffix(b"\r") == data.removesuffix(
        b"\n"
    ).removesuffix(b"\r")


@pytest.mark.parametrize(
    ("data", "new"),
    [
        (b"", b"- x\n"),
        (b"- a", b"- a\n- x\n"),
        (b"- a\n", b"- a\n- x\n"),
        (b"- a\r\n- b", b"- a\r\n- b\r\n- x\r\n"),
        (b"- a\r\n", b"- a\r\n- x\r\n"),
        (b"- a\r\n- b\r", b"- a\r\n- b\r\n- x\r\n"),
    ],
)
def test_a_missing_line_end_is_made_up_for_in_the_files_own_style(data: bytes, new: bytes) -> None:
    """M17: a file without a last newline, and CRLF."""
    assert appended(data, "- x") == new


@given(st.lists(st.sampled_from(["- 09:00 tea", "  wrapped", "# Day", "", "- milk"])), st.data())
def test_taking_one_out_leaves_all_others_byte_for_byte(lines: list[str], draw: st.DataObject) -> None:
    data = "\n".join(lines).encode()
    facts = read_log(FILE, data)
    if not facts:
        return
    gone = draw.draw(st.sampled_from(facts))
    left = without(data, [gone])
    whole = data.split(b"\n")
    kept = [line for number, line in enumerate(whole, 1) if not gone.line <= number <= gone.end]
    assert left.rstrip(b"\n").split(b"\n") == b"\n".join(kept).rstrip(b"\n").split(b"\n")
    assert len(left) <= len(data)


@given(st.text(max_size=200))
def test_a_fact_is_one_line(text: str) -> None:
    """M17: one fact a line, in UTF-8, whatever a model sends."""
    line = as_one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.encode().decode() == line
    assert as_one_line(line) == line


def test_a_log_is_called_by_its_day() -> None:
    """M17: logs/YYYY/MM/YYYY-MM-DD.md."""
    assert log_file(date(2026, 3, 9)) == FILE
    assert log_file(date(987, 3, 9)) == "logs/0987/03/0987-03-09.md"
    assert day_of(FILE) == date(2026, 3, 9)
    assert day_of("logs/2026_03_09_2.md") == date(2026, 3, 9)
    for other in ("2026-03-09.md", "logs/notes.md", "logs/2026-13-09.md", "logs/2026-03-099.md"):
        assert day_of(other) is None


@given(st.dates())
def test_every_day_is_known_by_its_log(day: date) -> None:
    assert day_of(log_file(day)) == day


def test_only_new_lines_from_outside_are_marked_and_line_ends_stay() -> None:
    """M16b, M17: a wrapped line is marked at its end, one that is marked already is not marked twice."""
    before = b"- 09:00 bad old\r\n"
    after = before + b"- 10:00 bad new\r\n  and on\r\n- good\r\n- bad seen [untrusted]\r\n"

    def origin_of(text: str) -> Origin:
        return "untrusted" if text.startswith("bad") else "agent"

    marked = with_marks("logs/x.md", before, after, origin_of=origin_of)
    assert marked == after.replace(b"and on", b"and on [untrusted]")
