"""The index of a directory: derived, kept up to date, and rebuilt without a word when anything is odd."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.memory.recall.base import RecallQuery
from nacre.memory.recall.local_index import FILE, SAVE_FROM, SMALL_PART, LocalIndex
from nacre.memory.recall.ranking.analysis import speaker_of
from nacre.testing import FrozenClock
from tests.scale import scaled

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    directory = tmp_path / "memory"
    directory.mkdir()
    return directory, tmp_path / "cache"


def write(directory: Path, file: str, text: str, **fields: str) -> Path:
    head = "".join(f"{key}: {value}\n" for key, value in fields.items())
    path = directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{head}---\n{text}\n" if fields else text)
    return path


def found(index: LocalIndex, text: str, *, limit: int = 5) -> list[str]:
    index.refresh()
    return [one.entry.file for one in index.rank(RecallQuery(text=text, now=NOW), limit=limit)]


def test_what_is_added_changed_and_removed_is_noticed(place: tuple[Path, Path]) -> None:
    """R9: incremental, and never what a file said before."""
    directory, cache = place
    index = LocalIndex(directory, cache)
    assert found(index, "where do whales live?") == []
    path = write(directory, "a.md", "Whales live in the bay.", name="Whales", description="where they live")
    assert found(index, "where do whales live?") == ["a.md"]
    write(directory, "a.md", "Storks live on the roof.", name="Storks", description="where they live")
    assert found(index, "which whales?") == []
    assert found(index, "which storks?") == ["a.md"]
    path.unlink()
    assert found(index, "which storks?") == []


def test_a_new_process_takes_up_what_an_old_one_kept(place: tuple[Path, Path]) -> None:
    """R9: saved once it pays, opened lazily, with the same ranking and the same heads."""
    directory, cache = place
    for number in range(SAVE_FROM + 10):
        write(
            directory, f"n{number}.md", f"Item {number} is about topic{number} and herons.", name=f"N{number}"
        )
    write(directory, "h.md", "Herons nest in April.", name="Herons", type="project", origin="untrusted")
    first = LocalIndex(directory, cache)
    ranked = found(first, "when do herons nest?", limit=20)
    first.close()
    assert (cache / "recall" / FILE).stat().st_mode & 0o077 == 0
    second = LocalIndex(directory, cache)
    assert found(second, "when do herons nest?", limit=20) == ranked
    top = second.rank(RecallQuery(text="when do herons nest?", now=NOW), limit=1)[0].entry
    assert (top.file, top.name, top.kind, top.origin) == ("h.md", "Herons", "project", "untrusted")
    write(directory, "h.md", "Gulls nest in May.", name="Gulls")
    assert found(second, "when do gulls nest?")[0] == "h.md"
    second.close()
    assert found(LocalIndex(directory, cache), "when do gulls nest?")[0] == "h.md"


def test_the_vectors_of_notes_are_stored_and_follow_the_files(place: tuple[Path, Path]) -> None:
    """R9: a new process compares notes without computing them again; those of removed files are not kept."""
    directory, cache = place

    def vectors(index: LocalIndex) -> dict[str, list[int]]:
        numbers = index._index.by_id
        read = index._index.vectors.of(numbers.values())
        return {file: list(read[number]) for file, number in numbers.items() if number in read}

    for number in range(SAVE_FROM):
        write(directory, f"{number}.md", f"Whale {number} sings.", name=f"Whale {number}")
    write(directory, "plain.md", "A file without a head is no note.")
    first = LocalIndex(directory, cache)
    first.refresh()
    first.close()
    stored = LocalIndex(directory, cache)
    stored.refresh()
    known = vectors(stored)
    assert known.keys() == {f"{number}.md" for number in range(SAVE_FROM)}
    write(directory, "0.md", "Invoices are due in March.", name="Invoices")
    (directory / "1.md").unlink()
    stored.refresh()
    changed = vectors(stored)
    assert changed.keys() == known.keys() - {"1.md"}
    assert {file for file in changed if changed[file] != known[file]} == {"0.md"}
    stored._save()
    stored.close()
    with sqlite3.connect(cache / "recall" / FILE) as db:
        assert db.execute("select count(*) from vector").fetchone() == (SAVE_FROM - 1,)
    fresh = LocalIndex(directory, cache)
    fresh.refresh()
    assert vectors(fresh) == changed


def test_a_file_that_is_read_again_keeps_its_place_among_equals(place: tuple[Path, Path]) -> None:
    """R9: a ranking depends on what the files say, not on when each of them was looked at."""
    directory, cache = place
    for number in range(40):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number} and herons.", name="N")
    clock = FrozenClock()  # for which no file was written just now
    index = LocalIndex(directory, cache, clock=clock)
    ranked = found(index, "what about herons?", limit=40)
    for number in (5, 20, 31):
        path = directory / f"n{number}.md"
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert found(index, "what about herons?", limit=40) == ranked
    assert found(LocalIndex(directory, cache, clock=clock), "what about herons?", limit=40) == ranked


@pytest.mark.parametrize("damage", [b"", b"not a database", None])
def test_a_damaged_index_is_rebuilt_without_a_word(place: tuple[Path, Path], damage: bytes | None) -> None:
    """R9, bad input: corrupted, half-written, cut in the middle."""
    directory, cache = place
    for number in range(SAVE_FROM + 10):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number}.", name=f"N{number}")
    index = LocalIndex(directory, cache)
    index.refresh()
    index.close()
    kept = cache / "recall" / FILE
    data = kept.read_bytes()
    kept.write_bytes(data[: len(data) // 2] if damage is None else damage)
    assert found(LocalIndex(directory, cache), "what is topic7 about?")[0] == "n7.md"


def test_odd_files_are_left_out_and_nothing_blocks(place: tuple[Path, Path]) -> None:
    """R3, bad input: a FIFO, a link out, a folder, bytes that are no text; the team's folder is another's."""
    directory, cache = place
    write(directory, "good.md", "Whales live in the bay.")
    write(directory, "team/theirs.md", "Whales of the team.")
    write(directory, "MEMORY.md", "- [Whales](good.md)")
    os.mkfifo(directory / "pipe.md")
    (directory / "folder.md").mkdir()
    (directory / "bytes.md").write_bytes(bytes(range(256)) * 40)
    outside = write(directory.parent, "outside.md", "Whales outside.")
    (directory / "link.md").symlink_to(outside)
    assert found(LocalIndex(directory, cache), "where do whales live?") == ["good.md"]


def test_a_file_that_is_no_utf_8_is_left_out_as_in_the_list(place: tuple[Path, Path]) -> None:
    directory, cache = place
    (directory / "menu.md").write_bytes(b"---\nname: menu\n---\nthe caf\xe9 serves whales\n")
    index = LocalIndex(directory, cache)
    assert found(index, "which whales?") == []
    (directory / "menu.md").write_text("---\nname: menu\n---\nthe caf\u00e9 serves whales\n")
    assert found(index, "which whales?") == ["menu.md"]


def test_where_nothing_may_be_written_nothing_is(place: tuple[Path, Path]) -> None:
    """M27: a session that leaves no trace ranks all the same."""
    directory, cache = place
    for number in range(SAVE_FROM + 10):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number}.")
    index = LocalIndex(directory, cache, writes=False)
    assert found(index, "what is topic7 about?")[0] == "n7.md"
    index.close()
    assert not cache.exists()


def test_two_processes_may_build_it_at_once(place: tuple[Path, Path]) -> None:
    """R9: safe with several processes; who comes last puts a whole file in place."""
    directory, cache = place
    for number in range(200):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number}.")
    code = (
        "import sys; from pathlib import Path; from nacre.memory.recall.local_index import LocalIndex\n"
        f"index = LocalIndex(Path({str(directory)!r}), Path({str(cache)!r}))\n"
        "index.refresh(); index.close()"
    )
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert found(LocalIndex(directory, cache), "what is topic123 about?")[0] == "n123.md"
    assert [path.name for path in (cache / "recall").iterdir()] == [FILE]


@pytest.mark.parametrize("text", ["", "x", "?!", "the of and", "词", "a" * 100_000, "word " * 20_000])
def test_any_query_gets_an_answer(place: tuple[Path, Path], text: str) -> None:
    """Bad input: empty, one word, only stop words, 100 KB."""
    directory, cache = place
    write(directory, "good.md", "Whales live in the bay.")
    assert isinstance(found(LocalIndex(directory, cache), text), list)


@settings(max_examples=scaled(40), deadline=None)
@given(body=st.text(max_size=400), query=st.text(max_size=200))
def test_no_text_makes_it_fail(tmp_path_factory: pytest.TempPathFactory, body: str, query: str) -> None:
    directory = tmp_path_factory.mktemp("any")
    (directory / "a.md").write_text(body, encoding="utf-8", errors="replace")
    assert set(found(LocalIndex(directory, directory / "cache"), query)) <= {"a.md"}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("部署在每周二进行，由小王负责。", "谁负责部署？"),
        ("デプロイは毎週火曜日に行います。", "デプロイはいつですか"),
        ("The handler is parse_frontmatter in memory/frontmatter.py.", "where is the frontmatter parser?"),
        ("Set maxOutputTokens when replies are cut.", "what about max output tokens?"),
        ("Run `make bench-recall` before a release.", "which bench-recall command?"),
    ],
)
def test_other_scripts_and_identifiers_are_found_by_their_parts(
    place: tuple[Path, Path], text: str, query: str
) -> None:
    """R11"""
    directory, cache = place
    write(directory, "it.md", text)
    write(directory, "other.md", "Green tea is best at noon.")
    assert found(LocalIndex(directory, cache), query)[:1] == ["it.md"]


def test_of_two_tools_notes_the_warning_counts_while_the_tool_is_in_use(place: tuple[Path, Path]) -> None:
    """R13: documentation down, warnings up."""
    directory, cache = place
    write(
        directory,
        "docs.md",
        "Grep takes a pattern.",
        name="Grep usage",
        description="usage of Grep",
    )
    write(directory, "warn.md", "Grep skips links.", name="Grep gotcha", description="warning about Grep")
    index = LocalIndex(directory, cache)
    index.refresh()

    def sure(*tools: str) -> dict[str, float]:
        query = RecallQuery(text="how do I use Grep patterns?", now=NOW, recent_tools=tools)
        return {one.entry.file: one.confidence for one in index.rank(query, limit=5)}

    before, during = sure(), sure("Grep")
    assert during["docs.md"] < before["docs.md"]
    assert during["warn.md"] >= before["warn.md"]


@pytest.mark.parametrize("when", ["0001-01-01", "9999-12-31T23:59:59Z", "not a day"])
def test_a_date_at_the_end_of_the_calendar_is_no_reason_to_fail(place: tuple[Path, Path], when: str) -> None:
    """R3: a file that is odd never costs the others their place."""
    directory, cache = place
    write(directory, "a.md", "Whales live in the bay.", name="Whales", modified=when)
    assert found(LocalIndex(directory, cache), "where do whales live?") == ["a.md"]


def test_a_name_that_is_no_text_is_left_out(place: tuple[Path, Path]) -> None:
    """R3: it cannot be saved, and nothing else may be lost for it."""
    directory, cache = place
    for number in range(SAVE_FROM + 1):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number}.")
    (Path(os.fsdecode(os.fsencode(directory) + b"/caf\xe9.md"))).write_text("Cafe with whales.")
    index = LocalIndex(directory, cache)
    assert found(index, "what is topic7 about?")[0] == "n7.md"
    assert found(index, "where are whales?") == []
    index.close()
    assert (cache / "recall" / FILE).exists()


def test_a_file_from_the_future_is_read_once(
    place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: its stamp is as good as any other; patched to see what is read, which nothing else shows."""
    directory, cache = place
    path = write(directory, "a.md", "Whales live in the bay.")
    os.utime(path, (4e9, 4e9))
    index = LocalIndex(directory, cache)
    index.refresh()
    read: list[str] = []
    monkeypatch.setattr("nacre.memory.recall.local_index._read", lambda path: read.append(path.name))
    index.refresh()
    assert read == []


def test_no_word_of_a_file_that_is_gone_stays_on_disk(place: tuple[Path, Path]) -> None:
    """M14b: what was erased for good must not come back with the next save of a session that was open."""
    directory, cache = place
    for number in range(SAVE_FROM + 10):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number}.")
    secret = write(directory, "secret.md", "The xylophonist lives in Quxville.", name="Xylophonist")
    index = LocalIndex(directory, cache)
    index.refresh()
    index.close()
    kept = cache / "recall" / FILE
    assert b"xylophonist" in kept.read_bytes()
    again = LocalIndex(directory, cache)
    again.refresh()
    secret.unlink()
    kept.unlink()
    again.refresh()
    again.close()
    data = kept.read_bytes()
    assert not [word for word in (b"xylophon", b"quxvill", b"Quxville", b"secret.md") if word in data]
    assert found(LocalIndex(directory, cache), "what is topic7 about?")[0] == "n7.md"


def test_an_index_is_made_in_steps_and_can_be_asked_between_them(place: tuple[Path, Path]) -> None:
    """R9: nobody who asks has to wait for all of a large store, and what is found by then is right."""
    directory, cache = place
    for number in range(4):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number}.")
    index = LocalIndex(directory, cache, clock=FrozenClock())  # for which no file was written just now
    assert index.catch_up(seconds=0) == 3
    assert index.rank(RecallQuery(text="what is topic3 about?", now=NOW), limit=5) == []
    assert [index.catch_up(seconds=0) for _ in range(4)] == [2, 1, 0, 0]
    [first, *_] = index.rank(RecallQuery(text="what is topic3 about?", now=NOW), limit=5)
    assert first.entry.file == "n3.md"


def test_whoever_is_killed_while_an_index_is_made_leaves_what_was_read(place: tuple[Path, Path]) -> None:
    """R9: the next one goes on from there; it is never closed here, as nothing that is killed is."""
    directory, cache = place
    for number in range(3 * SAVE_FROM):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number}.")
    index = LocalIndex(directory, cache, clock=FrozenClock())
    while index.catch_up(seconds=0) > SAVE_FROM:
        pass
    assert LocalIndex(directory, cache, clock=FrozenClock()).catch_up(seconds=0) < 2 * SAVE_FROM
    later = LocalIndex(directory, cache)
    assert {found(later, f"what is topic{number} about?")[0] for number in (0, 77, 149)} == {
        "n0.md", "n77.md", "n149.md",
    }  # fmt: skip


def test_a_few_new_files_are_no_reason_to_write_a_large_index_anew(place: tuple[Path, Path]) -> None:
    directory, cache = place
    for number in range(2 * SMALL_PART + 1):
        write(directory, f"n{number}.md", f"Item {number} is about topic{number}.")
    kept = cache / "recall" / FILE

    def closed() -> int:
        index = LocalIndex(directory, cache, clock=FrozenClock())
        index.refresh()
        index.close()
        return kept.stat().st_ino

    first = closed()
    write(directory, "new.md", "The kettle is red.")
    assert closed() == first
    write(directory, "newer.md", "The kettle is blue.")
    assert closed() != first
    index = LocalIndex(directory, cache, clock=FrozenClock())
    write(directory, "newest.md", "The kettle is gone.")
    index.refresh()
    kept.unlink()  # as a purge does
    index.close()
    assert kept.exists()


def test_who_says_a_message_is_read_from_its_text(tmp_path: Path) -> None:
    """R9: no field names the speaker, and the messages lie in one folder."""
    said = (
        ("Nora", "I signed up for a pottery class at the community hall."),
        ("Felix", "I took a class there last year, too, in carpentry."),
        ("Nora", "What did you make?"),
        ("Felix", "A shelf and a stool."),
    )
    directory = tmp_path / "memory"
    directory.mkdir()
    for number, (who, text) in enumerate(said):
        (directory / f"talk-{number}.md").write_text(f"{who}: {text}\n")
    (directory / "note.md").write_text("Note: the class is on Mondays.\n")
    index = LocalIndex(directory, tmp_path / "cache")
    index.refresh()
    assert set(index._index.authors) == {"nora", "felix", ""}
    first, *_ = index.rank(RecallQuery(text="Which class did Felix take?", now=NOW), limit=5)
    assert first.file == "talk-1.md"
    assert first.parts["by_asked_author"] > 0


@pytest.mark.parametrize(
    ("body", "speaker"),
    [
        ("Nora: I signed up.", "Nora"),
        ("user: where is it", "user"),
        ("Why: it broke.", ""),
        ("Deploy command: make stage", ""),
        ("Nora: I signed up.\n\nFelix: Nice.", ""),
        ("It rained.", ""),
    ],
)
def test_only_one_message_of_one_person_has_a_speaker(body: str, speaker: str) -> None:
    assert speaker_of(body) == speaker


def test_a_word_before_a_colon_in_a_single_file_is_no_name(tmp_path: Path) -> None:
    """R9: it stays a word that is looked for."""
    directory = tmp_path / "memory"
    directory.mkdir()
    (directory / "a.md").write_text("Release: every Tuesday before noon.\n")
    (directory / "b.md").write_text("The heron nests at the pond.\n")
    assert found(LocalIndex(directory, tmp_path / "cache"), "when is the release")[0] == "a.md"
