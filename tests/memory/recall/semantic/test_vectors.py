"""Vectors on disk and in memory: exact enough, whole or not there, and compared less what they share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="vectors need numpy: install the extra `embed`")

from nacre.memory.recall.semantic.vectors import (  # noqa: E402
    MEAN_FROM,
    Vectors,
    VectorSource,
    load_vectors,
    save_vectors,
    unread,
)

WIDTH = 8


def some(count: int, seed: int = 0) -> Vectors:
    rows = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Vectors({f"f{i}.md": VectorSource(f"d{i}", f"s{i}") for i in range(count)}, rows)


def test_what_was_saved_is_read_back(tmp_path: Path) -> None:
    """R9: names, states and vectors, the latter to three digits."""
    kept = some(5)
    save_vectors(kept, tmp_path / "deep" / "v", "m")
    read = load_vectors(tmp_path / "deep" / "v", "m", WIDTH)
    assert read.files == kept.files
    assert np.abs(read.rows - kept.rows).max() < 1e-3
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["v"]


def test_who_is_reading_while_it_is_replaced_reads_the_old_file_whole(tmp_path: Path) -> None:
    """R9: several processes; written aside and renamed, never in place."""
    path = tmp_path / "v"
    save_vectors(some(5), path, "m")
    before = path.read_bytes()
    with path.open("rb") as reading:
        half = reading.read(100)
        save_vectors(some(7, 1), path, "m")
        assert half + reading.read() == before
    assert len(load_vectors(path, "m", WIDTH).files) == 7


def test_vectors_of_another_model_are_not_taken(tmp_path: Path) -> None:
    """R9: two models' numbers mean different things."""
    save_vectors(some(2), tmp_path / "v", "m")
    for model, width in (("other", WIDTH), ("m", 2 * WIDTH)):
        with pytest.raises(ValueError, match="another model"):
            load_vectors(tmp_path / "v", model, width)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.floats(0, 1), flip=st.floats(0, 1))
def test_a_damaged_file_is_never_believed(tmp_path: Path, cut: float, flip: float) -> None:
    """R9: cut short or with one byte changed, anywhere, it raises what callers expect."""
    path = tmp_path / "v"
    save_vectors(some(3), path, "m")
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[int(flip * (len(whole) - 1))] ^= 0x55
    for damaged in (whole[: int(cut * (len(whole) - 1))], bytes(changed)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError):
            load_vectors(path, "m", WIDTH)


@given(st.integers(2, 30), st.integers(0, 1000))
def test_likeness_is_the_cosine_less_what_all_files_share(count: int, seed: int) -> None:
    """R9: files about one thing differ only in the rest."""
    kept = some(count, seed)
    question = some(1, seed + 1).rows[0]
    mean = kept.rows.sum(axis=0) / max(count, MEAN_FROM)
    centred = kept.rows - mean
    asked = (question - mean) / np.linalg.norm(question - mean)
    expected = centred @ asked / np.linalg.norm(centred, axis=1)
    scores, cosines = kept.similarity(question)
    assert np.allclose(scores, expected, atol=1e-3)
    assert np.allclose(cosines, kept.rows @ question)


def test_a_file_that_was_not_read_has_no_likeness_and_no_part_in_the_mean() -> None:
    """R11: it is ranked by its words."""
    kept = some(4)
    more = kept.updated(Vectors.of({"x.md": (VectorSource("x"), unread(WIDTH))}, WIDTH))
    question = some(1, 9).rows[0]
    (scores, _), (before, _) = more.similarity(question), kept.similarity(question)
    assert np.isnan(scores[-1])
    assert np.allclose(scores[:-1], before, atol=1e-6)


def test_newer_vectors_take_the_place_of_the_same_files_own() -> None:
    """R9."""
    old, new = some(3), some(2, 5)
    both = old.updated(new)
    assert both.names == ["f2.md", "f0.md", "f1.md"]
    assert (both.rows == np.stack([old.rows[2], new.rows[0], new.rows[1]])).all()
    assert Vectors.empty(WIDTH).updated(new) is new and old.updated(Vectors.empty(WIDTH)) is old
