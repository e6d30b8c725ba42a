"""Meaning of a memory directory: what is encoded when, what is kept, and what if something is odd."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="vectors need numpy: install the extra `embed`")

from nacre.memory.recall.ranking.analysis import Doc
from nacre.memory.recall.ranking.ranker import Ranker
from nacre.memory.recall.semantic import meaning as encoders
from nacre.memory.recall.semantic.meaning import VECTORS_FILE, SemanticIndex, semantic_index, text_of
from nacre.testing import FrozenClock
from tests.memory.recall.semantic.stand_in import StandIn, docs

TEXTS = {"a.md": "the car is red", "b.md": "the cat sleeps", "c.md": "we met the doctor"}
PLENTY = 3600.0


class Lazy(Mapping[str, str]):
    """Texts that remember which of them were asked for, and where some cannot be read."""

    def __init__(self, texts: Mapping[str, str], *, unreadable: frozenset[str] = frozenset()) -> None:
        self.asked: list[str] = []
        self._texts, self._unreadable = texts, unreadable

    def __getitem__(self, file: str) -> str:
        self.asked.append(file)
        if file in self._unreadable:
            raise KeyError(file)
        return self._texts[file]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def caught_up(cache: Path, texts: Mapping[str, str]) -> list[str]:
    """What a fresh process has to encode to know these texts."""
    encoder = StandIn()
    assert SemanticIndex(cache, encoder=encoder).catch_up(texts, seconds=PLENTY) == 0
    return encoder.encoded


def test_only_what_is_new_or_changed_is_encoded(tmp_path: Path) -> None:
    """R9: incremental, in this process and in the next."""
    assert caught_up(tmp_path, TEXTS) == list(TEXTS.values())
    assert caught_up(tmp_path, TEXTS) == []
    assert caught_up(tmp_path, TEXTS | {"b.md": "the cat is awake", "d.md": "new"}) == [
        "the cat is awake",
        "new",
    ]


def test_a_file_that_was_renamed_is_not_encoded_again(tmp_path: Path) -> None:
    """R9: a vector belongs to a text."""
    caught_up(tmp_path, TEXTS)
    assert caught_up(tmp_path, {"moved/a.md": TEXTS["a.md"]}) == []


def test_the_vector_of_a_file_that_is_gone_is_dropped(tmp_path: Path) -> None:
    """R9, M15: nothing is kept of what was forgotten."""
    caught_up(tmp_path, TEXTS)
    caught_up(tmp_path, {"a.md": TEXTS["a.md"]})
    assert b"b.md" not in (tmp_path / "recall" / VECTORS_FILE).read_bytes()
    assert caught_up(tmp_path, {"b.md": TEXTS["b.md"]}) == [TEXTS["b.md"]]


def test_a_call_ends_when_its_time_is_up_and_says_what_is_missing(tmp_path: Path) -> None:
    """R9: one text may take a tenth of a second, and a call is given so much time."""
    clock = FrozenClock()
    encoder = StandIn(clock, costs=2.0)
    kept = SemanticIndex(tmp_path, encoder=encoder, clock=clock)
    many = {f"{number}.md": f"text {number}" for number in range(7)}
    assert [kept.catch_up(many, seconds=seconds) for seconds in (0.0, 3.0, 0.001, 100.0)] == [7, 5, 4, 0]
    assert encoder.encoded == list(many.values())


def test_a_file_whose_stamp_is_known_is_not_even_read(tmp_path: Path) -> None:
    """R9: noticing that nothing changed costs no reading."""
    stamps = dict.fromkeys(TEXTS, "1")
    kept = SemanticIndex(tmp_path, encoder=StandIn())
    kept.catch_up(TEXTS, seconds=PLENTY, stamps=stamps)
    again = Lazy(TEXTS)
    assert (
        SemanticIndex(tmp_path, encoder=StandIn()).catch_up(
            again, seconds=PLENTY, stamps=stamps | {"b.md": "2"}
        )
        == 0
    )
    assert again.asked == ["b.md"]


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """R3: never fatal."""
    kept = SemanticIndex(tmp_path, encoder=StandIn())
    assert kept.catch_up(Lazy(TEXTS, unreadable=frozenset({"b.md"})), seconds=PLENTY) == 0


@pytest.mark.parametrize("damage", [b"", b"nacre vectors 1\n", b"\0" * 5000, None])
def test_a_damaged_file_is_built_again_silently(tmp_path: Path, damage: bytes | None) -> None:
    """R9: derived and disposable; None is a folder in its place."""
    caught_up(tmp_path, TEXTS)
    path = tmp_path / "recall" / VECTORS_FILE
    path.unlink()
    if damage is None:
        path.mkdir()
    else:
        path.write_bytes(damage)
    assert caught_up(tmp_path, TEXTS) == list(TEXTS.values())
    assert caught_up(tmp_path, TEXTS) == (list(TEXTS.values()) if damage is None else [])


def test_a_file_that_somebody_removed_is_saved_again(tmp_path: Path) -> None:
    """R9, M15: a purge drops it; what still belongs there comes back without encoding."""
    encoder = StandIn()
    kept = SemanticIndex(tmp_path, encoder=encoder)
    kept.catch_up(TEXTS, seconds=PLENTY)
    (tmp_path / "recall" / VECTORS_FILE).unlink()
    assert kept.catch_up(TEXTS, seconds=PLENTY) == 0
    assert len(encoder.encoded) == len(TEXTS)
    assert caught_up(tmp_path, TEXTS) == []


def test_where_nothing_can_be_written_meaning_works_in_memory(tmp_path: Path) -> None:
    """R9: a read-only home, or one where a file stands in the way."""
    (tmp_path / "recall").write_text("not a folder")
    ranker = Ranker.over(docs("the car is red", "the cat sleeps"))
    texts = {"0.md": "the car is red", "1.md": "the cat sleeps"}
    for kept in (
        SemanticIndex(tmp_path, encoder=StandIn()),
        SemanticIndex(tmp_path / "other", encoder=StandIn(), writes=False),
    ):
        assert kept.catch_up(texts, seconds=PLENTY) == 0
        kept.close()
        assert kept.catch_up(texts, seconds=PLENTY) == 0
        assert kept.rank(ranker, "feline", limit=1).picks[0].id == "1.md"
    assert not (tmp_path / "other").exists()


def test_what_another_process_encoded_is_taken_in(tmp_path: Path) -> None:
    """R9: several processes share one file."""
    encoder = StandIn()
    kept = SemanticIndex(tmp_path, encoder=encoder)
    kept.catch_up({"a.md": TEXTS["a.md"]}, seconds=PLENTY)
    caught_up(tmp_path, TEXTS)
    assert kept.catch_up(TEXTS, seconds=PLENTY) == 0
    assert encoder.encoded == [TEXTS["a.md"]]


WRITER = """
import sys
from pathlib import Path
from nacre.memory.recall.semantic.meaning import SemanticIndex
from tests.memory.recall.semantic.stand_in import StandIn
cache, own = Path(sys.argv[1]), sys.argv[2]
texts = {}
for number in range(60):
    texts[f"{number}.md"] = f"text {number}"
    texts[f"{own}.md"] = f"only {own} says {number}"
    assert SemanticIndex(cache, encoder=StandIn()).catch_up(texts, seconds=9) == 0
"""


def test_processes_that_write_at_once_leave_a_whole_file(tmp_path: Path) -> None:
    """R9: written aside and renamed; nobody reads half a file, nothing is left lying about."""
    root = Path(__file__).parents[4]
    environment = os.environ | {"PYTHONPATH": str(root)}
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, own], cwd=root, env=environment)
        for own in ("x", "y")
    ]
    assert [process.wait() for process in started] == [0, 0]
    assert [path.name for path in (tmp_path / "recall").iterdir()] == [VECTORS_FILE]
    common = {f"{number}.md": f"text {number}" for number in range(60)}
    assert caught_up(tmp_path, common) == []


def test_one_thread_may_rank_while_another_encodes(tmp_path: Path) -> None:
    """R1: catching up goes on in the background and never delays a message."""
    bodies = [f"the car number {number} is red" for number in range(200)]
    ranker = Ranker.over(docs(*bodies))
    kept = SemanticIndex(tmp_path, encoder=StandIn())
    texts = {f"{number}.md": body for number, body in enumerate(bodies)}
    kept.catch_up(texts, seconds=0.0001)
    worker = threading.Thread(target=lambda: [kept.catch_up(texts, seconds=0.001) for _ in range(300)])
    worker.start()
    while worker.is_alive():
        assert len(kept.rank(ranker, "which automobile is red", limit=5).picks) == 5
    worker.join()
    assert kept.catch_up(texts, seconds=PLENTY) == 0


def test_a_message_is_encoded_once_for_all_directories(tmp_path: Path) -> None:
    """R9: project, person and team are asked the same."""
    encoder, ranker = StandIn(), Ranker.over(docs("the car is red"))
    for folder in ("project", "person", "team"):
        kept = SemanticIndex(tmp_path / folder, encoder=encoder)
        kept.catch_up({"0.md": "the car is red"}, seconds=PLENTY)
        kept.rank(ranker, "what is red")
    assert encoder.encoded.count("what is red") == 1


def test_of_a_long_message_the_start_and_the_end_are_read(tmp_path: Path) -> None:
    """R9: a pasted page must not cost a tenth of a second; the question stands before or after it."""
    encoder, ranker = StandIn(), Ranker.over(docs("the car is red"))
    kept = SemanticIndex(tmp_path, encoder=encoder)
    kept.catch_up({"0.md": "the car is red"}, seconds=PLENTY)
    kept.rank(ranker, f"Why does this fail? {'noise ' * 10_000} It is about the car.")
    read = encoder.encoded[-1]
    assert read.startswith("Why does this fail?") and read.endswith("It is about the car.")
    assert len(read) <= 2 * encoders.HALF_CHARS + 1


def test_a_memory_is_encoded_with_its_name_and_whose_words_it_is() -> None:
    """R9."""
    whole = Doc(id="a.md", name="Deploy day", description="When we ship", author="ada", body="On Monday.")
    assert text_of(whole) == "Deploy day. When we ship\nada: On Monday."
    assert text_of(Doc(id="a.md", body="On Monday.")) == "On Monday."


def test_without_numpy_there_is_no_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: the extra is numpy alone. Patched because what is installed cannot be taken away otherwise."""
    found = semantic_index(tmp_path)
    assert found is not None and not found.is_ready
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert semantic_index(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deploy", True),
        ("Prüfung à Noël", True),
        ("我们每周一部署", True),
        ("Привет, как дела", False),
        ("", True),
    ],
)
def test_languages_that_the_model_was_not_trained_on_are_ranked_by_words(text: str, expected: bool) -> None:
    """R9."""
    assert encoders.is_readable(text) is expected


def test_asking_whether_there_is_meaning_imports_no_numpy(tmp_path: Path) -> None:
    """R9: start-up stays as quick as without the extra."""
    script = (
        "import sys; from pathlib import Path\n"
        "from nacre.memory.recall.semantic.meaning import semantic_index\n"
        "semantic_index(Path(sys.argv[1])); print('numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
