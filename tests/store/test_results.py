"""The shelf: one file a call, whole or not there, whatever the id and the text are (C4, C8)."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import StoreError
from nacre.store.tool_results import PIECE_CHARS, TEMP_PREFIX, ToolResultStore


@pytest.fixture
def shelf(tmp_path: Path) -> ToolResultStore:
    return ToolResultStore(tmp_path / "session" / "tool-results", sync=False)


def test_a_plain_id_is_its_own_file_name_and_only_the_owner_may_look(shelf: ToolResultStore) -> None:
    path = shelf.keep("toolu_01AbC-x", "out").path
    assert path.name == "toolu_01AbC-x.txt" and path.read_text() == "out"
    assert shelf.keep("toolu_2", "[]", structured=True).path.name == "toolu_2.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_an_id_that_comes_again_with_another_text_gets_a_file_of_its_own(shelf: ToolResultStore) -> None:
    """C6: a pointer always leads to the very text it was made for."""
    first, again = shelf.keep("call_1", "one"), ToolResultStore(shelf.folder).keep("call_1", "one")
    other, other_again = shelf.keep("call_1", "two!"), shelf.keep("call_1", "two!")
    longer = shelf.keep("call_1", "one more")
    assert first == again and other == other_again
    texts = [one.path.read_text() for one in (first, other, longer)]
    assert texts == ["one", "two!", "one more"]
    assert [one.bytes for one in (first, other, longer)] == [3, 4, 8]


@pytest.mark.parametrize(
    "hostile",
    ["../../etc/passwd", "/etc/passwd", "", ".", "..", ".hidden", "a\0b", "x" * 5_000, "a/b", "é", "\ud800",
     "a b", "id=0", "toolu_1\n", "~", "C:\\x", ".writing-x"],
)  # fmt: skip
def test_an_id_that_is_no_file_name_gets_a_safe_one(shelf: ToolResultStore, hostile: str) -> None:
    path = shelf.keep(hostile, "out").path
    assert path.parent == shelf.folder
    assert list(path.parent.iterdir()) == [path] == [shelf.path(hostile)]
    assert shelf.read(hostile) == "out"
    assert [one.path for one in shelf.held()] == [path]


@given(st.lists(st.text(max_size=12), unique=True, max_size=6))
def test_no_two_ids_share_a_file_even_where_case_is_ignored(ids: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        shelf = ToolResultStore(Path(folder), sync=False)
        for one in ids:
            shelf.keep(one, f"text of {one!r}")
        again = ToolResultStore(Path(folder))
        assert [again.read(one) for one in ids] == [f"text of {one!r}" for one in ids]
        names = [path.name.casefold() for path in Path(folder).iterdir()]
        assert len(set(names)) == len(ids)


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_every_text_is_read_back_as_it_was_put(text: str) -> None:
    """Half surrogate pairs, carriage returns, zero bytes: nothing is translated."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        shelf = ToolResultStore(Path(folder), sync=False)
        shelf.keep("a", text + "\r\n\0\ud800")
        assert shelf.read("a") == text + "\r\n\0\ud800"


def test_a_text_is_cut_into_pieces_for_writing_and_comes_out_in_one(shelf: ToolResultStore) -> None:
    text = "aé漢\U0001f600" * (PIECE_CHARS // 4) + "the end"
    kept = shelf.keep("long", text)
    assert kept.bytes == len(text.encode()) and shelf.read("long") == text
    assert shelf.keep("long", text) == kept
    assert shelf.keep("long", text + "!").path != kept.path


def test_many_who_keep_one_id_at_once_are_each_pointed_to_their_own_text(shelf: ToolResultStore) -> None:
    """C6: whoever comes second gets a file of its own, also when nobody was first a moment ago."""
    texts = [str(n) * 300_000 for n in range(8)]
    with ThreadPoolExecutor(len(texts)) as pool:
        kept = list(pool.map(lambda text: ToolResultStore(shelf.folder, sync=False).keep("one", text), texts))
    assert [one.path.read_text() for one in kept] == texts
    assert len(shelf.held()) == len(texts) and not shelf.leavings()


def test_a_session_that_leaves_nothing_on_disk_keeps_no_result() -> None:
    shelf = ToolResultStore(None)
    assert shelf.path("a") is None and shelf.held() == [] and shelf.read("a") is None
    with pytest.raises(StoreError, match="leaves nothing on disk"):
        shelf.keep("a", "text")


def test_a_folder_that_cannot_be_written_is_said_in_one_line(shelf: ToolResultStore) -> None:
    assert shelf.folder is not None
    shelf.folder.parent.mkdir(parents=True)
    shelf.folder.write_text("a file where the folder should be")
    with pytest.raises(StoreError) as refused:
        shelf.keep("a", "text")
    assert "\n" not in str(refused.value) and "tool-results" in str(refused.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_refuses_and_stays_empty(shelf: ToolResultStore) -> None:
    assert shelf.folder is not None
    shelf.folder.mkdir(parents=True)
    shelf.folder.chmod(0o500)
    with pytest.raises(StoreError, match="no permission"):
        shelf.keep("a", "text")
    assert list(shelf.folder.iterdir()) == []
    shelf.folder.chmod(0o700)


FULL = """
import resource, signal, sys
from pathlib import Path
from nacre.errors import StoreError
from nacre.store.tool_results import ToolResultStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
shelf = ToolResultStore(Path(sys.argv[1]))
shelf.keep("small", "fits")
try:
    shelf.keep("large", "x" * 3_000_000)
except StoreError as error:
    print(error)
print(sorted(path.name for path in Path(sys.argv[1]).iterdir()))
"""


def test_a_full_disk_refuses_and_leaves_no_half_file(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-B", "-c", FULL, str(tmp_path / "shelf")],
        capture_output=True,
        text=True,
        check=True,
    )
    said, names = ran.stdout.splitlines()
    assert said.startswith("disk full") and names == "['small.txt']"


def test_what_a_killed_process_left_half_written_is_told_apart(shelf: ToolResultStore) -> None:
    path = shelf.keep("a", "text").path
    half = path.with_name(f"{TEMP_PREFIX}abc")
    half.write_text("ha")
    (path.parent / "link.txt").symlink_to(path)
    (path.parent / "folder").mkdir()
    assert [one.path for one in shelf.held()] == [path]
    assert [one.path for one in shelf.leavings()] == [half]
    assert shelf.held()[0].bytes == 4


def test_a_file_somebody_removed_is_simply_not_there(shelf: ToolResultStore) -> None:
    shelf.keep("a", "text").path.unlink()
    assert shelf.read("a") is None
    assert shelf.keep("a", "text again").path.read_text() == "text again"


TWO_HUNDRED = """
import resource, sys
from pathlib import Path
from nacre.store.tool_results import ToolResultStore
text = "0123456789" * 20_000_000
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kept = ToolResultStore(Path(sys.argv[1]), sync=False).keep("large", text)
print(kept.bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_two_hundred_megabytes_are_not_held_twice(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TWO_HUNDRED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    written, grown_kilobytes = map(int, ran.stdout.split())
    assert written == 200_000_000 and grown_kilobytes < 50_000
