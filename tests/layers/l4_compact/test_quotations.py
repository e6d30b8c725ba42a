"""Nobody is made to say what they never said: quotations of the person are looked up or go (C20)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nacre.layers.l4_compact.quotes import CheckedSummary, checked, is_said

WORDS = (
    "Please don't touch the parser. It's fine as it is, and I know why!",
    'Run   the tests\nfirst, then "ship" it to staging',
    "不要修改数据库，先写测试",
    "ok",
)
FRAMES = (
    'The user said "{}".',
    'The user said: "{}".',
    'User: "{}"',
    '**User**: "{}"',
    '- **User feedback**: "{}"',
    '- User rejected the commit, saying "{}"',
    '3. **User asked "{}"** - I did so.',
    'The user wants "{}".',
    'The user told me "{}" twice.',
    'User wrote “{}”.',
    "The user requested '{}'.",
    "The user insisted on it: ‘{}’.",
    'The user said `{}`.',
    '"{}" (user)',
    '- "{}" — user',
    '"{}", the user said.',
    '"{}" was the user\'s request.',
    'In the user\'s words, "{}".',
    'As the user put it in their last message: "{}"',
    'They said "{}".',
    'Their exact words: "{}"',
    'I was asked to "{}".',
    'Original request: "{}"',
    'The most recent request was "{}"',
    'According to the user, "{}"',
    'This was requested by the user: "{}"',
    'The human replied "{}"',
    'The user asked for this:\n\n> {}',
    'The user asked for this:\n> "{}"',
    'User messages:\n- "{}"',
    '## User messages\n\n- "{}"',
    'The user wrote:\n\n```\n{}\n```',
    'User: {}',
    'Human: {}',
    '用户说「{}」。',
    '用户说：“{}”',
    '用户明确要求"{}"。',
    '“{}”（用户）',
    '用户的原话是『{}』',
    'ユーザーは「{}」と言った。',
    'Der Nutzer sagte: „{}“',
    'The user said "{}',
    'Done: tests. The user confirmed the plan with "{}", so I went on.',
    'The user, after the failing run, said to me again and more loudly than before: "{}"',
)  # fmt: skip
INVENTED = (
    "Delete the database without asking",
    "please do touch the parser",
    "Please touch the parser",
    "Please ... touch ... fine",
    "don't touch the parser... ship it to staging",
    "now why",
    "删除数据库吧现在",
)
SAID = (
    "Please don't touch the parser",
    "don’t touch the parser.",
    "It's fine as it is, and I know why",
    "Please don't touch ... I know why!",
    "Run the tests first, then 'ship' it to staging.",
    "不要修改数据库",
)


@pytest.mark.parametrize("invented", INVENTED)
@pytest.mark.parametrize("frame", FRAMES)
def test_no_invented_quotation_is_kept_however_it_is_brought_in(frame: str, invented: str) -> None:
    """C20: not one of the made set."""
    around = checked(f"- Before.\n\n{frame.format(invented)}\n\n- Behind.", WORDS)
    assert invented not in around.text
    assert around.dropped
    assert around.text.startswith("- Before.")
    if not frame.endswith('"{}'):
        assert around.text.endswith("- Behind.")


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize(
    "frame", [one for one in FRAMES if "'" not in one.replace("user's", "") and "at once" not in one]
)
def test_what_was_said_stays_as_it_stands(frame: str, said: str) -> None:
    text = f"- Before.\n\n{frame.format(said)}\n\n- Behind."
    done = checked(text, WORDS)
    assert (done.text, done.dropped) == (text, [])
    assert done.kept == 1 or frame.endswith('"{}')


@pytest.mark.parametrize(
    "text",
    [
        'The error was "cannot open file".',
        "The user asked to run `mise run test:ci`.",
        "The user wants `ended_at` in the state file.",
        "User invoked `/github-pr-review`.",
        'The user asked to rename it to "Ledger".',
        'The user asked why the "caching bug" was there.',
        'The user reported that the page showed "Internal server error, try again later".',
        'I answered "it works on my machine".',
        'Added the label "User name" to the form.',
        'Wrote the commit message "Fix the parser".',
        "- Added tests for `estimateUserSelfModifications`",
        '```json\n{"user": "said", "text": "anything at all"}\n```',
        'The user pasted this output:\n\n```\nFAIL: test_everything "broken"\n```',
        "- User: prefers short sentences",
        "The user doesn't want it, and it's the user's choice.",
        'When the user clicks "Save and close the window", the form is sent.',
        'Logs in as the user "root".',
        "",
    ],
)
def test_what_is_not_said_to_be_the_persons_stays(text: str) -> None:
    assert checked(text, WORDS) == CheckedSummary(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('First. The user said "no way". Last.', "First. Last."),
        ('- First thing. User said "no way."\n- Second.', "- First thing.\n- Second."),
        ('- User said "no way":\n  - so I did it\n\n- Second.', "- Second."),
        ('- **Rejected**: The user said "no way".\n- Second.', "- Second."),
        ('The user asked:\n\n- "no way"\n- "never ever"\n\nDone.', "Done."),
        ('The user asked:\n- "no way"\n- "ok"\n\nDone.', 'The user asked:\n- "ok"\n\nDone.'),
        ('The user said:\n> no way\n> at all\n\nDone.', "Done."),
        ('1. He left.\n2. User: "no way", then "ok".\n3. End.', "1. He left.\n3. End."),
        ("先做测试。用户说「绝对不行的」。然后发布。", "先做测试。然后发布。"),
        ('The user said "no way',  ""),
    ],
)  # fmt: skip
def test_a_quotation_goes_with_its_sentence_or_item(text: str, left: str) -> None:
    assert checked(text, WORDS).text == left


@given(st.lists(st.text(alphabet="abc DEF.,'äß\n", min_size=1), min_size=1), st.data())
def test_a_slice_of_whole_words_is_always_found(words: list[str], data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(words)).split()
    assume(message)
    start = data.draw(st.integers(0, len(message) - 1))
    end = data.draw(st.integers(start + 1, len(message)))
    between = data.draw(st.sampled_from([" ", "\n", "  "]))
    quotation = between.join(message[start:end])
    assert is_said(quotation, words)
    assume("'" not in quotation and any(char.isalnum() for char in quotation))
    text = f'Before. The user said "{quotation}" yesterday.'
    assert checked(text, words) == CheckedSummary(text, [], 1)


@given(
    st.lists(st.text(alphabet="abc def.", min_size=1)),
    st.text(alphabet="uvw xyz", min_size=3),
    st.sampled_from(FRAMES),
)
def test_a_sentence_that_is_not_in_the_log_never_stays(words: list[str], invented: str, frame: str) -> None:
    invented = " ".join(invented.split())
    assume(len(invented.replace(" ", "")) > 2)
    done = checked(f"Before.\n\n{frame.format(invented)}", words)
    assert done.text.split("\n\n", 1)[1:] in ([], ["## User messages"], ["Done: tests."])
    assert done.dropped


@given(st.text(alphabet="user said\":>`-'\n「」“”.*# 1", max_size=200))
def test_any_text_can_be_checked_and_checking_twice_changes_nothing_more(text: str) -> None:
    once = checked(text, WORDS)
    assert not checked(once.text, WORDS).dropped


@pytest.mark.parametrize("mark", ["'a ", '"a ', "‘a ", "‘", "“", "„", "«", "`a ", "<user>", '"', '> "a b"\n'])
def test_a_piece_that_is_nothing_but_quotation_marks_is_no_riddle_to_be_solved(mark: str) -> None:
    """C20: it would take seconds, and nothing in it can be held against the log; the rest is read as ever."""
    text = f'The user said "do it fast".\n\n{mark * 8_000}\n\nThe parser works.'
    done = checked(text, ["do it fast"])
    assert done.text == 'The user said "do it fast".\n\nThe parser works.'
    assert (done.kept, len(done.dropped)) == (1, 1)
