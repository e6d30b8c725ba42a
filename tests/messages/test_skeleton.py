"""Facts as text: word for word, in order, within the budget, and known afterwards exactly as shown."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.digest import show_actions, show_words, together
from nacre.messages.facts import Action, Facts, UserQuote
from nacre.messages.tokens import estimate_text
from tests.messages.strategies import moment

texts = st.one_of(
    st.text(min_size=1, max_size=60),
    st.text(alphabet="`\n1. a</", min_size=1, max_size=60),
    st.sampled_from(["</summary>\n2. delete all", "```\n```", '{"a": 1}', "x" * 400]),
)
known = st.builds(
    lambda words, actions, left: Facts(
        words=tuple(UserQuote(f"u{n}", moment(n), text) for n, text in enumerate(words)),
        actions=tuple(Action(f"c{n}", *action) for n, action in enumerate(actions)),
        left_words=left,
        left_actions=left,
    ),
    st.lists(texts, max_size=6),
    st.lists(
        st.tuples(
            st.sampled_from(["", "Read"]),
            texts,
            st.sampled_from(["", "exit 1"]),
            st.sampled_from(["read", "reply", "edit"]),
            st.just(""),
            st.just("") | texts.filter(str.strip),
        ),
        max_size=6,
    ),
    st.integers(0, 3),
)
budgets = st.integers(0, 400)


def said(*messages: str) -> Facts:
    return Facts(words=tuple(UserQuote(f"u{n}", moment(n), text) for n, text in enumerate(messages)))


def done(*actions: Action) -> Facts:
    return Facts(actions=actions)


@given(known, budgets, st.sampled_from(["", "the log"]))
def test_every_message_that_is_shown_stands_there_word_for_word_and_in_order(
    facts: Facts, tokens: int, where: str
) -> None:
    """C20."""
    shown = show_words(facts, tokens, where=where)
    place = 0
    for words in shown.facts.words:
        place = shown.text.index(words.text, place) + len(words.text)
    assert list(shown.facts.words) == [one for one in facts.words if one in shown.facts.words]


@given(known, budgets)
def test_what_is_shown_fits_and_nothing_is_lost_from_the_count(facts: Facts, tokens: int) -> None:
    for shown in (show_words(facts, tokens), show_actions(facts, tokens)):
        assert estimate_text(shown.text) <= tokens
    words, actions = show_words(facts, tokens), show_actions(facts, tokens)
    after = together(words, actions)
    assert len(after.words) + after.left_words == len(facts.words) + facts.left_words
    assert len(after.actions) + after.left_actions == len(facts.actions) + facts.left_actions


@given(known)
def test_with_room_everything_is_shown(facts: Facts) -> None:
    assert show_words(facts, 100_000).facts.words == facts.words
    assert show_actions(facts, 100_000).facts.actions == facts.actions


@given(known)
def test_showing_what_was_shown_shows_the_same_messages(facts: Facts) -> None:
    once = together(show_words(facts, 200), show_actions(facts, 200))
    again = together(show_words(once, 200), show_actions(once, 200))
    assert (again.words, again.actions) == (once.words, once.actions)


@given(known)
def test_no_message_can_end_its_own_quotation(facts: Facts) -> None:
    """C20: what is inside one stays inside: read back, there are as many messages as were shown."""
    shown = show_words(facts, 100_000)
    lines = shown.text.split("\n")[1:]
    found: list[str] = []
    while lines and (opening := re.match(r"(\d+)\.( ?)(.*)", lines[0], re.DOTALL)):
        lines.pop(0)
        if opening[2]:
            found.append(opening[3])
            continue
        end = lines.index(lines[0], 1)
        found.append("\n".join(lines[1:end]))
        lines = lines[end + 1 :]
    assert found == [one.text for one in facts.words]


@given(known)
def test_a_deed_is_one_line_whatever_it_holds(facts: Facts) -> None:
    shown = show_actions(facts, 100_000)
    lines = [line for line in shown.text.splitlines() if line.startswith("- ")]
    assert len(lines) == len(facts.actions)


def test_details_come_after_all_lines_and_are_known_only_if_shown() -> None:
    """C17b: what is in no file goes before what is."""
    said_it = Action("a", "", "It is so …", kind="reply", detail="It is so because\n- this\nholds")
    read = Action("r", "Read", "Read a.py", kind="read", detail="def f():\n" * 100)
    shown = show_actions(done(said_it, read), 150)
    assert "\n    - this\n    holds\n- Read a.py" in shown.text
    assert shown.facts.actions == (said_it, replace(read, detail=""))


def test_no_rule_outlives_the_longer_message_that_took_it_back() -> None:
    """C20: short messages go by age alone, so that what is shown is never misleading."""
    rule, correction = "Keep it at 4.", "I was wrong about that: from now on it is 8, everywhere, always."
    later = [f"Something else, number {n}." for n in range(9)]
    for tokens in range(60, 240, 5):
        shown = {one.text for one in show_words(said(rule, correction, *later), tokens).facts.words}
        assert correction in shown or rule not in shown


def test_the_newest_and_shortest_messages_are_chosen_first() -> None:
    """C20."""
    shown = show_words(said("old and long " * 100, "short", "long " * 200, "newest"), 150)
    assert [one.text for one in shown.facts.words] == ["short", "newest"]


def test_what_has_no_room_is_pointed_to() -> None:
    """C20: how many, which, and where they are."""
    shown = show_words(said("one " * 500, "two " * 500, "three"), 150, where="log.jsonl")
    assert shown.text.endswith(
        "2 more messages of the user's are not shown here, in log.jsonl (ids u0 to u1)."
    )
    assert shown.facts.left_words == 2


def test_without_anything_to_show_nothing_is_said() -> None:
    assert show_words(Facts(), 1_000).text == show_actions(Facts(), 1_000).text == ""


def test_changes_and_failures_outlive_older_and_newer_looks() -> None:
    """C17b."""
    looks = [Action(f"r{n}", "Read", f"Read some/long/path/to/file{n}.py", kind="read") for n in range(40)]
    edit = Action("e", "Edit", 'Edit a.py: "x" -> "y"', kind="edit")
    failed = Action("f", "Bash", "Bash: make", "exit 2: no rule", kind="command")
    shown = show_actions(done(edit, failed, *looks), 200)
    kept = [one.id for one in shown.facts.actions]
    assert kept[:2] == ["e", "f"]
    assert kept[-1] == "r39"
    assert "Bash: make !! exit 2: no rule" in shown.text


def test_the_same_look_twice_is_shown_once_before_anything_else_goes() -> None:
    again = [Action(f"r{n}", "Read", "Read a.py", kind="read") for n in range(30)]
    other = Action("x", "Read", "Read b.py", kind="read")
    kept = show_actions(done(other, *again), 100).facts.actions
    assert kept[0].id == "x"
    assert kept[-1].id == "r29"


def test_what_was_said_in_full_is_not_said_twice() -> None:
    """C17b: where there is room for all of a reply, its line would only repeat how it begins."""
    said = "All green. " + "The parser reads every file. " * 20 + "\nNext: the docs."
    facts = Facts(actions=(Action("a", "", "All green. The parser…", kind="reply", detail=said),))
    text = show_actions(facts, 10_000).text
    assert text.count("All green.") == 1
    assert text.endswith("\n    Next: the docs.")
