"""Which notes are attached to everyday messages, and which messages need none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.recall.everyday.people import NOW, Person, own_people
from bench.recall.everyday.train import PACKAGE, stemmed_concepts
from nacre.memory.recall.base import RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.ranking.need import need
from nacre.memory.recall.ranking.notes import (
    FEATURES,
    NEEDED_FROM,
    REACHED,
    NoteSet,
    _Question,
    read_notes,
    score_notes,
    segment_needs,
    segments,
)
from nacre.memory.recall.ranking.related import CONCEPT, SAME, related
from nacre.memory.recall.ranking.terms import terms
from nacre.memory.recall.recall import CUT_OFF, recall

QUESTION = "How do I deploy to staging?"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> LocalIndex:
    """The memories of a frontend developer, and one that answers the question."""
    folder = tmp_path_factory.mktemp("notes")
    directory = folder / "memory"
    directory.mkdir()
    person = next(one for one in own_people() if one.name == "jonas")
    person.write(directory)
    head = "name: Staging deploys\ndescription: Deploy to staging with make stage\ntype: project"
    (directory / "staging.md").write_text(f"---\n{head}\n---\n\nRun it.\n")
    found = LocalIndex(directory, folder)
    found.refresh()
    return found


def files(index: LocalIndex, text: str) -> list[str]:
    found = recall(RecallQuery(text=text, now=NOW), [index])
    return [one.ranked.entry.file for one in found.picks]


@pytest.mark.parametrize(
    "text",
    [
        QUESTION,
        f"I finished the parser this morning, and the sample files run through. {QUESTION}",
        f"Thanks, that worked. {QUESTION} After that we can call it a day.",
        f'Traceback (most recent call last):\n  File "run.py", line 4, in main\nValueError: 3\n\n{QUESTION}',
    ],
)
def test_text_around_a_question_does_not_hide_its_answer(index: LocalIndex, text: str) -> None:
    """R2: each sentence asks for itself."""
    assert files(index, text)[0] == "staging.md"


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("which text do I write on the button, and in which languages", "feedback_translations_by_key.md"),
    ],
)
def test_a_memory_in_other_words_is_found(index: LocalIndex, text: str, file: str) -> None:
    """R9: languages are English and German, and what is installed is a package."""
    assert file in files(index, text)


def test_a_memory_in_other_words_is_found_by_its_vector(index: LocalIndex) -> None:
    """R9: what is installed is a package."""
    pytest.importorskip("numpy")
    index.refresh()
    index.deepen(seconds=math.inf)
    assert files(index, "can I install lodash for this") == ["feedback_ask_before_adding_a_package.md"]


OUTDATED_FIRST = {"ship it", "shake the tile when it cant move"}
"""Known misses: "Releases twice a week" and "Continuous deployment" share too little, and "DOTween for
animation" and "PrimeTween, not coroutines"."""


def _write(directory: Path, *notes: tuple[str, str, str, str, str]) -> None:
    directory.mkdir(exist_ok=True)
    for file, day, kind, name, what in notes:
        head = f"name: {name}\ndescription: {what}\ntype: {kind}\nmodified: {day}"
        (directory / file).write_text(f"---\n{head}\n---\n\nBy mail.\n")


def test_a_question_prefers_what_it_asks_for_and_a_task_the_rule(tmp_path: Path) -> None:
    """R9: a place is in a reference, a time has a date, and a rule applies to a task."""
    directory = tmp_path / "memory"
    _write(
        directory,
        ("place.md", "2026-03-01", "reference", "Invoices", "Invoices are in the folder Ledger"),
        ("time.md", "2026-03-01", "project", "Invoices", "Invoices are due on 2026-12-05"),
        ("rule.md", "2026-03-01", "feedback", "Invoices", "Invoices have short lines"),
    )
    index = LocalIndex(directory, tmp_path)
    for text, file in (
        ("where are the invoices", "place.md"),
        ("when are the invoices due", "time.md"),
        ("write the invoices", "rule.md"),
    ):
        assert index.rank(RecallQuery(text=text, now=NOW), limit=5)[0].entry.file == file


def test_chinese_words_that_share_a_character_are_related(tmp_path: Path) -> None:
    """R11: 照片 and 图片 share no pair of characters."""
    directory = tmp_path / "memory"
    _write(
        directory,
        ("a.md", "2026-03-01", "reference", "图片库", "图片在网盘"),
        ("b.md", "2026-03-01", "project", "预算", "广告预算还剩八万"),
    )
    found = LocalIndex(directory, tmp_path).rank(RecallQuery(text="秋天的照片", now=NOW), limit=5)
    assert [one.entry.file for one in found] == ["a.md"]


def test_a_changed_note_is_compared_as_it_is_now(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    _write(directory, ("a.md", "2026-03-01", "project", "Parser", "The parser is written in Rust"))
    index = LocalIndex(directory, tmp_path)
    query = RecallQuery(text="where do the backups of the orca cluster go", now=NOW)
    assert [one for one in index.rank(query, limit=5) if one.confidence >= CUT_OFF] == []
    _write(
        directory,
        ("a.md", "2026-03-01", "reference", "Orca backups", "Backups of the orca cluster go to Oslo"),
    )
    index.refresh()
    assert index.rank(query, limit=5)[0].confidence >= CUT_OFF


@pytest.mark.parametrize(
    "text",
    [
        "what does the satisfies operator do in typescript",
        "why does React render twice in strict mode",
        "thanks, that worked",
        "go on",
        "what's 18% of 2450",
        "explain how source maps work",
    ],
)
def test_a_message_that_needs_no_memory_gets_none(index: LocalIndex, text: str) -> None:
    """R10: shared words alone attach nothing."""
    assert files(index, text) == []


def test_places_are_not_filled_because_one_memory_is_certain(index: LocalIndex) -> None:
    """R10: confidence belongs to a memory, not to a message."""
    found = index.rank(RecallQuery(text=QUESTION, now=NOW), limit=50)
    assert found[0].confidence >= CUT_OFF
    assert sum(one.confidence >= CUT_OFF for one in found) <= 2


def test_an_empty_and_an_unrelated_store_attach_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "memory"
    directory.mkdir()
    empty = LocalIndex(directory, tmp_path)
    assert files(empty, QUESTION) == []
    (directory / "tea.md").write_text(
        "---\nname: Tea\ndescription: Anna drinks green tea\ntype: user\n---\n\nGreen.\n"
    )
    assert files(LocalIndex(directory, tmp_path), QUESTION) == []


def test_words_of_one_concept_are_related_across_languages() -> None:
    assert related("deploy")["deploy"].kind == SAME
    assert related("deploy")["releas"].kind == CONCEPT
    assert related("部署")["deploy"].kind == CONCEPT


def test_questions_about_the_world_need_no_memory_and_tasks_do() -> None:
    assert need("what is a bloom filter") < 0 < need("add a test for the import")
    assert need("什么是闭包") < 0 < need("这个需求什么时候要交")


@pytest.mark.parametrize(
    "text",
    [
        "can you tell me in plain words how a bloom filter decides that an element is surely not in a set",
        "what is the difference between a monad and an ordinary function that returns a list in haskell",
    ],
)
def test_a_long_question_about_the_world_needs_no_memory_either(text: str) -> None:
    assert max(segment_needs(text).values()) < NEEDED_FROM


def test_a_similar_vector_makes_a_note_more_certain(index: LocalIndex) -> None:
    """R9: with the extra `embed` notes are compared by meaning, also where they share no word."""
    read = read_notes(index._index, dict.fromkeys(index._index.by_id.values(), ("project", "")))
    notes = NoteSet(index._index, read)
    text = "zebra quagga okapi"
    number = index._index.by_id["staging.md"]
    assert not any(one.is_related for one in score_notes(notes, text, needs={text: 3.0}))
    similar = {text: {one: (0.8, 0.8) if one == number else (0.0, 0.0) for one in read}}
    found = {one.number: one for one in score_notes(notes, text, needs={text: 3.0}, similar=similar)}
    assert found[number].confidence >= CUT_OFF
    assert all(one.confidence < CUT_OFF for one in found.values() if one.number != number)


@pytest.mark.parametrize("text", [QUESTION, "which text do I write on the button", "发布之前要做什么"])
def test_a_note_has_the_same_features_whatever_notes_are_compared_with_it(
    index: LocalIndex, text: str
) -> None:
    """The notes of a store are compared all at once."""
    read = read_notes(index._index, dict.fromkeys(index._index.by_id.values(), ("project", "")))
    question = _Question.parse(index._index, text)
    together = NoteSet(index._index, read).features(question)
    assert any(row[REACHED] for row in together)
    for (number, note), row in zip(read.items(), together, strict=True):
        (alone,) = NoteSet(index._index, {number: note}).features(question)
        assert alone == pytest.approx(row)


def test_of_several_related_words_the_closest_counts(tmp_path: Path) -> None:
    """A word of the message itself, not a word of the same concept or a neighbour beside it."""
    directory = tmp_path / "memory"
    _write(directory, ("both.md", "2026-03-01", "project", "Deploy and release", "Ship deployments"))
    index = LocalIndex(directory, tmp_path)
    index.refresh()
    (number,) = index._index.by_id.values()
    notes = NoteSet(index._index, read_notes(index._index, {number: ("project", "")}))
    (row,) = notes.features(_Question.parse(index._index, "deploy"))
    found = dict(zip(FEATURES, row, strict=True))
    assert found["covered"] == found["reached"] == 1
    assert found["matches"] == pytest.approx(1 / 3)
    assert found["head_same"] > 0 and found["head_concept"] == found["head_near"] == 0


def test_an_outdated_note_is_not_attached_without_the_newer_one(tmp_path: Path) -> None:
    """R14: although only the older one has all words of the message."""
    directory = tmp_path / "memory"
    _write(
        directory,
        (
            "old.md",
            "2026-03-01",
            "project",
            "Rate 0.11 per word",
            "Charge agencies 0.11 euro for each translated word",
        ),
        (
            "new.md",
            "2026-09-01",
            "project",
            "Rate 0.13 per word",
            "Agencies pay 0.13 euro for each translated word",
        ),
        ("tea.md", "2026-09-02", "project", "Tea", "Anna drinks green tea"),
    )
    found = files(LocalIndex(directory, tmp_path), "what do I charge agencies for each word")
    assert found == ["new.md", "old.md"]


def test_a_newer_note_of_the_same_name_comes_first_though_the_texts_differ(tmp_path: Path) -> None:
    """R14: two notes of one type whose names share a word need fewer words in common."""
    directory = tmp_path / "memory"
    _write(
        directory,
        ("old.md", "2026-03-01", "project", "Flour from Kellys", "Flour comes from Kelly & Sons"),
        (
            "new.md",
            "2026-09-01",
            "project",
            "Flour supplier",
            "Flour from Dunmore Mill since July, on Mondays",
        ),
        ("tea.md", "2026-09-02", "user", "Tea", "Anna drinks green tea"),
    )
    found = files(LocalIndex(directory, tmp_path), "does the flour come from Kelly & Sons")
    assert found == ["new.md", "old.md"]


@pytest.mark.parametrize("person", own_people(), ids=lambda one: one.key)
def test_no_outdated_note_comes_before_the_newer_one(person: Person, tmp_path: Path) -> None:
    """R14, for everyone the weights were learnt on."""
    directory = tmp_path / "memory"
    directory.mkdir()
    ids = person.write(directory)
    index = LocalIndex(directory, tmp_path, writes=False)
    for message in person.messages:
        if message.stale and message.text not in OUTDATED_FIRST:
            found = [ids[file] for file in files(index, message.text)]
            old = min((found.index(one) for one in message.stale if one in found), default=len(found))
            new = min((found.index(one) for one in message.needed if one in found), default=len(found))
            assert new <= old, message.text


def test_long_files_of_others_get_attached_to_few_messages(tmp_path: Path) -> None:
    """R9: a long file shares words with any message, whoever wrote it."""
    people = [one for one in own_people() if one.language == "en"]
    asked = attached = 0
    for person, other in zip(people, people[1:] + people[:1], strict=True):
        directory = tmp_path / person.key
        directory.mkdir()
        for kind in {one.kind for one in other.memories}:
            parts = [f"## {m.name}\n\n{m.description}. {m.body}" for m in other.memories if m.kind == kind]
            head = f"name: {kind} of the project\ndescription: what is known\ntype: {kind}"
            (directory / f"{kind}.md").write_text(f"---\n{head}\n---\n\n" + "\n\n".join(parts * 3))
        index = LocalIndex(directory, tmp_path, writes=False)
        asked += len(person.messages)
        attached += sum(bool(files(index, message.text)) for message in person.messages)
    assert attached <= asked / 10


def test_the_concepts_of_the_package_are_those_of_the_source() -> None:
    """`python -m bench.recall.everyday.train` writes them."""
    assert (PACKAGE / "concepts.txt").read_text() == stemmed_concepts()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Traceback (most recent call last):\n  File "job.py", line 12, in main\n    run(key)\n'
            "KeyError: 7\n\nWhy?",
            ["KeyError: 7\n\nWhy?", "KeyError: 7", "Why?"],
        ),
        (
            "TypeError: no id\n    at load (src/a.js:3:4)\n    at main (src/b.js:1:2)\nWhat now?",
            ["TypeError: no id\nWhat now?", "TypeError: no id", "What now?"],
        ),
        ('  File "a.py", line 1\n', ['  File "a.py", line 1\n']),
    ],
)
def test_the_call_stack_of_a_pasted_error_asks_nothing(text: str, expected: list[str]) -> None:
    """R9: the error itself does."""
    assert segments(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one more thing before lunch: when do we deploy (no hurry)", ["when do we deploy"]),
        ("Done. By the way: who owns it?", ["Done.", "By the way: who owns it?", "who owns it?"]),
        ("顺便问一下：什么时候上线（不急）", ["什么时候上线"]),
        ("we deploy at 10:30 from https://ci.example/main", []),
        ("who owns std::vector", []),
        ("note: billing", []),
        ("TypeError: no id in the file", []),
    ],
)
def test_a_sentence_asks_without_a_lead_in_and_a_remark(text: str, expected: list[str]) -> None:
    """R9: "one more thing:" and "(no hurry)" do not dilute a question."""
    assert segments(text) == [text, *expected]


def test_two_sentences_that_need_different_notes_get_both(tmp_path: Path) -> None:
    """R2, R9: the note of one sentence takes no confidence from that of another."""
    directory = tmp_path / "memory"
    _write(
        directory,
        ("deploys.md", "2026-03-01", "project", "Deploys", "Deploys go out on Tuesdays and Thursdays"),
        ("answers.md", "2026-03-01", "feedback", "Short answers", "Keep answers short"),
        ("owner.md", "2026-03-01", "project", "Billing", "Priya owns billing"),
    )
    index = LocalIndex(directory, tmp_path)
    index.refresh()
    found = files(index, "When do we deploy? Who owns billing? Answer in short sentences.")
    assert {"deploys.md", "owner.md"} <= set(found)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("会议室怎么预定", "会议"),
        ("请假找谁批", "请假"),
        ("会员的性能要求", "性能"),
        ("会员的性能要求", "要求"),
        ("他会开会吗", "开会"),
    ],
)
def test_a_chinese_word_with_the_character_of_a_function_word_stays_whole(text: str, term: str) -> None:
    """R11: 会 alone means "can", 会议 is a meeting."""
    assert term in terms(text)
    assert "会" not in terms(text) and "要" not in terms(text)


@given(st.text(max_size=300))
def test_any_text_can_ask(text: str) -> None:
    assert segments(text)[0] == (text.strip() or text)
    assert -50 < need(text) < 50
