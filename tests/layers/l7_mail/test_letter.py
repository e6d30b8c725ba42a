"""Letters as lines, and what an agent may be called."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import MailError
from nacre.layers.l7_mail.letter import (
    KINDS,
    MAX_LINE_BYTES,
    MAX_SUMMARY_CHARS,
    MAX_TEXT_CHARS,
    Letter,
    brief,
    check_name,
    parse,
    written,
)
from tests.layers.l7_mail.letters import ANY_TEXT, letter, sound_letters


def joined(text: str) -> str:
    """Two surrogates that make a pair become its character, as in any JSON."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@given(sound_letters())
def test_a_letter_comes_back_as_it_was_written(sent: Letter) -> None:
    """A3b: any Unicode, lone surrogates included."""
    assert parse(written(sent)) == replace(sent, text=joined(sent.text), summary=brief(joined(sent.summary)))


@given(sound_letters())
def test_a_letter_is_one_line_for_every_reader(sent: Letter) -> None:
    line = written(sent)
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    assert len(line.splitlines()) == 1


@given(sound_letters())
def test_writing_what_was_read_gives_the_same_bytes(sent: Letter) -> None:
    line = written(sent)
    assert written(parse(line)) == line


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_other_line_is_refused_in_one_line(line: bytes) -> None:
    with pytest.raises(MailError) as refused:
        parse(line)
    assert "\n" not in str(refused.value)


FIELDS = {
    "id": "a",
    "at": "2026-01-01T00:00:00+00:00",
    "from": "ann",
    "to": "bob",
    "kind": "text",
    "message": "hi",
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "order"}, "shutdown_request"),
        ({"kind": 7}, "there are text"),
        ({"kind": None}, "there are text"),
        ({"message": None}, "`message`"),
        ({"message": "  \n"}, "needs words"),
        ({"message": "x" * (MAX_TEXT_CHARS + 1)}, "write them to a file"),
        ({"id": "a b"}, "an id"),
        ({"id": "x" * 101}, "an id"),
        ({"answers": "../x"}, "an id"),
        ({"at": "yesterday"}, "`at`"),
        ({"at": "2026-01-01T00:00:00"}, "time zone"),
        ({"from": "../ann"}, "cannot be an agent's name"),
        ({"from": "uds:"}, "no address"),
        ({"from": "uds:/a\nb"}, "no address"),
        ({"to": "*"}, "cannot be an agent's name"),
        ({"approve": "yes"}, "`approve`"),
        ({"approve": True}, "only"),
        ({"kind": "shutdown_response"}, "`approve`"),
        ({"kind": "shutdown_response", "approve": False, "message": ""}, "says why"),
    ],
)
def test_a_line_of_the_wrong_shape_is_refused_with_what_is_wrong(
    change: dict[str, object], says: str
) -> None:
    """A4: unknown kinds are refused with the list of known ones; long texts are refused."""
    assert parse(json.dumps(FIELDS).encode()).text == "hi"
    with pytest.raises(MailError, match=says):
        parse(json.dumps({**FIELDS, **change}).encode())


def test_the_list_of_kinds_is_whole() -> None:
    with pytest.raises(MailError) as refused:
        parse(json.dumps({**FIELDS, "kind": "order"}).encode())
    assert all(kind in str(refused.value) for kind in KINDS)


def test_what_is_not_known_yet_is_passed_over() -> None:
    assert parse(json.dumps({**FIELDS, "colour": "red"}).encode()) == parse(json.dumps(FIELDS).encode())


def test_a_bottomless_line_is_refused() -> None:
    with pytest.raises(MailError, match="not JSON"):
        parse(b"[" * 200_000)


def test_the_longest_letter_fits_a_line_however_it_is_escaped() -> None:
    longest = replace(letter(), text="\ud800" * MAX_TEXT_CHARS, summary="\x01" * 500)
    assert len(written(longest)) < MAX_LINE_BYTES
    assert parse(written(longest)).text == longest.text


def test_a_letter_that_could_not_be_read_is_not_written() -> None:
    with pytest.raises(MailError):
        written(replace(letter(), at=datetime(2026, 1, 1)))  # noqa: DTZ001  # what is wrong with it
    with pytest.raises(MailError):
        written(replace(letter(), text="x" * (MAX_TEXT_CHARS + 1)))


@given(ANY_TEXT)
def test_a_summary_is_one_line_and_stays_as_it_is(text: str) -> None:
    """A3b."""
    once = brief(text)
    assert len(once) <= MAX_SUMMARY_CHARS
    assert once.isprintable()
    assert brief(once) == once


@pytest.mark.parametrize("name", ["main", "reviewer-2", "a.b_c", "测试员", "größe", "देवनागरी", "x" * 64])
def test_plain_names_are_taken(name: str) -> None:
    assert check_name(name) == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", ".hidden", "a/b", "../x", "/abs", "a\\b", "a\0b", "a b", "a\nb", "a:b", "*", "a*",
        "uds:/x", "%2e%2e", "x" * 65, "测" * 64 + "试试试试试试试试试试", "𠀀" * 60,
        "user", "System", "ALL", "con", "NUL.txt",
        "Main", "ｍain", "mаin", "main\ufe0f", "m\u200bain", "ma\u0301in\u034f", "a.bad", "a.", "\u0301a",
        "\ud800", "a\u202eb", "..%00", "~root", "-" * 65,
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere_or_look_like_others_are_refused(name: str) -> None:
    """A4, M6."""
    with pytest.raises(MailError) as refused:
        check_name(name)
    assert "\n" not in str(refused.value)
    assert "reviewer-2" in str(refused.value)


@given(ANY_TEXT)
def test_a_name_that_is_taken_is_one_part_of_a_path(name: str) -> None:
    try:
        taken = check_name(name)
    except MailError:
        return
    assert "/" not in taken
    assert not taken.startswith(".")
    assert "\0" not in taken
    assert len(taken.encode()) <= 200
    assert check_name(taken) == taken
