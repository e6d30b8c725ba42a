"""The extractor that needs no model: what it finds, and above all what it does not (E10, M12, M13)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l5_extract.by_rule import StatedFact, stated_facts
from nacre.memory.dates.relative import relative_phrases
from nacre.memory.format.entry import file_title, one_line
from nacre.messages.facts import UserQuote

AT = datetime(2024, 5, 2, 9, tzinfo=UTC)


def facts(*texts: str) -> list[StatedFact]:
    words = [UserQuote(f"r{place}", AT, text) for place, text in enumerate(texts)]
    return [one for one in stated_facts(words, zone=UTC) if not one.is_weak]


def test_a_fact_holds_all_that_a_memory_needs() -> None:
    assert facts("By the way, we decided on Tuesday to drop Python 3.9. What now?") == [
        StatedFact(
            text="we decided on 2024-04-30 to drop Python 3.9.",
            kind="project",
            title="We decided on 2024-04-30 to drop Python 3.9",
            sources=("r0",),
            said=date(2024, 5, 2),
            on=date(2024, 4, 30),
        )
    ]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            "Remember that der Vertrag bis Montag unterschrieben sein muss.",
            "der Vertrag bis 2024-05-06 unterschrieben sein muss.",
        ),
        ("Remember: la démo est vendredi.", "la démo est vendredi (said 2024-05-02)."),
        ("Remember: el contrato termina a fin de mes.", "el contrato termina el 2024-05-31."),
        ("Remember: 来週の金曜日にリリースします", "2024-05-10にリリースします"),
    ],
)
def test_dates_in_other_languages_are_written_out_or_carry_the_day(said: str, text: str) -> None:
    assert [one.text for one in facts(said)] == [text]


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        ("Please remember: I'm allergic to peanuts.", "user", "I'm allergic to peanuts."),
        ("Remember: I'm allergic to peanuts.", "user", "I'm allergic to peanuts."),
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
        ("我们昨天决定下周一冻结主分支", "project", "我们2024-05-01决定2024-05-06冻结主分支"),
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


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("hey, im a payments engineer, mostly python. can you look at this bug", "user"),
        ("use pnpm not npm here", "feedback"),
        ("stop summarizing what you did, i can read the diff", "feedback"),
        ("yes exactly, one bundled PR was the right call", "feedback"),
        ("we release on Thursdays", "project"),
        ("Alice owns the billing service", "project"),
        ("we can't upgrade to Node 22 because the sdk pins 20", "project"),
        ("the auth rewrite is because legal flagged the session tokens", "project"),
        ("Priya signs off on every release", "project"),
        ("the oncall dashboard is grafana.internal/d/api", "reference"),
        ("check Linear project INGEST for context, pipeline bugs are all tracked there", "reference"),
        ("测试里别 mock 数据库", "feedback"),
        ("别每次都总结", "feedback"),
        ("王芳审批所有导出", "project"),
        ("测试环境叫 heron", "project"),
        ("监控面板在 grafana.internal/d/etl", "reference"),
        ("帮我看看这个报错，我是做前端的", "user"),
        ("release 每周四发", "project"),
    ],
)
def test_what_people_type_in_passing_is_kept_as_the_right_kind(said: str, kind: str) -> None:
    assert [one.kind for one in facts(said)] == [kind]


@pytest.mark.parametrize(
    "said",
    [
        "always false, see line 3",
        "always use the cache here in this function",
        "We decided to skip that test for now",
        "I live in fear of this codebase",
        "I prefer not to say",
        "I work on this file in VS Code",
        "don't commit yet",
        "for this one commit you can skip the changelog",
        "if we were google id say sure",
        "the tests are green now",
        "TypeError: unsupported operand",
        "the wifi password is sunflower99",
        "我住在公司算了",
        "这次不用写测试",
        "先别提交",
    ],
)
def test_talk_about_the_task_at_hand_is_not_kept(said: str) -> None:
    assert facts(said) == []


@pytest.mark.parametrize(
    ("said", "reason", "scope"),
    [
        (
            "Don't mock the database in these tests. We got burned when a migration failed.",
            "We got burned when a migration failed.",
            "",
        ),
        ("no macros please, because hospital IT blocks them", "because hospital IT blocks them", ""),
        ("测试里别 mock 数据库，因为上次迁移挂了", "因为上次迁移挂了", ""),
        (
            "no abbreviations in letters to parents. this goes for all letters",
            "",
            "this goes for all letters",
        ),
    ],
)
def test_a_rule_has_the_reason_and_the_scope_that_were_said_with_it(
    said: str, reason: str, scope: str
) -> None:
    (fact,) = facts(said)
    assert (fact.kind, fact.reason, fact.scope) == ("feedback", reason, scope)
    assert fact.body.count("**Why:**") == bool(reason)
    assert fact.body.count("**How to apply:**") == bool(scope)


@pytest.mark.parametrize(
    ("said", "title", "file"),
    [
        ("NO mocks for the db, we had an outage", "NO mocks for the db", "feedback no mocks db"),
        ("please never force push to main", "Never force push to main", "feedback no force push main"),
        ("we release on Thursdays", "We release on Thursdays", "project release thursdays"),
        ("缺陷都记在 Linear 里，别去 Jira 找", "缺陷都记在 Linear 里", "reference 缺陷都记在linear里"),
    ],
)  # fmt: skip
def test_titles_and_file_names_say_the_kind_and_the_subject_in_whole_words(
    said: str, title: str, file: str
) -> None:
    (fact,) = facts(said)
    assert (fact.title, file_title(fact.kind, fact.title).lower()) == (title, file.lower())


def test_a_description_adds_to_the_title() -> None:
    (fact,) = facts("we can't upgrade to Node 22, the payment sdk pins version 20")
    assert fact.description == "the payment sdk pins version 20"


def test_a_date_that_stays_relative_carries_the_day_it_was_said() -> None:
    (fact,) = facts("The deadline for the beta is next Friday")
    assert fact.text == "The deadline for the beta is next Friday (said 2024-05-02)"


@pytest.mark.parametrize(
    ("said", "negates", "text"),
    [
        ("Forget what I said about short answers, I want the details", "short answers", "I want the details"),
        ("please forget what I told you about tabs", "tabs", ""),
        ("forget everything I told you about the staging db", "the staging db", ""),
        ("never mind what I said about tabs", "tabs", ""),
        ("忘掉我之前说的关于缩进的事", "缩进", ""),
    ],
)
def test_a_request_to_forget_names_its_subject(said: str, negates: str, text: str) -> None:
    (fact,) = facts(said)
    assert (fact.negates, fact.text) == (negates, text)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("I always use pnpm, never npm. Remember that.", "I always use pnpm, never npm."),
        ("We use pnpm here, remember this", "We use pnpm here"),
        ("The door code is 4711. Please note that down", "The door code is 4711."),
        ("I'm in room 12. Keep that in mind for later.", "I'm in room 12."),
        ("Wir deployen nur dienstags. Merk dir das.", "Wir deployen nur dienstags."),
        ("我们用 pnpm，不用 npm。记住。", "我们用 pnpm，不用 npm。"),
        ("测试库叫 heron，记住了", "测试库叫 heron"),
        ("サーバーは heron です。覚えておいて。", "サーバーは heron です。"),
    ],
)
def test_a_request_to_remember_may_follow_what_is_to_be_remembered(said: str, text: str) -> None:
    assert [one.text for one in facts(said)] == [text]


@pytest.mark.parametrize(
    "said",
    [
        "Remember that.",
        "What is 2+2? Remember that.",
        "Fix the login test. Remember that.",
        "do you remember that?",
        "open the file, save it",
        "rename it, keep this",
        "add a helper, note that it must be pure",
        "please write it down in notes.md",
        "把这个函数改成异步，记住了吗",
    ],
)
def test_a_request_to_remember_saves_no_task_and_no_question(said: str) -> None:
    assert facts(said) == []


def test_a_day_with_month_and_year_is_written_as_every_other_date() -> None:
    (fact,) = facts("Remember: the wedding is on 22 may 2027, the party on May 29th, 2027.")
    assert fact.text == "the wedding is on 2027-05-22, the party on 2027-05-29."


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
        [UserQuote("r", at, "Remember that we decided today to stop the sale.")],
        zone=ZoneInfo("America/New_York"),
    )
    assert [(one.text, one.on) for one in told] == [
        ("we decided on 2023-12-31 to stop the sale.", date(2023, 12, 31))
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
        assert one.title or one.negates
        assert "\n" not in one.text
        if not relative_phrases(text):
            said = one_line(text)
            assert all(word in said for word in f"{one.text} {one.reason} {one.scope}".split())
