"""Whether a store is about a question follows from what was asked, not from names or the length of files."""

from __future__ import annotations

import pytest

from nacre.memory.recall.ranking.analysis import Doc
from nacre.memory.recall.ranking.match import ParsedQuestion, QuestionTerm
from nacre.memory.recall.ranking.ranker import ENOUGH, FEATURES, Ranker, confidence

SAID = (
    ("Nora", "I signed up for a pottery class at the community hall"),
    ("Felix", "Nice! My bicycle was stolen in front of the library last week"),
    ("Nora", "Oh no. Did you report it to the police?"),
    ("Felix", "I did, and I borrowed an old mountain bike from my sister"),
    ("Nora", "My first bowl cracked in the kiln, the glaze was too thick"),
    ("Felix", "I am saving for a new bicycle, a blue one with a basket"),
)
FILLER = "The weather was mild and nothing of note happened on that long and quiet day in town. "


def talk(*, names: dict[str, str] | None = None) -> Ranker:
    called = names or {}
    return Ranker.over(
        Doc(id=f"{i}.md", folder="talk", order=i, author=called.get(who, who), body=text)
        for i, (who, text) in enumerate(SAID)
    )


@pytest.mark.parametrize(
    "question",
    ["Where was Felix's bicycle stolen?", "What happened to the bowl Nora put in the kiln?"],
)
def test_a_question_about_what_was_said_is_answered(question: str) -> None:
    """R9."""
    assert talk().rank(question).confidence.is_enough


@pytest.mark.parametrize(
    "question",
    [
        "Which university did Felix apply to?",
        "What did Nora cook for the wedding of her cousin?",
        "How long did Felix stay in Lisbon?",
        "What is the name of Nora's dog?",
    ],
)
def test_a_name_that_two_stores_share_is_no_reason_to_attach(question: str) -> None:
    """R9: a question put to another store, in which somebody of that name writes, too."""
    assert not talk().rank(question).confidence.is_enough


@pytest.mark.parametrize(
    "question", ["Where was Nora's bicycle stolen?", "From whom did Nora borrow an old mountain bike?"]
)
def test_the_same_fact_about_another_person_is_no_answer(question: str) -> None:
    """R9: the store is about it, but not about the one asked about."""
    found = talk().rank(question).confidence
    assert not found.is_enough


def test_who_wrote_a_matching_passage_does_not_make_the_store_more_relevant() -> None:
    """R9: the same evidence, once in the words of the one named and once not."""
    learnt = [1.0] * len(FEATURES)
    asked = ParsedQuestion(
        (QuestionTerm("bicycl", 5.0), QuestionTerm("stolen", 6.0)),
        11.0,
        authors=frozenset({1}),
        names=("felix",),
        wants=0,
        about_answers=False,
        about_past=True,
        date_ranges=(),
    )
    sure = []
    for is_author in (0.0, 1.0):
        told = {"covered": 1.0, "by_asked_author": is_author, "asked_passage": is_author}
        vector = [told.get(name, 0.0) for name in FEATURES]
        sure.append(confidence(asked, 0.0, [(sum(vector), vector)], learnt).relevance)
    assert sure[0] == pytest.approx(sure[1])


@pytest.mark.parametrize("pages", [0, 4, 30])
def test_an_answer_in_a_long_file_is_as_good_as_one_in_a_short_file(pages: int) -> None:
    """R9: whole sessions and files of records are memories, too."""
    padding = "\n\n".join([FILLER * 8] * pages)
    bodies = (
        "We deploy the billing service every Monday at nine.",
        "Ada plays chess.",
        "Rent is due in May.",
    )
    ranker = Ranker.over(Doc(id=f"{i}.md", body=f"{body}\n\n{padding}") for i, body in enumerate(bodies))
    found = ranker.rank("When do we deploy the billing service?")
    assert found.picks[0].id == "0.md"
    assert found.confidence.is_enough
    assert not ranker.rank("How do volcanoes erupt under glaciers?").confidence.is_enough


def test_likeness_in_meaning_moves_how_sure_a_ranking_is() -> None:
    """R9."""
    asked = ParsedQuestion(
        (QuestionTerm("car", 4.0), QuestionTerm("colour", 5.0)),
        9.0,
        authors=frozenset(),
        names=(),
        wants=0,
        about_answers=False,
        about_past=False,
        date_ranges=(),
    )
    vector = [{"covered": 0.5, "window_covered": 0.5}.get(name, 0.0) for name in FEATURES]
    learnt = [1.0] * len(FEATURES)
    near, far = (confidence(asked, 0.5, [(1.0, vector)], learnt, similar=s).relevance for s in (0.9, 0.1))
    assert far < ENOUGH < near
