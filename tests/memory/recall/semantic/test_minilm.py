"""The encoder: the same numbers as the model written out plainly, and as the model itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="vectors need numpy: install the extra `embed`")

from nacre.memory.recall.semantic import meaning as encoder  # noqa: E402
from nacre.memory.recall.semantic.minilm import MAX_TOKENS, MODEL_FILE, MiniLm, _Tensors  # noqa: E402
from tests.memory.recall.semantic import plain  # noqa: E402


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
    with pytest.raises(ValueError, match="is not the model"):
        MiniLm(tmp_path)


def test_the_packaged_model_gives_what_the_plain_way_gives() -> None:
    """R9: the weights that are shipped are read as they were written, in English and Chinese."""
    model = MiniLm(encoder.MODEL_FOLDER)
    tensors = _Tensors(encoder.MODEL_FOLDER / MODEL_FILE)
    weights = {name: tensors[name] for name in tensors if not name.endswith("#scales")}
    for text in ("Deploys happen on Monday.", "我们每周一部署。 Café_naïve: ünïted snake_case"):
        numbers = model._pieces.tokens(text, MAX_TOKENS)
        assert np.abs(model.encode(text) - plain.encode(weights, numbers)).max() < 1e-5
    assert "torch" not in sys.modules


def test_the_packaged_model_is_small() -> None:
    assert sum(file.stat().st_size for file in encoder.MODEL_FOLDER.iterdir()) <= 25_000_000


@pytest.mark.parametrize(
    ("asked", "meant", "worded"),
    [
        (
            "Which day do we ship the release?",
            "Deploys happen on Monday, after the stand-up.",
            "The press release was about a ship.",
        ),
        ("我们哪天发布？", "Deploys happen on Monday, after the stand-up.", "发布会上的照片在共享盘里。"),
        ("Wann liefern wir die Software aus?", "Deploys happen on Monday.", "Die Wand ist noch nass."),
    ],
)
def test_a_sentence_is_nearer_to_its_meaning_than_to_its_words(asked: str, meant: str, worded: str) -> None:
    """R9: this is what the extra is for; also across languages."""
    model = encoder.packaged_encoder()
    question = encoder.encode_question(model, asked)
    assert question @ model.encode(meant) > question @ model.encode(worded)
    assert encoder.is_loaded() and encoder.packaged_encoder() is model


@pytest.mark.parametrize(
    ("needs", "needs_none"),
    [
        ("who signs off on refunds over 200 euro", "what does idempotent mean?"),
        ("这个需求什么时候要交", "什么是闭包"),
        ("commit this", "thanks, that looks good"),
    ],
)
def test_the_model_tells_whether_a_message_needs_a_memory(needs: str, needs_none: str) -> None:
    model = encoder.packaged_encoder()
    found = [model.need(encoder.encode_question(model, text)) for text in (needs, needs_none)]
    assert found[0] > 0 > found[1]
