"""The recall benchmark runs on made-up stores and counts what it says it counts; nothing here is timed."""

from __future__ import annotations

import gzip
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.recall import TINY, chats, letta, made_up, measure, pages, promises, speed, talks
from bench.recall.asking import Tools, elsewhere, hold, own
from bench.recall.everyday.measure import measure_people
from bench.recall.everyday.people import own_people
from bench.recall.figures import newer_first
from bench.recall.files import write
from bench.recall.metrics import auroc, cut_that_loses, difference
from bench.recall.metrics import measure as measured
from bench.recall.quality import Sizes

NO_PEERS = Tools((), None, has_mem0=False)


def packed(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps(value))


def test_a_ranking_is_measured_by_where_the_answers_stand() -> None:
    found = measured(["x", "a", "y", "z", "w", "b"], frozenset({"a", "b"}))
    assert found["any@1"] == 0.0
    assert found["any@5"] == 1.0
    assert found["all@5"] == 0.0
    assert found["recall@5"] == 0.5
    assert found["recall@10"] == 1.0
    assert found["mrr"] == 0.5


def test_auroc_is_the_chance_that_a_positive_has_more() -> None:
    assert auroc([3.0, 2.0], [1.0, 0.0]) == 1.0
    assert auroc([1.0, 1.0], [1.0, 1.0]) == 0.5
    assert auroc([0.0], [1.0, 2.0]) == 0.0
    assert auroc([], [1.0]) is None


def test_a_difference_comes_with_bounds_around_it() -> None:
    found = difference([1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0])
    assert found["low"] <= found["mean"] == 0.5 <= found["high"]


def test_a_peers_cut_is_the_highest_that_loses_no_more_than_allowed() -> None:
    answered = [(0.1, True), (0.2, False), (0.3, True), (0.4, True), (0.5, True)]
    assert cut_that_loses(answered, 0.0) == 0.1
    assert cut_that_loses(answered, 0.2) == 0.3


@pytest.mark.slow
def test_a_tiny_run_finds_what_it_made_up_and_attaches_nothing_to_other_questions() -> None:
    figures: Any = measure(TINY)
    ours = figures["sets"]["made_up"]["score"]
    assert ours["rankers"]["nacre"]["any@5"] == 1.0
    assert ours["attached"]["tokens"] < ours["rankers"]["nacre"]["tokens"]
    elsewhere_figures = figures["nothing_relevant"]["made_up"]["score"]["another_store"]
    assert elsewhere_figures["attached"]["nacre"] == 0.0


@pytest.mark.slow
def test_pages_hold_every_table_and_a_chart(tmp_path: Path) -> None:
    figures: Any = measure(TINY)
    figures["older"] = "Measured on another day: letta_updates."
    figures["everyday"] = {"date": "2026-11-18", **figures["everyday"]}
    drawn = pages(figures)
    assert set(drawn) == {"recall.md", "recall_made_up.svg"}
    assert "\nMeasured on another day: letta_updates.\n" in drawn["recall.md"]
    assert "| ranker | messages |" in drawn["recall.md"]
    assert "| nacre |" in drawn["recall.md"]
    assert "## Nothing relevant" in drawn["recall.md"]


def test_without_data_it_says_so_in_one_line(tmp_path: Path) -> None:
    assert str(tmp_path) in str(measure(Sizes(tmp_path))["skipped"])
    assert "skipped" in speed.measure(speed.Sizes(tmp_path, (5,), 5, 5, 1))


def test_a_question_is_never_put_to_its_own_store_or_across_halves() -> None:
    with ExitStack() as stack:
        held = hold(made_up.stores(), NO_PEERS, stack)
        rows = elsewhere(held, held)
        assert len(rows) == sum(q.is_answerable for one in held for q in one.store.questions)
        assert not any(row.attached.ids for row in rows)


def test_only_the_older_fact_found_counts_as_a_miss() -> None:
    with ExitStack() as stack:
        rows = own(hold(made_up.stores(), NO_PEERS, stack))
    found: Any = newer_first(rows)["score"]
    assert found["pairs"] == 1
    assert found["attached"] == {"first": 1.0, "of": 1}


def test_talks_become_turns_or_sessions_with_their_evidence(tmp_path: Path) -> None:
    said = [{"speaker": "Ada", "dia_id": "D1:1", "text": "I sail."}]
    shown = [{"speaker": "Ben", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a boat"}]
    talk = {
        "session_1": said, "session_1_date_time": "1:00 pm on 8 May, 2023",
        "session_2": shown, "session_2_date_time": "1:00 pm on 9 May, 2023",
    }  # fmt: skip
    asked = [
        {"qid": "1", "question": "What does Ada do?", "evidence": ["D1:1"], "category": 4},
        {"qid": "2", "question": "What does Ben sail?", "evidence": ["D2:1", "D9:9"], "category": 5},
        {"qid": "3", "question": "Lost?", "evidence": [], "category": 4},
    ]
    packed(tmp_path / "conv-26.json.gz", {"conversation": talk, "qa": asked})
    (turns,), (sessions,) = talks.turns(tmp_path), talks.sessions(tmp_path)
    assert [doc.id for doc in turns.docs] == ["D1:1", "D2:1"]
    assert turns.docs[1].body.endswith("[shares a boat]")
    assert [(q.id, q.is_answerable) for q in turns.questions] == [("1", True), ("2", False)]
    assert turns.half == "tune"
    assert [sorted(q.gold) for q in sessions.questions] == [["D1"], ["D2"]]
    assert sessions.docs[0].body == "Ada: I sail."


def test_a_chats_date_holds_until_the_next_one(tmp_path: Path) -> None:
    messages = [
        {"id": 1, "batch": 1, "role": "user", "content": "a", "time_anchor": "March-05-2024"},
        {"id": 2, "batch": 1, "role": "assistant", "content": "b", "time_anchor": None},
    ]
    asked = {
        "ability": "knowledge_update", "question": "?", "gold_message_ids": [1, 2],
        "source_chat_ids": {"original_info": [1], "updated_info": [2]},
    }  # fmt: skip
    packed(tmp_path / "100K-2.json.gz", {"messages": messages, "questions": [asked]})
    (store,) = chats.beam(tmp_path)
    assert store.docs[0].when == store.docs[1].when is not None
    assert store.half == "score"
    assert (store.questions[0].newer, store.questions[0].older) == (frozenset({"2"}), frozenset({"1"}))


def test_sessions_are_merged_once_and_kept_apart_per_question(tmp_path: Path) -> None:
    question = {
        "question_id": "q", "question": "?", "question_type": "t", "abstention": False, "haystack": "S",
        "question_date": "2023/05/30 (Tue) 23:40", "haystack_session_ids": ["a", "b"],
        "haystack_dates": ["2023/05/01 (Mon) 10:00", "2023/05/02 (Tue) 10:00"], "answer_session_ids": ["b"],
    }  # fmt: skip
    packed(tmp_path / "questions.jsonl.gz", question)
    with gzip.open(tmp_path / "sessions.jsonl.gz", "wt", encoding="utf-8") as file:
        for name in ("a", "b", "c"):
            file.write(json.dumps({"session_id": name, "turns": [["user", name]]}) + "\n")
    (apart,) = chats.longmemeval_s(tmp_path)
    assert [doc.id for doc in apart.docs] == ["a", "b"]
    assert apart.docs[0].body == "user: a"
    with pytest.raises(KeyError):
        chats.longmemeval_merged(tmp_path)


def test_of_a_file_question_only_the_question_is_asked(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "questions.jsonl.gz", "wt", encoding="utf-8") as file:
        extra = {"required_files": ["pets.txt"], "question_type": "one"}
        raw = {"input": "Read {pwd}.\n\nQuestion: Whose dog?", "agent_args": {"extra": extra}}
        file.write(json.dumps(raw) + "\n")
    (tmp_path / "files").mkdir()
    with gzip.open(tmp_path / "files" / "pets.txt.gz", "wt", encoding="utf-8") as file:
        file.write("dogs")
    (store,) = letta.files(tmp_path)
    assert store.questions[0].text == "Whose dog?"
    assert [(doc.id, doc.name, doc.body) for doc in store.docs] == [("pets.txt", "pets", "dogs")]


@pytest.mark.slow
def test_speed_is_measured_at_every_size_and_drawn() -> None:
    figures: Any = speed.measure(speed.TINY)
    assert set(figures["nacre"]) == {str(count) for count in speed.TINY.counts}
    assert speed.pages(figures)["recall.speed.svg"].startswith("<svg")


def test_the_promise_about_near_misses_is_of_the_confidence_that_cuts() -> None:
    """A signal that decides nothing is not what a person gets."""
    figures: Any = {
        "locomo_turns": {
            "score": {"another_store": None, "same_store": {"auroc": {"relevance": 0.6, "match": 0.9}}}
        }
    }
    told = list(promises.bars({"locomo_turns": {}}, figures, {}))
    assert [(one["measured"], one["met"]) for one in told] == [(0.6, False)]


def test_stores_are_written_without_a_field_that_only_a_benchmark_has(tmp_path: Path) -> None:
    written = write(made_up.stores()[0], tmp_path)
    texts = [(tmp_path / file).read_text() for file in written.id_of]
    assert len(texts) == 6
    assert not any("author:" in text for text in texts)
    assert any("\nAda: I planted" in text for text in texts)


@pytest.mark.slow
def test_everyday_messages_are_counted_for_every_ranker() -> None:
    person = own_people()[0]
    figures: Any = measure_people([person], None, [])
    assert list(figures) == ["nacre", "nacre_embed"]
    assert figures["nacre"]["messages"] == len(person.messages)
    assert figures["nacre"]["stale_first"] == 0
    assert 0 < figures["nacre"]["attached"] <= figures["nacre"]["ranked"] <= 1
