"""A memory says no more than one sentence of the person did: no reason, number, name, scope or day (E9)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.checks.additions import SourceSentences

AT = datetime(2026, 4, 1, 12, tzinfo=UTC)
HALVES = [
    ("Farid rewrote the importer in Rust for speed.", ["Farid rewrote the importer in Rust"]),
    ("Farid rewrote the importer in Rust in May.", ["Farid rewrote the importer in Rust"]),
    ("Leads from fairs count double because they convert well.", ["leads from fairs count double"]),
    ("The importer is slow because it is old.", ["the importer is slow"]),
    ("The API returns 429 after 50 calls per minute.", ["our api returns 429 after 50 calls"]),
    ("The hall closes for 3 weeks.", ["the hall closes", "we have 3 ovens"]),
    ("Tags are set by Beatriz.", ["tags are set", "Beatriz has the token"]),
    (
        "Buckets need a tag, which Gia checks.",
        ["buckets need a tag", "Gia reviews all changes, she edits them"],
    ),
    (
        "Do not touch the folder without asking the user or Farid.",
        ["dont touch it without asking me", "Farid left"],
    ),
    ("Stig and the user handle the bank.", ["Stig handles the bank"]),
    ("The folder and the gateway are Lucia's.", ["the folder is Lucia's", "the gateway in the barn is slow"]),
    ("Gateways in the barn and the silo are slow.", ["the gateway in the barn is slow"]),
    ("All bread orders come in by noon.", ["sourdough orders come in by noon", "one oven is always broken"]),
    ("Volunteers are retired teachers.", ["our volunteers are retired"]),
    (
        "The older one is slightly dyslexic; use short sentences.",
        ["the older one is dyslexic, use short sentences"],
    ),
    ("Dashboards are in UTC by default.", ["dashboards in UTC, always"]),
    ("The user may be allergic to nuts.", ["im allergic to nuts", "we can't take cash"]),
    ("Flyers can be in Swedish.", ["flyers have to be in swedish", "we can't take cash"]),
    ("The client in Graz must pay in 60 days.", ["the client in Graz pays in 60 days"]),
    ("Plans should preferably stay under 40 minutes.", ["keep the plans under 40 minutes"]),
    ("The user tries to call on Sundays.", ["I call on sundays"]),
    ("Deployt wird möglichst vormittags.", ["Deployt wird vormittags"]),
    ("Die Kasse führt Hedwig, weil sie Buchhalterin war.", ["die Kasse führt Hedwig"]),
    ("Der Verein hat 40 Mitglieder und 12 Kinder.", ["der Verein hat 40 Mitglieder", "12 Kinder sind krank"]),
    ("日志和备份保留 30 天。", ["日志保留 30 天"]),
    ("SQL 关键字尽量大写。", ["SQL 关键字大写"]),
    ("公司用飞书，因为飞书便宜。", ["公司用飞书，不用钉钉"]),
    ("按合规要求，日志保留 30 天。", ["日志保留 30 天"]),
]
TRUTHS = [
    ("Keep PRs tiny because the user reads them on the phone.", ["I read PRs on my phone so keep them tiny"]),
    ("Push notifications are sent at most once a day.", ["push notifications at most once a day"]),
    ("The schema is frozen on 2026-04-30.", ["we freeze the schema on the last day of april"]),
    (
        "The choir sings a cappella only, no piano.",
        ["the choir is in the hall", "we sing a cappella only, no piano"],
    ),
    ("It has been down since 2026-03-31.", ["it has been down since 2026-03-31"]),
    ("Priya reviews it. It is due on Friday.", ["Priya reviews it, its due on friday"]),
    ("**Why:** the Brother jams.", ["use the Ricoh, the Brother jams"]),
    ("**How to apply:** ask before each upload.", ["uploads cost money"]),
    ("**Since 2026-04-01:** we deploy on Tuesdays", ["we deploy on tuesdays"]),
    ("**Superseded 2026-04-01:** we deploy on Tuesdays", ["we deploy on tuesdays"]),
    ("**Said earlier:** we deploy on Tuesdays", ["we deploy on tuesdays"]),
    ("The user wants metric units only.", ["metric units only"]),
    ("The corpus is in gs://parquet-fuzz/corpus.", ["the corpus is in gs://parquet-fuzz/corpus"]),
    ("The user is lactose intolerant, but butter is fine.", ["i'm lactose intolerant but butter is ok"]),
    ("Im Keller werden Lieferscheine ausgedruckt.", ["im Keller drucken wir Lieferscheine aus"]),
    ("用户对花生过敏，芝麻没问题。", ["我对花生过敏，芝麻没事"]),
    ("tags are set Beatriz has the token", ["tags are set", "we have 3 ovens", "Beatriz has the token"]),
    ("Reviews are needed. Otherwise they break.", ["reviews are needed. otherwise they break"]),
]


@pytest.mark.parametrize(("new", "said"), HALVES)
def test_what_nobody_said_beside_the_rest_is_found(new: str, said: list[str]) -> None:
    assert SourceSentences(said, at=AT).additions(new)


@pytest.mark.parametrize(("new", "said"), TRUTHS)
def test_other_words_for_one_sentence_add_nothing(new: str, said: list[str]) -> None:
    assert SourceSentences(said, at=AT).additions(new) == []


@given(st.lists(st.text(max_size=80), min_size=1, max_size=4))
def test_a_text_adds_nothing_to_itself(said: list[str]) -> None:
    sources = SourceSentences(said)
    assert [added for one in said for added in sources.additions(one)] == []
