"""The blended ranking: meaning finds what words miss, and words hold where there is no meaning yet."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="vectors need numpy: install the extra `embed`")

from nacre.memory.recall.ranking.ranker import Ranker, Ranking
from nacre.memory.recall.semantic.meaning import SemanticIndex
from nacre.memory.recall.semantic.vectors import NO_VECTOR
from tests.memory.recall.semantic.stand_in import StandIn, docs

BODIES = (
    "Ada bought a car in spring",
    "The cat sleeps on the sofa",
    "Our doctor moved to another town",
    "The bakery opens at seven",
    "Rent is due on the first",
    "The garden needs water in July",
)
RANKER = Ranker.over(docs(*BODIES))
TEXTS = {f"{number}.md": body for number, body in enumerate(BODIES)}
ASKED = date(2026, 3, 10)


def with_vectors_of(tmp_path: Path, *numbers: int) -> SemanticIndex:
    kept = SemanticIndex(tmp_path, encoder=StandIn())
    assert kept.catch_up({f"{number}.md": BODIES[number] for number in numbers}, seconds=3600) == 0
    return kept


def ranking(kept: SemanticIndex, text: str) -> Ranking:
    return kept.rank(RANKER, text, asked=ASKED, limit=3)


def test_a_memory_that_shares_no_word_with_the_question_is_found_by_its_meaning(tmp_path: Path) -> None:
    """R9."""
    every = with_vectors_of(tmp_path, *range(len(BODIES)))
    for question, file in (("automobile", "0.md"), ("feline", "1.md"), ("physician", "2.md")):
        assert file not in [pick.id for pick in RANKER.rank(question, asked=ASKED).picks]
        assert ranking(every, question).picks[0].id == file


def test_without_any_vector_the_ranking_is_that_of_words(tmp_path: Path) -> None:
    """R9: a new store is ranked well from the first moment."""
    none = SemanticIndex(tmp_path, encoder=StandIn())
    assert ranking(none, "when does the bakery open") == RANKER.rank(
        "when does the bakery open", asked=ASKED, limit=3
    )


@pytest.mark.parametrize("encoded", [(0,), (1, 2), (0, 1, 2, 4, 5)])
def test_a_memory_without_a_vector_still_wins_by_its_words(tmp_path: Path, encoded: tuple[int, ...]) -> None:
    """R9: half-way through encoding, no file is worse off for waiting."""
    first = ranking(with_vectors_of(tmp_path, *encoded), "when does the bakery open at seven").picks[0]
    assert first.id == "3.md"
    assert "similar" not in first.parts


def test_the_parts_of_a_pick_add_up_to_its_score(tmp_path: Path) -> None:
    """R10: for people who ask why."""
    half = with_vectors_of(tmp_path, 0, 1, 2)
    found = ranking(half, "the car of the bakery").picks
    assert {"0.md", "3.md"} <= {pick.id for pick in found}
    for pick in found:
        assert sum(pick.parts.values()) == pytest.approx(pick.score, abs=0.01)
        assert (NO_VECTOR in pick.parts) == (pick.id not in {"0.md", "1.md", "2.md"})


def test_what_is_meant_makes_a_ranking_surer_and_what_is_not_less_sure(tmp_path: Path) -> None:
    """R9: the same words in a question that means something else are no reason to attach."""
    every = with_vectors_of(tmp_path, *range(len(BODIES)))
    asked, other = "when does the bakery open at seven", "seven volcanoes erupt, lava flows, villages burn"
    assert ranking(every, asked).confidence.is_enough
    told = ranking(every, other).confidence
    assert told.relevance < ranking(every, asked).confidence.relevance
    assert not told.is_enough
    assert told.match == RANKER.rank(other, asked=ASKED).confidence.match


@pytest.mark.parametrize("encoded", [(0,), (1, 2, 3), (0, 1, 2, 4, 5)])
def test_while_a_first_pick_has_no_vector_the_words_alone_say_how_sure(
    tmp_path: Path, encoded: tuple[int, ...]
) -> None:
    """R9: half-way through encoding, no file is worse off for waiting."""
    half = with_vectors_of(tmp_path, *encoded)
    for question in ("the bakery, the cat, the rent, the garden", "the car of the doctor"):
        found = ranking(half, question)
        if any(NO_VECTOR in pick.parts for pick in found.picks):
            assert found.confidence == RANKER.rank(question, asked=ASKED).confidence
    assert any(NO_VECTOR in pick.parts for pick in ranking(half, "the bakery, the cat, the rent").picks)


def test_vectors_of_files_that_are_no_longer_indexed_are_passed_over(tmp_path: Path) -> None:
    """R9: the index and the vectors are brought up to date one after the other."""
    kept = SemanticIndex(tmp_path, encoder=StandIn())
    kept.catch_up(TEXTS | {"gone.md": "an automobile, an automobile"}, seconds=3600)
    assert "gone.md" not in {pick.id for pick in ranking(kept, "automobile").picks}


def test_the_meaning_of_an_earlier_state_serves_until_the_new_one_is_encoded(tmp_path: Path) -> None:
    """R9: an edit must not make a memory harder to find."""
    kept = with_vectors_of(tmp_path, *range(len(BODIES)))
    assert kept.catch_up(TEXTS | {"0.md": f"{BODIES[0]}, and sold it"}, seconds=0) == 1
    assert ranking(kept, "automobile").picks[0].id == "0.md"


def test_another_script_than_the_models_is_ranked_by_words(tmp_path: Path) -> None:
    """R11: the model did not learn Cyrillic; to it that is noise, in a question as in a memory."""
    bodies = ("мы деплоим по понедельникам", "кошка спит на диване", "deploys happen on Monday")
    ranker = Ranker.over(docs(*bodies))
    kept = SemanticIndex(tmp_path, encoder=StandIn())
    assert kept.catch_up({f"{number}.md": body for number, body in enumerate(bodies)}, seconds=3600) == 0
    assert kept.rank(ranker, "когда мы деплоим", limit=3) == ranker.rank("когда мы деплоим", limit=3)
    blended = kept.rank(ranker, "when do deploys happen деплоим", limit=3)
    assert blended.picks[0].id == "2.md"
    assert all("similar" not in pick.parts for pick in blended.picks[1:])
