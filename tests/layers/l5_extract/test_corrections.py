"""Chats in which a later message corrects an earlier one: no memory keeps only the old value (E10, M14c)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nacre.layers.l5_extract.by_rule import StatedFact, stated_facts
from nacre.layers.l5_extract.changes import changed_statement, with_new_values
from nacre.layers.l5_extract.extract import changes_by_rule, save_changes
from nacre.layers.l5_extract.judge import Judge, NewMessages
from nacre.memory.format.entry import Entry
from nacre.memory.memory import Memory
from nacre.messages.facts import UserQuote
from nacre.testing import FrozenClock
from tests.layers.l5_extract.test_extract import BY_USER

FOLDER = Path(__file__).parents[3] / "bench" / "extract"
AT = datetime(2026, 11, 18, 12, tzinfo=UTC)
"""A Wednesday."""
NOT_FOUND = {
    "well actually these days I take it with oat milk",
    "actually I go by Samantha at work, call me Samantha",
    "她上周过生日了，现在6岁",
    "I won't do Berlin any more, it's Valencia in december",
    "Rex ist gestern 4 geworden",
    "ah the sign is wrong, weekdays it's half 7 from this month, not 6",
    "the prefix was renamed to BILL- when we reorganised, so use that",
    "beim Küchenbudget hab ich mich verrechnet, es sind 11000",
    "DBA 上周把库升级成 8.0 了",
    "上周又捡了一只，现在是三只猫了",
    "阿强这个月去别的项目了，测试找小美",
    "Bhavna's last day was friday. QA lead: Stellan",
    "we also ship to the UK from next week",
    "I was told the museum closes at 5 in winter",
    "they gave me another extension, 4478",
    "payday moves to the last working day, HR just wrote",
    "swimming is thursdays this term",
    "nimm 100 g, 80 g wellt sich",
    "der Urlaub musste verschoben werden, 17. bis 24. August",
    "公司统一换飞书了",
    "我们搬家了，新家在十二楼",
    "医生把药减到一片了",
    "imperial units are fine actually, my readers are american",
    "queue is kafka these days, rabbit died in the migration",
    "doc told me to stop the fasting, regular meals from now on",
    "accounting wants invoices out on the 1st instead",
    "we're moving off bootstrap, tailwind for all new pages",
    "I transferred to the Warsaw office on monday",
    "change of plan, they're getting married in Naxos",
    "we went back to a live standup at 9:45",
    "Meyer Holz hat dichtgemacht, wir kaufen bei Sägewerk Lang",
}
"""Last messages that are not recognised as corrections yet; the check refuses the text of some."""
TAKEN_FOR_CORRECTIONS = {
    "Lena left a comment on my PR",
    "that line is wrong, there are 3 tabs, not 2",
    "Dana changed the headline, now it's 9 words",
    "this PR has been open for 3 days now",
    "the new heating was installed, the landlord paid",
    "am Donnerstag war ich krank",
    "the build died after 3 minutes now, any idea",
    "the new boiler was fitted, the landlady was there",
    "this ticket has been open for 5 days now",
    "that heading is wrong, it has 9 words, not 6",
}
"""Last messages that correct nothing and are taken for a correction; the old text stays below, marked."""


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def params(name: str, missed: Collection[str]) -> list[Any]:
    """Return the rows of a file; those that are decided wrongly are expected to fail."""
    mark = pytest.mark.xfail(reason="not recognised", strict=True)
    return [
        pytest.param(row, marks=[mark] if row["said"][-1] in missed else [], id=row["said"][-1])
        for row in rows(name)
    ]


async def bodies_after(said: Sequence[str], tmp_path: Path, clock: FrozenClock) -> list[list[str]]:
    """Return the memories after each message; the first one is kept, whatever the classifier says of it."""
    found: list[list[str]] = []
    await memory_after(said, tmp_path, clock, bodies=found)
    return found


async def memory_after(
    said: Sequence[str], tmp_path: Path, clock: FrozenClock, *, bodies: list[list[str]] | None = None
) -> Memory:
    (tmp_path / "project").mkdir()
    memory = await Memory.open(
        tmp_path / "project", environ={"NACRE_HOME": str(tmp_path / "home")}, clock=clock
    )
    for number, message in enumerate(said):
        words = [UserQuote(f"m{number}", AT + timedelta(minutes=number), message)]
        judge = Judge(messages=NewMessages(quotes=words), session="s", now=AT, zone=UTC, origins=BY_USER)
        facts = stated_facts(words, zone=UTC)
        if number == 0 and all(one.is_weak for one in facts):
            facts = [StatedFact(text=message, kind="project", title=message, sources=("m0",), said=AT.date())]
        new = await changes_by_rule(memory, facts, judge, session="s")
        await save_changes(new.changes, removed=new.removed, mode="auto", session="s")
        if bodies is not None:
            bodies.append([one.body for one in await memory.list()])
    return memory


def has(text: str, values: Sequence[str]) -> bool:
    return any(one.casefold() in text.casefold() for one in values)


@pytest.mark.parametrize(
    "row", [*params("corrections.jsonl", NOT_FOUND), *params("corrections_fresh.jsonl", NOT_FOUND)]
)
async def test_what_was_corrected_is_not_told_without_its_successor(
    row: dict[str, list[str]], tmp_path: Path, clock: FrozenClock
) -> None:
    """What a memory says first holds now; a former value may follow, with a mark."""
    after = (await bodies_after(row["said"], tmp_path, clock))[-1]
    now = [one.partition("\n\n**")[0] for one in after]
    assert not [one for one in now if has(one, row["old"]) and not has(one, row["new"])]
    assert any(has(one, row["new"]) for one in now), after


@pytest.mark.parametrize(
    "row",
    [
        *params("not_corrections.jsonl", TAKEN_FOR_CORRECTIONS),
        *params("not_corrections_fresh.jsonl", TAKEN_FOR_CORRECTIONS),
    ],
)
async def test_what_corrects_nothing_changes_no_memory(
    row: dict[str, list[str]], tmp_path: Path, clock: FrozenClock
) -> None:
    first, *_, last = await bodies_after(row["said"], tmp_path, clock)
    assert set(first) <= set(last)


async def test_a_value_may_change_twice(tmp_path: Path, clock: FrozenClock) -> None:
    said = [
        "the demo is for the Siemens people",
        "the demo got moved to Bosch people",
        "the demo is for ABB people now",
    ]
    (after,) = (await bodies_after(said, tmp_path, clock))[-1:]
    assert [one for one in after if "ABB" in one] == after


def statement(text: str, *, session: str = "s") -> Entry:
    return Entry(file=f"{text[:9]}.md", name=text, body=text, sources=(session,))


@pytest.mark.parametrize(
    ("change", "old", "other"),
    [
        ("make that friday at 3", "the retro is on thursday at 3", "my name is Ada"),
        ("not 4, it is 6 interns", "4 interns come", "Lena owns billing"),
        ("mein Chef ist jetzt Herr Vogt", "meine Chefin ist Frau Adler", "das Büro ist in Bonn"),
        ("截止日期改到 12 月 3 号", "截止日期是 12 月 10 号", "注释用英文"),
    ],
)
def test_the_statement_that_a_change_is_about_is_found_among_others(
    change: str, old: str, other: str
) -> None:
    statements = [statement(other), statement(old)]
    found = changed_statement(change, statements, session="s")
    assert found is not None
    assert found.body == old


def test_of_two_statements_with_as_much_in_common_neither_is_changed() -> None:
    both = [statement("Dana owns the printer contact"), statement("Dana owns the billing service")]
    assert changed_statement("Dana left", both, session="s") is None


def test_a_correction_without_a_subject_changes_nothing_of_other_sessions() -> None:
    older = [statement("the retro is on thursday at 3", session="other")]
    assert changed_statement("make that friday at 3", older, session="s") is None


@pytest.mark.parametrize(
    ("old", "change", "new"),
    [
        (
            "Die Abgabe ist am 30. November",
            "Abgabe wurde auf den 7. Dezember verschoben",
            "Die Abgabe ist am 7. Dezember",
        ),
        ("the trip is on march 3", "the trip got moved to march 9", "the trip is on march 9"),
        ("Ich arbeite bei Siemens", "ich bin jetzt bei Bosch", "Ich arbeite bei Bosch"),
        ("I'm running the Berlin race", "it's Valencia", "I'm running the Valencia race"),
        (
            "Wir nutzen Jenkins für alles",
            "wir sind von Jenkins auf GitLab CI umgestiegen",
            "Wir nutzen GitLab CI für alles",
        ),
        (
            "I sit on the data floor",
            "I moved from the data floor to the sales floor",
            "I sit on the sales floor",
        ),
        ("my sister Nele is 30", "it's my cousin Nele, not my sister", "my cousin Nele is 30"),
        ("movers at 8am, same day", "oh movers rang its 7am not 8", "movers at 7am, same day"),
        ("25 people at 40 euros", "my boss says it's 45 not 40", "25 people at 45 euros"),
        ("签合同在2026-11-20之前", "签合同要改 (said 2026-11-18)", ""),
        ("night shift is Mon to Wed", "my night shifts are Thu to Sat now", ""),
        ("我对花生过敏", "不是花生，是对腰果过敏", "我对腰果过敏"),
        ("团建定在杭州", "团建不去杭州了，改去苏州", "团建定在苏州"),
        ("we use tabs", "please be brief", ""),
    ],
)
def test_a_named_value_takes_the_place_of_the_old_one(old: str, change: str, new: str) -> None:
    assert with_new_values(old, change) == new


@pytest.mark.parametrize(
    ("said", "body", "line"),
    [
        (
            ["the code freeze is november 24", "hm they pushed the freeze to december 1"],
            "the code freeze is 2026-12-01\n\n"
            "**Since 2026-11-18:** hm they pushed the freeze to 2026-12-01\n",
            "the code freeze is 2026-12-01",
        ),
        (
            ["the demo is for the Siemens people", "I misspoke, the demo is for the Bosch people"],
            "I misspoke, the demo is for the Bosch people\n",
            "the demo is for the Bosch people",
        ),
        (
            ["I prefer tabs for indentation", "scratch that, use spaces for indentation"],
            "use spaces for indentation\n\n**Superseded 2026-11-18:** I prefer tabs for indentation\n",
            "use spaces for indentation",
        ),
    ],
)
async def test_a_corrected_memory_says_what_holds_now_in_its_description_too(
    said: list[str], body: str, line: str, tmp_path: Path, clock: FrozenClock
) -> None:
    assert (await bodies_after(said, tmp_path, clock))[-1] == [body]
    (file,) = (one for one in (tmp_path / "home").rglob("*.md") if one.name != "MEMORY.md")
    assert f"description: {line}\n" in file.read_text(encoding="utf-8").replace('"', "")


async def test_a_file_that_is_named_by_its_old_value_gets_another_name(
    tmp_path: Path, clock: FrozenClock
) -> None:
    """The name of a file is read, too: in the index and in the list of memories."""
    said = ["we deploy on thursdays, and Lena owns billing", "actually deploys moved to tuesdays"]
    memory = await memory_after(said, tmp_path, clock)
    (entry,) = await memory.list()
    assert "tuesdays" in entry.file
    assert entry.body.startswith("we deploy on tuesdays, and Lena owns billing")
    assert "thursday" not in (memory.location.directory / "MEMORY.md").read_text(encoding="utf-8")


async def test_a_superseded_sentence_does_not_show_the_value_that_was_replaced(
    tmp_path: Path, clock: FrozenClock
) -> None:
    said = ["the interns start on june 1 and there will be 4 of them", "HR says 6 interns, not 4"]
    (body,) = (await bodies_after(said, tmp_path, clock))[-1]
    assert "6 interns" in body
    assert "2027-06-01" in body
    assert "4 of them" not in body


async def test_a_vague_report_changes_no_value_of_what_was_said(tmp_path: Path, clock: FrozenClock) -> None:
    said = ["the build takes 12 minutes", "the build died after 3 minutes now, any idea"]
    (body,) = (await bodies_after(said, tmp_path, clock))[-1]
    assert "the build takes 12 minutes" in body


async def test_what_only_shares_words_with_a_statement_does_not_replace_it(
    tmp_path: Path, clock: FrozenClock
) -> None:
    said = ["我在师范大学教教育统计，R 用了十来年", "材料都在坚果云「2026秋-教育统计」文件夹。"]
    assert len((await bodies_after(said, tmp_path, clock))[-1]) == 2
