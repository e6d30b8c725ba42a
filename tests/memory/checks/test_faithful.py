"""Sentences that turn what was said: denied, exchanged, other quantities, half invented (E9, D6)."""

from __future__ import annotations

import pytest

from nacre.memory.checks.faithful import Sources
from nacre.memory.checks.statements import Statements, lost_sentences

MOCKS = "No, don't mock the database in these tests. We got burned when the mocked tests passed"
LIES = [
    ("The user does not like tabs.", "I like tabs"),
    ("The user likes tabs and never writes tests.", "I like tabs"),
    ("Deploys go out on Tuesdays without review.", "Deploys go out on Tuesdays"),
    ("Mock the database in tests.", MOCKS),
    ("The user prefers spaces over tabs.", "I prefer tabs over spaces."),
    ("Retry 3 times and wait 5 seconds.", "retry 5 times, wait 3 seconds"),
    ("The port is 6000.", "The port is 5432. There are 6000 users."),
    ("The pipeline moved from Actions to Jenkins.", "we moved the pipeline from Jenkins to Actions"),
    ("Deploy on Fridays.", "Never deploy on Fridays."),
    ("Deploy on Tuesdays.", "Deploy on Tuesdays unless there is a freeze."),
    ("Tests run after the build.", "Tests run before the build."),
    ("Deploy at least 3 replicas.", "deploy at most 3 replicas"),
    ("Priya owns billing and Tomas the pipeline.", "Priya owns the pipeline, Tomas the billing"),
    ("用户喜欢 mock 数据库", "不要 mock 数据库"),
    ("Weights are in cups instead of grams.", "put the weights in grams not cups"),
    ("Photos go online before the estate agrees.", "Photos must not go online before the estate agrees."),
    ("The user is not blind and works with NVDA.", "I'm blind. I use NVDA at work, no mouse."),
    ("The user does the ordering.", "Lotte does the ordering, I only step in when she is away"),
    ("The draft goes to Koch on Friday.", "The draft goes to Adeyemi on Friday. Koch is the second reader."),
    ("All of the students are dyslexic.", "2 of my students are dyslexic"),
    ("Staging is reset every Sunday morning.", "staging is reset every Sunday night"),
    ("The logs move to Loki.", "should we maybe move the logs to Loki?"),
    ("The user knows C++ and comes from Python.", "I have no idea about C++, I come from Python"),
    ("注释写英文，提交信息用中文。", "注释写中文就行，提交信息用英文"),
    ("小何负责排班，用户负责进货。", "小何负责进货，我负责排班"),
    ("参数可以直接改，不用过评审。", "参数不能直接改，要先过评审"),
    ("Dr. Amari accepts late work, Prof. Lind does not.", "Prof. Lind accepts late work, Dr. Amari does not"),
    (
        "The user answers the mails. Solveig answers the phone.",
        "Solveig answers the mails, I answer the phone",
    ),
    ("The wiki needs the VPN, Jira does not.", "the vpn is not needed for the wiki, only for jira"),
    ("The user touches app code.", "I do terraform, and no I dont touch the app code"),
    ("Passive voice is not banned in headings.", "our guide bans passive voice in headings"),
    (
        "Dynamic allocation after boot is a safety rule.",
        "no dynamic allocation after boot, that's a safety rule",
    ),
    ("There is a rehearsal on 2026-10-24.", "rehearsal isn't on 2026-10-24, the hall is taken"),
    ("The team uses Kafka for the events.", "we gave up on kafka for the events"),
    ("QA is online after 11.", "QA is offline after 11"),
    ("用户吃素，不吃鸡蛋。", "我吃素，鸡蛋可以"),
    ("小张没有离职。", "小张已经离职，报警发给我就行"),
    ("外卖不接 7 公里以外的单。", "外卖不接 3 公里以外的单，手下 7 个人"),
    ("The van goes to Leeds because the rail is full.", "the van goes to Leeds"),
    ("Das Lager ist in Kiel, weil Miete dort billig ist.", "Das Lager ist in Kiel"),
    ("The roof is mended by the council.", "the roof is mended"),
    ("Do not touch the boiler or the chimney without Hugo.", "dont touch the boiler without Hugo"),
    ("The tapes stay here and are deleted after a year.", "the tapes stay here"),
    ("The shop sells lamps that break often.", "the shop sells lamps"),
    ("仓库在苏州，由老赵看管。", "仓库在苏州"),
    ("仓库在苏州并且全天供暖。", "仓库在苏州"),
    ("The user writes poetry books for Insel.", "I write cook books for Insel"),
    (
        "The weekly dump goes to tape, the nightly one to disk.",
        "nightly dump goes to tape, weekly one to disk",
    ),
    (
        "Lamps go to Oslo between 8 and 6, otherwise to Bergen.",
        "lamps between 8 and 6 go to Bergen, otherwise Oslo",
    ),
    ("The user is on duty this week and Ines next week.", "Ines is on duty this week, I'm on duty next week"),
    ("The user checks the ropes before Hugo climbs.", "Hugo checks the ropes before I climb"),
    (
        "The tenants pay the heating; the landlord pays the water.",
        "the landlord pays the heating, we pay the water",
    ),
    ("The last inspection passed.", "the last inspection failed"),
    ("Use the sixth edition of the guide.", "use the seventh edition of the guide"),
    ("Fridays are for meetings.", "fridays are meeting free"),
    ("草稿保留 90 天，终稿保留 20 天。", "草稿保留 20 天，终稿保留 90 天"),
    ("先写总结，再写细节。", "先写细节，再写总结"),
]
TRUTHS = [
    (
        "The landlord pays the heating; the tenants pay the water.",
        "the landlord pays the heating, we pay the water",
    ),
    ("Mr. Hale signs off every order.", "Mr. Hale signs off every order before it goes out"),
    ("Fridays are without meetings.", "fridays are meeting free"),
    ("No emojis, because the legal department dislikes them.", "no emojis, legal hates them"),
    ("The user has ten years of experience with Java.", "10 yrs of java here"),
    ("预算减少了一半，要尽量节省。", "预算砍了一半，能省就省"),
    ("草稿保留 20 天，终稿保留 90 天。", "草稿保留 20 天，终稿 90 天"),
    ("先写细节，再写总结。", "先写细节再写总结"),
    ("Invoices are in euros, Swiss ones in francs.", "we write invoices in euros, the Swiss ones in francs"),
    ("The user prefers tabs.", "I like tabs"),
    ("Integration tests must hit a real database, not mocks.", MOCKS),
    ("**Why:** they got burned when mocked tests passed.", MOCKS),
    ("**How to apply:** use a real database when writing integration tests.", MOCKS),
    (
        "The user wants terse responses with no trailing summaries.",
        "stop summarizing at the end of every reply",
    ),
    ("The user has written Go for ten years.", "I've been writing Go for ten years"),
    (
        "The auth rewrite is driven by legal, not tech debt.",
        "we rip out the old auth because legal flagged it",
    ),
    ("One bundled PR is better than many small ones.", "the single bundled PR was the right call here"),
    ("集成测试不要 mock 数据库。", "这些测试别 mock 数据库，上季度吃过亏"),
    ("Use pnpm, not npm.", "we use pnpm here, never npm"),
    ("Weights are in grams, not cups.", "put the weights in grams not cups"),
    ("The user's supervisor is Prof. Adeyemi.", "my supervisor is Prof. Adeyemi, second reader Dr. Koch"),
    ("The jobs moved to Temporal.", "I moved the jobs to Temporal, only the export is still on the VM"),
    ("The user drinks tea, not coffee.", "I don't drink coffee, only tea"),
    ("Jira needs the VPN, the wiki does not.", "the vpn is not needed for the wiki, only for jira"),
    ("The user does not touch app code.", "I do terraform, and no I dont touch the app code"),
    ("No dynamic allocation after boot is a safety rule.", "no dynamic allocation after boot, a safety rule"),
    ("用户特别喜欢短回答。", "我特别喜欢短回答"),
    ("Ruth does the exhibitions, the user the database.", "I do the database and Ruth the exhibitions"),
    ("Beat Magnus in 41 moves at src/board.py.", "I beat Magnus in 41 moves, it is in src/board.py"),
]


@pytest.mark.parametrize(("new", "said"), LIES)
def test_a_sentence_that_turns_what_was_said_is_found(new: str, said: str) -> None:
    assert Sources([said]).altered(new)


@pytest.mark.parametrize(("new", "said"), TRUTHS)
def test_other_words_for_the_same_are_fine(new: str, said: str) -> None:
    assert Sources([said]).altered(new) == []


def test_what_the_person_corrects_may_differ_from_the_text_before() -> None:
    old = "The staging database is heron-4411, on port 5433."
    new = "The staging database is osprey-12, on port 5433."
    said = "The staging database moved. It is osprey-12 now."
    assert Sources([said], old=[old]).altered(new) == []
    assert Sources(["Fine, go on."], old=[old]).altered(new)
    assert Sources([said], old=[old]).altered("The staging database is not heron-4411, on port 5433.")


def test_messages_of_the_person_may_stand_in_one_sentence() -> None:
    said = ["Ines does the ordering", "I only pay", "never on Fridays"]
    assert Sources(said).altered("Ines does the ordering I only pay never on Fridays") == []
    assert Sources(said).altered("Ines never does the ordering")


def test_the_words_of_others_do_not_count_against_those_of_the_person() -> None:
    sources = Sources(["I like tabs."], others=["You do not like tabs, I see."])
    assert sources.altered("The user avoids tabs.")
    assert (
        Sources(["Look at it."], others=["The build takes four minutes."]).altered("The build takes minutes.")
        == []
    )


def test_where_hardly_anything_may_be_added_an_adjunct_is_too_much() -> None:
    said = ["Deploys go out on Tuesdays through the pipeline."]
    new = "Deploys go out on Tuesdays through the pipeline from a laptop."
    assert Sources(said).altered(new, new_words="few")
    assert Sources(said).altered("On Tuesdays deploys go out through the pipeline.", new_words="few") == []


def test_a_sentence_is_lost_if_no_present_one_has_half_of_its_words() -> None:
    now = Statements(["Rebase onto main before each merge.", "Ask Dana about reviews."])
    assert lost_sentences("Always rebase before merging.\nKeep commits small.", now=now) == [
        "Keep commits small."
    ]
