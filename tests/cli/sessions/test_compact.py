"""Which part of a conversation a person means, and what they are told while and after it is compacted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.app.session_text import work_pills
from nacre.cli.chat.terminal import status_line
from nacre.cli.sessions import compact as compacting
from nacre.cli.sessions.compact import compaction_json, compaction_lines, place_of, progress, span_of
from nacre.errors import NothingToCompact, TranscriptError
from nacre.messages.blocks import Block, Text, ToolCall, ToolResult
from nacre.messages.draft import WHOLE, ItemSpan
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Said
from nacre.messages.rounds import cuts
from nacre.messages.view import View
from nacre.session.compaction import Compaction
from nacre.session.session import Base, Session

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)


def items_of(*said: tuple[str, str, Block]) -> list[Item]:
    return list(
        View.of(
            [Said(id=name, at=NOON, role=role, blocks=(block,)) for name, role, block in said]  # type: ignore[arg-type]
        ).items
    )


TALK = items_of(
    ("aa1", "user", Text("look")),
    ("aa2", "assistant", ToolCall("c1", "Read", {})),
    ("ab1", "user", ToolResult("c1", (Text("x"),))),
    ("ab2", "assistant", Text("Fine.")),
    ("1234567890", "user", Text("and on")),
)


def test_a_message_is_meant_by_its_number_its_id_or_how_that_begins() -> None:
    """Ids of some programs are digits only: a number in the list is what a person sees."""
    assert [place_of(TALK, wanted) for wanted in ("1", "5", "aa1", "ab2", "12345678")] == [0, 4, 0, 3, 4]
    with pytest.raises(TranscriptError, match="2 messages have ids that begin with 'aa'"):
        place_of(TALK, "aa")
    for wanted in ("0", "6", "12", "1234567", "", "zz", "-1", "²"):
        with pytest.raises(TranscriptError, match="no message in view matches"):
            place_of(TALK, wanted)


def test_a_part_never_begins_or_ends_between_a_call_and_its_result() -> None:
    """C16: moved to before the call, so that more is kept."""
    assert span_of(TALK, end="3") == ItemSpan(keeps_from=1)
    assert span_of(TALK, end="5") == ItemSpan(keeps_from=4)
    assert span_of(TALK, start="3") == ItemSpan(first=1)
    assert span_of(TALK, start="1") == WHOLE
    assert span_of(TALK) == WHOLE
    with pytest.raises(NothingToCompact, match="nothing comes before message aa1"):
        span_of(TALK, end="aa1")


@given(st.integers(1, len(TALK)))
def test_every_part_is_cut_where_a_view_may_be_cut(number: int) -> None:
    span = span_of(TALK, start=str(number))
    assert span.first in cuts(TALK) and span.first < number


def compaction(**given: object) -> Compaction:
    facts: dict[str, object] = {
        "record": Compacted(id="r", at=NOON, summary=()),
        "records": (),
        "kind": "full",
        "trigger": "manual",
        "before": 120_000,
        "after": 30_000,
        "kept_messages": 1,
        "words_kept": 12,
        "words_left": 0,
    }
    return Compaction(**(facts | given))  # type: ignore[arg-type]


def test_people_read_what_was_kept_what_was_not_and_the_way_back() -> None:
    plain = compaction_lines(compaction(seconds=3.21), "0123456789", undo="UNDO")
    assert plain == [
        "compacted with a model's summary: about 120,000 tokens became 30,000 (25%) in 3.2 s",
        "  kept as it was: 1 message at the end",
        "  word for word: 12 messages of yours",
        "Nothing is lost: `nacre sessions show 01234567 --full` has it all; UNDO",
    ]
    files = tuple(f"f{number}.py" for number in range(7))
    more = compaction_lines(compaction(words_left=3, files=files, dropped=1), "0", undo="")
    assert more[2].endswith("; 3 more in a file")
    assert more[3] == "  read again from disk: f0.py, f1.py, f2.py, f3.py, f4.py and 2 more"
    assert more[4] == "  removed from the summary: 1 invented quotation"
    part = compaction(kept_before=9, kept_messages=0, words_kept=1, words_left=2, seconds=0.01)
    assert compaction_lines(part, "0", undo="", words_file="/u.md")[:3] == [
        "compacted with a model's summary: about 120,000 tokens became 30,000 (25%)",
        "  kept as it was: 9 messages before it",
        "  word for word: 1 message of yours; 2 more in /u.md",
    ]

    part = compaction(words_kept=0, words_left=1)
    assert (
        compaction_lines(part, "0", undo="")[2] == "  word for word: none here; 1 message of yours in a file"
    )


def test_a_notice_says_in_one_line_what_became_of_the_conversation() -> None:
    """C18: only what there is to say."""
    done = compaction(words_left=3, files=("a.py",), dropped=2)
    assert done.line == (
        "Compacted with a summary: about 120,000 tokens became 30,000; the last 1 message kept; "
        "12 messages of yours word for word (3 more in a file); 1 file read again; "
        "2 invented quotations removed."
    )
    assert compaction(kind="rules", words_kept=0, kept_messages=0).line == (
        "Compacted by rule: about 120,000 tokens became 30,000."
    )


def test_a_name_that_a_terminal_would_obey_is_shown_escaped() -> None:
    lines = compaction_lines(compaction(files=("\x1b[2Jevil.py",)), "0", undo="")
    assert "\x1b" not in "".join(lines)


def test_programs_read_the_same_in_one_document() -> None:
    told = compaction_json(compaction(files=("a.py",), dropped=2), "s")
    assert told["files"] == ["a.py"]
    assert (told["session"], told["record"], told["dropped"]) == ("s", "r", 2)


async def test_progress_says_what_goes_on_and_for_how_long_and_goes_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compacting, "has_colour", lambda _: True)
    monkeypatch.setattr(compacting, "TICK_SECONDS", 0.01)
    async with progress() as say:
        say("asking for a summary")
        while "summary… 0 s" not in capsys.readouterr().err:  # hundredths are rounded
            await asyncio.sleep(0.01)
    assert capsys.readouterr().err.endswith("\r\x1b[K")


async def test_progress_is_for_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    async with progress() as say:
        say("asking")
    assert capsys.readouterr().err == ""


def test_the_status_line_names_what_goes_on_in_the_background_once() -> None:
    session = Session(Base("claude-opus-5-5", "Be kind.", ()))
    assert "…" not in status_line(session)
    line = status_line(session, work_pills(("notes", "compact", "something")))
    assert line.endswith(" · notes… · compacting… · something…")
