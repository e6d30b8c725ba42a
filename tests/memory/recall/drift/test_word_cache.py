"""The words of a large tree, kept until its files change: the same answers without reading all (R12)."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.recall.drift import words as word_cache
from nacre.memory.recall.drift.check import check
from nacre.memory.recall.drift.tree_files import read_tree
from nacre.memory.recall.drift.words import (
    CACHE_FROM_BYTES,
    FILE,
    SearchWord,
    WordCache,
    has_word,
    search_words,
)

FILLER = "# nothing of interest in this line\n"
UNTIL_OLD = 0.15
"""Seconds until a stamp is old enough to be believed."""


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Just above the size from which on a cache is worth it."""
    root = tmp_path / "large"
    root.mkdir()
    for number in range(16):
        text = f"def kept_{number}(): ...\nFLAG = '--flag-{number}'\n" + FILLER * (800_000 // len(FILLER))
        (root / f"m{number}.py").write_text(text)
    (root / "page.md").write_text("told_only\n")
    time.sleep(UNTIL_OLD)
    return root


def answered(root: Path, cache: WordCache, text: str) -> dict[str, bool | None]:
    return {one.text: one.exists for one in check(text, root, budget_seconds=60, words=cache).references}


def settled(root: Path, cache: WordCache) -> set[str]:
    """The files that need not be read."""
    return set(cache.find(read_tree(root, is_late=lambda: False), [SearchWord(b"not_anywhere")])[1])


def test_answers_are_the_same_with_and_without_it(large: Path, tmp_path: Path) -> None:
    cache = WordCache(tmp_path / "cache", large)
    text = "`kept_3()`, --flag-7, `kept_33()`, `told_only()`, --flag-77, `m3.py`"
    before = answered(large, cache, text)
    assert cache.update()
    assert not cache.update()
    assert [file.name for file in (tmp_path / "cache").iterdir()] == [FILE]
    assert settled(large, cache) == {path.name for path in large.iterdir()}
    assert answered(large, cache, text) == before == {
        "kept_3": True, "--flag-7": True, "kept_33": False, "told_only": False, "--flag-77": False,
        "m3.py": True,
    }  # fmt: skip


def test_what_it_knows_is_not_read_again(large: Path, tmp_path: Path) -> None:
    cache = WordCache(tmp_path / "cache", large)
    cache.update()
    tree = read_tree(large, is_late=lambda: False)
    groups = len({word_cache.group_of(one.path) for one in tree.files})
    looks = iter(range(1_000))
    gone = search_words(tree, [SearchWord(b"not_there")], is_late=lambda: next(looks) > groups, cache=cache)
    assert gone.is_whole and not gone.found
    assert next(looks) == groups + 1, "the clock is looked at between two groups and two files"


def test_a_word_that_is_there_is_found_without_a_look_at_other_groups(large: Path, tmp_path: Path) -> None:
    """R12: most of what memories name is still there, and is told in a fraction of the time."""
    cache = WordCache(tmp_path / "cache", large)
    cache.update()
    tree = read_tree(large, is_late=lambda: False)
    looks = iter(range(1_000))
    found, settled = cache.find(tree, [SearchWord(b"kept_5")], is_late=lambda: next(looks) < 0)
    assert found == {SearchWord(b"kept_5")} and settled == {"m5.py"}
    assert next(looks) == 2


def test_beside_a_changed_file_the_others_of_its_group_are_still_known(large: Path, tmp_path: Path) -> None:
    """R12: what a group never held, its unchanged files do not hold; what it held, any of them may."""
    twin = next(name for name in (f"n{n}.py" for n in range(10_000)) if is_beside(name, "m3.py"))
    (large / twin).write_text("def twin(): ...\n")
    time.sleep(UNTIL_OLD)
    cache = WordCache(tmp_path / "cache", large)
    cache.update()
    (large / "m3.py").write_text("def other(): ...\n")
    tree = read_tree(large, is_late=lambda: False)
    files = {one.path for one in tree.files}
    assert cache.find(tree, [SearchWord(b"not_there")]) == (set(), frozenset(files - {"m3.py"}))
    assert cache.find(tree, [SearchWord(b"kept_3")]) == (set(), frozenset(files - {"m3.py", twin}))
    assert answered(large, cache, "`kept_3()`, `other()`, `twin()`, `not_there()`") == {
        "kept_3": False, "other": True, "twin": True, "not_there": False,
    }  # fmt: skip


def is_beside(one: str, other: str) -> bool:
    return word_cache.group_of(one) == word_cache.group_of(other)


def test_it_too_stops_when_the_time_is_over(large: Path, tmp_path: Path) -> None:
    cache = WordCache(tmp_path / "cache", large)
    cache.update()
    assert cache.find(read_tree(large, is_late=lambda: False), [], is_late=lambda: True) == (
        set(),
        frozenset(),
    )
    late = check("`not_there()`", large, budget_seconds=0.0, words=cache)
    assert [one.exists for one in late.references] == [None]


@pytest.mark.slow
def test_a_changed_a_removed_and_a_new_file_are_noticed(large: Path, tmp_path: Path) -> None:
    cache = WordCache(tmp_path / "cache", large)
    cache.update()
    (large / "m3.py").write_text("def other(): ...\n" + FILLER)
    (large / "m4.py").unlink()
    (large / "m99.py").write_text("def brand_new(): ...\n")
    text = "`kept_3()`, `other()`, `kept_4()`, `brand_new()`, `kept_5()`"
    assert answered(large, cache, text) == {
        "kept_3": False, "other": True, "kept_4": False, "brand_new": True, "kept_5": True,
    }  # fmt: skip
    time.sleep(UNTIL_OLD)
    assert cache.update()
    assert "m3.py" in settled(large, cache) and "m4.py" not in settled(large, cache)


def test_a_change_that_keeps_the_size_and_the_time_is_noticed(large: Path, tmp_path: Path) -> None:
    cache = WordCache(tmp_path / "cache", large)
    cache.update()
    file = large / "m3.py"
    status = file.stat()
    file.write_text(file.read_text().replace("kept_3", "kepp_3"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert answered(large, cache, "`kept_3()`, `kepp_3()`") == {"kept_3": False, "kepp_3": True}


def test_a_file_too_young_to_be_told_apart_is_not_believed(large: Path, tmp_path: Path) -> None:
    cache = WordCache(tmp_path / "cache", large)
    (large / "m3.py").write_text("def young(): ...\n" + FILLER * 25_000)
    cache.update()
    assert "m3.py" not in settled(large, cache)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "another tree's"])
def test_a_damaged_one_costs_time_and_nothing_else(large: Path, tmp_path: Path, damage: str) -> None:
    cache = WordCache(tmp_path / "cache", large)
    cache.update()
    file = tmp_path / "cache" / FILE
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes({"cut": data[:100], "empty": b""}.get(damage, bytes(data)))
    if damage == "another tree's":
        WordCache(tmp_path / "cache", tmp_path).update()
    assert answered(large, cache, "`kept_3()`, `kept_33()`") == {"kept_3": True, "kept_33": False}


def test_a_small_tree_gets_none(tmp_path: Path) -> None:
    root = tmp_path / "small"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    assert not WordCache(tmp_path / "cache", root).update()
    assert not (tmp_path / "cache").exists()
    assert (root / "a.py").stat().st_size < CACHE_FROM_BYTES


@given(
    st.lists(
        st.sampled_from([b"name", b"a_b", b"--flag", b"-", b"_", b" ", b".", b"\n", b"9", b"\xe4"]),
        max_size=12,
    )
)
def test_a_word_is_kept_if_and_only_if_it_would_be_found(pieces: list[bytes]) -> None:
    """The two ways to look must not disagree."""
    data = b"".join(pieces)
    kept = {*word_cache._NAMES.findall(data), *word_cache._HYPHENED.findall(data)}
    for word in (b"name", b"a_b", b"--flag", b"name9", b"name-name"):
        assert has_word(data, word) is (word in kept)


@pytest.mark.slow
def test_what_is_held_in_memory_goes_with_its_files(large: Path, tmp_path: Path) -> None:
    """R12: a commit, a branch or another session's learning is noticed by the next check."""
    subprocess.run(["git", "init", "-q"], cwd=large, check=True)
    subprocess.run(["git", "add", "-A"], cwd=large, check=True)
    cache = WordCache(tmp_path / "cache", large)
    time.sleep(UNTIL_OLD)
    cache.update()
    time.sleep(UNTIL_OLD)
    cache.preload()
    assert answered(large, cache, "`kept_3()`, `brand_new()`") == {"kept_3": True, "brand_new": False}
    (large / "new").mkdir()
    (large / "new" / "m99.py").write_text("def brand_new(): ...\n")
    subprocess.run(["git", "rm", "-q", "--cached", "m3.py"], cwd=large, check=True)
    (large / "m3.py").unlink()
    subprocess.run(["git", "add", "new"], cwd=large, check=True)
    assert answered(large, cache, "`kept_3()`, `brand_new()`, `new/m99.py`, `m3.py`") == {
        "kept_3": False, "brand_new": True, "new/m99.py": True, "m3.py": False,
    }  # fmt: skip
    time.sleep(UNTIL_OLD)
    WordCache(tmp_path / "cache", large).update()
    assert {"new/m99.py", "m5.py"} <= settled(large, cache)
