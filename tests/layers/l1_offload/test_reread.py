"""Only the changed lines: the earlier text and what is shown make the new text, exactly (C4)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l1_offload.references import ReadPage, changes, page_of, row

SPAN = r"lines? (\d+)(?:-(\d+))?"


def shown(
    lines: list[str], *, first: int = 1, remark: str | None = None, sign: str = "\t", width: int = 0
) -> str:
    """As Read shows them."""
    rows = [row(first + n, line, sign, width) for n, line in enumerate(lines)]
    return "\n".join(rows if remark is None else [*rows, remark])


def applied(before: str, text: str, sign: str = "\t", width: int = 0) -> str:
    """What a careful reader makes of the earlier text and the changes, from the words alone."""
    old = dict(re.findall(r"^ *([0-9]+)[\t→](.*)$", before, re.MULTILINE))
    rows: list[str] = []
    for each in text.split("\n"):
        if found := re.fullmatch(rf"\[{SPAN} as before(?:, where {SPAN} stood)?\]", each):
            now, _, then, _ = found.groups()
            start, end = int(now), int(found[2] or now)
            shift = int(then or now) - start
            rows += [row(n, old[str(n + shift)], sign, width) for n in range(start, end + 1)]
        elif not re.fullmatch(
            rf"\[new:\]|\[in place of the earlier {SPAN}:\]|\[the earlier {SPAN} gone\]", each
        ):
            rows.append(each)
    return "\n".join(rows)


LINES = st.lists(st.sampled_from(["", "}", "a = 1", "b = 2", "[new:]", "\treturn", "x" * 30]), max_size=40)


@given(LINES.filter(bool), LINES.filter(bool), st.integers(1, 2_000))
def test_the_earlier_text_and_the_changes_make_the_new_text(
    old: list[str], new: list[str], first: int
) -> None:
    before, now = shown(old, first=first), shown(new, first=first)
    found = changes(before, now)
    if found is not None:
        assert applied(before, found.text) == now
        assert len(found.text) < len(now) / 2


@given(st.data(), st.integers(30, 120))
def test_a_few_edits_of_a_long_file_are_shown_as_such(data: st.DataObject, size: int) -> None:
    """The same with files that look like files: most lines unlike, a few of them changed, new or gone."""
    old = [f"line {n} of a file, {n * n}" if n % 3 else "}" for n in range(size * 3)]
    new = list(old)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(new) - 1))
        match data.draw(st.sampled_from(["change", "insert", "delete"])):
            case "change":
                new[at] = data.draw(st.sampled_from(["changed", "}", ""]))
            case "insert":
                new[at:at] = ["one", "two", "}"]
            case _:
                del new[at : at + 3]
    before, now = shown(old), shown(new)
    found = changes(before, now)
    assert found is not None
    assert applied(before, found.text) == now
    assert found.lines <= 40


def test_what_is_shown_reads_like_a_list_of_changes() -> None:
    old = [f"line {n} with some words in it" for n in range(1, 31)]
    new = [*old[:4], "brand new", *old[4:19], "CHANGED", *old[20:28]]
    found = changes(shown(old), shown(new, remark="[More lines follow; go on with offset=30.]"))
    assert found is not None and found.lines == 4
    assert found.text.split("\n") == [
        "[lines 1-4 as before]",
        "[new:]",
        "5\tbrand new",
        "[lines 6-20 as before, where lines 5-19 stood]",
        "[in place of the earlier line 20:]",
        "21\tCHANGED",
        "[lines 22-29 as before, where lines 21-28 stood]",
        "[the earlier lines 29-30 gone]",
        "[More lines follow; go on with offset=30.]",
    ]


def test_a_file_that_is_mostly_new_is_sent_whole() -> None:
    assert changes(shown(["a" * 20] * 10), shown([f"{n}" * 10 for n in range(10)])) is None


def test_what_is_not_numbered_lines_is_left_alone() -> None:
    page = shown(["x"] * 50)
    for other in ("[The file is empty.]", "", "words", "\tx", "²\tx", "1 x", "->x", "9" * 5_000 + "\tx"):
        assert page_of(other) is None
        assert changes(other, page) is None and changes(page, other) is None


@pytest.mark.parametrize(
    "remark", [None, "", "[Stopped here.]", "\n<system-reminder>\nHm.\n</system-reminder>\n"]
)
def test_what_is_said_behind_the_lines_is_shown_as_it_is(remark: str | None) -> None:
    old = [f"line {n}, long enough to matter" for n in range(60)]
    new = old[:-1]
    before, now = shown(old, remark="[earlier remark]"), shown(new, remark=remark)
    assert page_of(now) == ReadPage(1, tuple(new), remark)
    found = changes(before, now)
    assert found is not None
    kept = applied(before, found.text)
    assert kept == now


def test_numbers_that_do_not_follow_each_other_are_no_lines_of_ours() -> None:
    assert page_of("1\ta\n3\tb") == ReadPage(1, ("a",), "3\tb")
    assert page_of("     1\ta\n     3\tb") == ReadPage(1, ("a",), "     3\tb", width=6)


FORMS = st.sampled_from([("\t", 0), ("\t", 6), ("→", 6)])


@given(FORMS, FORMS, st.integers(0, 59))
def test_every_way_to_write_numbers_is_read_and_the_new_one_is_kept(
    then: tuple[str, int], now: tuple[str, int], at: int
) -> None:
    """Sessions of Claude Code are resumed, and replayed, with an arrow behind a number that is indented."""
    old = [f"line {n}\t→ of some length" for n in range(60)]
    new = [*old[:at], "changed", *old[at + 1 :]]
    before = shown(old, sign=then[0], width=then[1])
    after = shown(new, sign=now[0], width=now[1])
    found = changes(before, after)
    assert found is not None and found.lines == 1
    assert applied(before, found.text, *now) == after


def test_lines_that_are_no_longer_on_a_page_are_not_said_to_be_gone() -> None:
    """A file that has grown is shown as its beginning and an outline; the rest of it still exists."""
    whole = shown([f"line {n}, long enough to matter" for n in range(200)])
    page = shown(
        [f"line {n}, long enough to matter" for n in range(30)],
        remark="[Lines 1-30 of 300 are shown. Names in the other lines follow.]\n41\tdef name():",
    )
    assert changes(whole, page) is None and changes(page, whole) is None and changes(page, page) is None


def test_lines_that_all_repeat_cost_no_more_than_others() -> None:
    """The usual way to compare is quadratic here; 200,000 lines would not end."""
    old = shown(["}"] * 200_000)
    new = shown([*["}"] * 100_000, "x", *["}"] * 100_000])
    found = changes(old, new)
    assert found is not None and found.lines == 1
