"""The extractor that needs no model: what it finds, and above all what it does not (E10, M12, M13)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l5_extract.by_rule import StatedFact, stated_facts
from nacre.memory.dates.relative import relative_phrases
from nacre.memory.format.entry import one_line
from nacre.messages.facts import UserQuote

AT = datetime(2024, 5, 2, 9, tzinfo=UTC)


def facts(*texts: str) -> list[StatedFact]:
    return stated_facts([UserQuote(f"r{place}", AT, text) for place, text in enumerate(texts)], zone=UTC)


def test_a_fact_holds_all_that_a_memory_needs() -> None:
    assert facts("By the way, we decided on Tuesday to drop Python 3.9. What now?") == [
        StatedFact(
            text="we decided on 2024-04-30 to drop Python 3.9.",
            kind="project",
            name="decided-drop-python-3-9",
            description="we decided on 2024-04-30 to drop Python 3.9.",
            sources=("r0",),
            on=date(2024, 4, 30),
        )
    ]


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        ("Please remember: I'm allergic to peanuts.", "user", "I'm allergic to peanuts."),
        ("Remember that our wiki is at https://wiki.example.com", "reference", "our wiki is at https://wiki.example.com"),
        ("Don't forget that my sister Ana visits in June.", "user", "my sister Ana visits in June."),
        ("My name is Ana and I work at Siemens.", "user", ""),
        ("I'm a data engineer.", "user", ""),
        ("I live in Berlin with Dr. Smith and two cats.", "user", ""),
        ("I prefer tabs over spaces.", "user", ""),
        ("I never eat meat.", "user", ""),
        ("I moved to Lisbon last month.", "user", "I moved to Lisbon in April 2024."),
        ("Thanks! My wife is a nurse, can you suggest a gift?", "user", "My wife is a nurse"),
        ("I just bought a used Volvo from my neighbour.", "user", ""),
        ("Always run the tests before you commit.", "feedback", ""),
        ("Never push to main without asking.", "feedback", ""),
        ("From now on, answer in British English.", "feedback", ""),
        ("Don't use emojis in our docs.", "feedback", ""),
        ("When you write Python, always use type hints.", "feedback", ""),
        ("Yes, exactly: keep the commit messages short.", "feedback", ""),
        ("Call me Sam.", "user", ""),
        ("The release is due by Monday.", "project", "The release is due by 2024-05-06."),
        ("Pipeline bugs are tracked in the Linear project INGEST.", "reference", ""),
        ("The docs for billing are at https://docs.example.com/b.", "reference", ""),
        ("请记住，我对花生过敏", "user", "我对花生过敏"),
        ("我叫李雷，住在上海。你呢？", "user", "我叫李雷，住在上海。"),
        ("我是一名后端工程师。", "user", ""),
        ("我在一家银行工作", "user", ""),
        ("我不吃香菜", "user", ""),
        ("我养了一只猫，叫团子。", "user", ""),
        ("以后回答都用中文。", "feedback", ""),
        ("不要再用表情符号了", "feedback", ""),
        ("每次提交前都要跑测试", "feedback", ""),
        ("我们昨天决定下周一冻结主分支", "project", "我们2024年5月1日决定2024年5月6日冻结主分支"),
        ("缺陷都记录在 Jira 的 OPS 看板里", "reference", ""),
    ],
)  # fmt: skip
def test_what_a_person_states_is_found_in_their_words(said: str, kind: str, text: str) -> None:
    assert [(one.kind, one.text) for one in facts(said)] == [(kind, text or said)]


@pytest.mark.parametrize(
    "said",
    [
        "Do you remember my dog?",
        "I remember that day.",
        "Am I a good engineer?",
        "If I lived in Rome, I would own a scooter.",
        "Suppose I am a doctor in Berlin.",
        "I might move to Paris next year.",
        "Maybe I prefer tabs.",
        "I want you to fix the tests.",
        "I need a list of cities.",
        "I'm looking for a good book.",
        "I'm trying to understand monads.",
        "I have a question about the invoice.",
        "I like the second option.",
        "That sounds great, thanks!",
        "Don't write anything else.",
        "My code throws an error.",
        "I got this error when I ran npm install yesterday in the morning.",
        "> I am a doctor and I live in Rome.",
        "```\nI am a doctor and I live in Rome.\n```",
        'She told me "I am a doctor and I live in Rome".',
        "Translate this: I am a doctor and I live in Rome.",
        "You are a pirate. I am the captain of this ship.",
        "Write a story about a girl. I am a fan of dragons.",
        "Ann: I am a doctor.\nBob: I live in Rome.",
        "Dear Ms. Lee,\nI am a doctor and I live in Rome.\nKind regards",
        "Remember that you are a helpful assistant.",
        "The train leaves at nine.",
        "如果我住在北京，房租会是多少？",
        "我可能会搬到深圳",
        "你是一名翻译，我是学生。",
        "我喜欢这个方案",
        "我想要一个列表",
        "我有一个问题",
        "以后再说吧",
        "我是不是应该换工作？",
        "翻译：我是一名医生",
    ],
)
def test_what_is_asked_supposed_guessed_quoted_played_or_wanted_now_is_not_a_fact(said: str) -> None:
    assert facts(said) == []


def test_a_list_to_remember_is_one_memory_per_item() -> None:
    told = facts("Remember:\n- my wife is called Ana\n- we deploy on Fridays\n\nThe weather is nice.")
    assert [one.text for one in told] == ["my wife is called Ana", "we deploy on Fridays"]


def test_a_long_document_says_nothing_about_the_person() -> None:
    """Whose first person it is, no rule can tell; the same words alone are a fact."""
    assert facts("I live in Rome with my two sons. " * 60) == []
    assert len(facts("I live in Rome with my two sons.")) == 1


@pytest.mark.parametrize(
    ("said", "denied"),
    [
        ("No, the release branch is called stable, not main.", "main"),
        ("I no longer work at Siemens.", "work at Siemens"),
        ("不对，应该是周三开会，不是周四", "周四"),
        ("I prefer tea instead of coffee.", "coffee"),
    ],
)
def test_a_correction_says_what_it_denies(said: str, denied: str) -> None:
    (fact,) = facts(said)
    assert fact.negates == denied


def test_the_same_fact_said_twice_is_one_with_both_sources_in_its_later_words() -> None:
    told = facts("I live in Berlin with my two cats", "ok", "I live in Berlin with my two cats.")
    assert [(one.text, one.sources) for one in told] == [("I live in Berlin with my two cats.", ("r0", "r2"))]


def test_facts_with_other_numbers_are_two() -> None:
    assert len(facts("I have 2 dogs called Rex and Lou.", "I have 3 dogs called Rex and Lou.")) == 2


def test_dates_follow_the_zone_of_the_person() -> None:
    at = datetime(2024, 1, 1, 1, 30, tzinfo=UTC)
    told = stated_facts(
        [UserQuote("r", at, "We decided today to stop the sale.")], zone=ZoneInfo("America/New_York")
    )
    assert [(one.text, one.on) for one in told] == [
        ("We decided on 2023-12-31 to stop the sale.", date(2023, 12, 31))
    ]


@given(
    st.text(max_size=300)
    | st.lists(
        st.sampled_from(["I am a", "my dog", "\n", "- ", "记住", "，", '"', "is Rex", ".", "```"])
    ).map(" ".join)
)
def test_any_text_is_taken_and_every_fact_stands_in_it(text: str) -> None:
    """Grounding holds by construction: but for dates the words are the person's own."""
    for one in facts(text):
        assert one.sources == ("r0",)
        assert one.name
        assert "\n" not in one.text
        if not relative_phrases(text):
            assert one.text in one_line(text)
