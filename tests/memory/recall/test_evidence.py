"""Cited and contradicted, as far as words alone can tell; when they cannot, the answer is no."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.format.entry import Entry
from nacre.memory.recall import recall
from nacre.memory.recall.base import AttachedMemory, RankedMemory
from nacre.memory.recall.usage import is_cited, is_contradicted
from nacre.store.history import Commit

BODY = (
    "The staging database runs on port 54329 behind the pg_bouncer pool. "
    "Never restart it before the nightly export has finished."
)
ASKED = "How do I reach the staging database?"
ATTACHED = datetime(2026, 3, 1, 12, 0, 0, 700_000, tzinfo=UTC)


def pick(
    body: str = BODY,
    *,
    file: str = "infra/staging_db.md",
    name: str = "Staging database",
    description: str = "where staging runs",
) -> AttachedMemory:
    entry = Entry(file=file, name=name, description=description)
    ranked = RankedMemory(entry=entry, directory=Path("/m"), score=1.0, confidence=1.0)
    return AttachedMemory(ranked=ranked, text=body, age_days=3, bytes=len(body))


@pytest.mark.parametrize(
    "reply",
    [
        "It listens on 54329.",
        "Use `pg_bouncer` for that.",
        "As staging_db.md says, not now.",
        "Please do not: never restart it before the nightly export is done.",
        "(Never restart it, before **the nightly**…)",
    ],
)
def test_a_reply_that_can_only_have_it_from_the_memory_cites_it(reply: str) -> None:
    assert is_cited(pick(), reply, [ASKED])


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I do not know how to reach it.",
        "You asked how to reach the staging database; ask your admin.",
        "Restart the pool before the export.",
        "On port 5432, and/or by hand.",
        "Behind the pool of the runs of the day.",
        "See my_staging_db.md or staging_db.md.bak.",
    ],
)
def test_a_reply_in_words_of_its_own_does_not(reply: str) -> None:
    assert not is_cited(pick(), reply, [ASKED])


def test_what_something_else_said_too_is_no_evidence() -> None:
    """Not the memory's when the person's words, a tool's result or another memory has it."""
    replies = ["It listens on 54329.", "See staging_db.md.", "never restart it before the nightly export"]
    context = [
        ASKED,
        "grep: port = 54329",
        "I read Staging_db.md",
        "NEVER restart it before the nightly run: export",
    ]
    assert [is_cited(pick(), reply, context) for reply in replies] == [False, False, True]
    assert not is_cited(pick(), replies[2], ["Never restart it before the nightly export."])


def test_its_title_counts_in_full_unless_somebody_said_it() -> None:
    one = pick("Monday.", name="Deploy day")
    assert is_cited(one, "That is the deploy-day rule.", ["when do we ship?"])
    assert not is_cited(one, "That is the deploy day.", ["when is deploy day?"])
    assert not is_cited(one, "We deploy every day.", ["when do we ship?"])
    assert not is_cited(pick("Green.", name="Tea"), "Tea is fine.", ["what to drink?"])


def test_common_words_years_and_round_numbers_are_anybodys() -> None:
    one = pick("It is what it is and that is how it is. In 2024 there were 5000 of them, 12 too.")
    assert not is_cited(one, "It is what it is and that is how it is; 2024, 5000, 12.", [ASKED])


def test_what_is_said_about_every_memory_is_not_its_own_words(tmp_path: Path) -> None:
    """R8: the header, the caution, the note that it was cut."""
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra/staging_db.md").write_text("The parser has 77331 lines.\n" * 500)
    ranked = replace(pick().ranked, directory=tmp_path, superseded_by="newer_one.md")
    attached = recall.attach(ranked, datetime(2036, 1, 1, tzinfo=UTC))
    assert attached is not None
    frame = [line for line in attached.text.splitlines() if "77331" not in line]
    assert len(frame) >= 4
    said = "\n".join(frame).replace("staging_db.md", "it")
    assert not is_cited(attached, said, [ASKED])
    assert is_cited(attached, f"{said} 77331", [ASKED])


def test_scripts_without_spaces_are_compared_sign_by_sign() -> None:
    """R11."""
    one = pick("发布总是在每个星期一的站会之后进行，由值班的人负责。", name="发布", file="release.md")
    assert is_cited(one, "记得：发布总是在每个星期一的站会之后进行。", ["什么时候发布？"])
    assert not is_cited(one, "发布在星期一。", ["什么时候发布？"])


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_reply_never_cites_what_the_context_says_too(body: str, more: str) -> None:
    assert not is_cited(pick(body), f"{body} {more}", [f"{body} {more}", "Staging database staging_db.md"])


def change(**more: object) -> Commit:
    known: dict[str, object] = {
        "id": "c" * 40, "author": "agent", "reason": "correct", "session": "s",
        "at": ATTACHED.replace(microsecond=0), "files": ("MEMORY.md", "infra/staging_db.md"),
    }  # fmt: skip
    return Commit(**{**known, **more})  # type: ignore[arg-type]


def test_what_the_session_replaced_or_forgot_after_attaching_it_was_contradicted() -> None:
    one = pick()

    def is_wrong(*commits: Commit) -> bool:
        return is_contradicted(one, attached=ATTACHED, session="s", commits=commits)

    assert is_wrong(change())
    assert is_wrong(change(session="other"), change(at=ATTACHED + timedelta(hours=1), reason="forget"))
    assert not is_wrong()
    assert not is_wrong(change(session="other"))
    assert not is_wrong(change(at=ATTACHED - timedelta(seconds=2)))
    assert not is_wrong(change(files=("MEMORY.md", "staging_db.md")))
    assert not is_contradicted(one, attached=ATTACHED, session="", commits=[change(session="")])


@pytest.mark.parametrize(
    "message",
    [
        "No, the staging database moved last week.",
        "no - staging is on another port now",
        "That's wrong: nobody needs pg_bouncer for the nightly export.",
        "That is no longer true, the database runs elsewhere.",
        "Das stimmt nicht, der Port von staging ist ein anderer.",
        "Not anymore! Staging is gone.",
    ],
)
def test_a_message_that_begins_by_taking_it_back_contradicts_it(message: str) -> None:
    assert is_contradicted(pick(), attached=ATTACHED, session="s", next_message=message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "No problem, restart the staging database.",
        "No idea where the staging database is.",
        "Thanks. No, wait, the staging database moved.",
        "No, use tabs.",
        "Wrong indentation in the test.",
        "Is that right? The staging database is on port 1?",
        "That is right, the staging database is there.",
        "That is not what I meant with the staging database.",
    ],
)
def test_a_message_that_merely_says_no_or_is_about_something_else_does_not(message: str) -> None:
    assert not is_contradicted(pick(), attached=ATTACHED, session="s", next_message=message)


def test_a_correction_in_chinese_or_japanese_is_one_too() -> None:
    """R11."""
    one = pick("发布在星期一进行。", name="发布日", description="什么时候发布")
    assert is_contradicted(one, attached=ATTACHED, session="s", next_message="不对，发布在星期二。")
    assert not is_contradicted(one, attached=ATTACHED, session="s", next_message="不错，发布在星期一。")
    other = replace(one, ranked=replace(one.ranked, entry=Entry(file="x.md", name="締め切り")))
    assert is_contradicted(other, attached=ATTACHED, session="s", next_message="いいえ、締め切りは金曜です。")
