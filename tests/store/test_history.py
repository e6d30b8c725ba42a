"""The history of a directory: what goes in comes out, for us and for git (M14b, M15)."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.errors import OutsideStore, StoreError
from nacre.store.git_objects import SPLIT_ABOVE
from nacre.store.git_packs import MAX_WRITTEN_DEPTH
from nacre.store.history import Commit, History, PurgedHistory, Signature, holding, purge
from tests.histories import commit_files, without_lines
from tests.scale import scaled

NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def git(history: History, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(history.repository.path), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit(history: History, files: Mapping[str, bytes | None], reason: str = "because") -> str:
    return commit_files(history, files, author="agent", reason=reason, session="s-1", at=AT)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history" / "m.git")


def test_a_commit_says_who_why_when_and_what(history: History) -> None:
    first = commit(history, {"a.md": b"one\n", "logs/2026/b.md": b"two\n"}, "begin\n\nwith two")
    second = commit_files(history, {"a.md": None}, author="user", reason="drop a", at=AT)
    assert history.log(9) == [
        Commit(id=second, author="user", reason="drop a", session="", at=AT, files=("a.md",)),
        Commit(
            id=first,
            author="agent",
            reason="begin\n\nwith two",
            session="s-1",
            at=AT,
            files=("a.md", "logs/2026/b.md"),
        ),
    ]
    assert history.log(1) == [history.one(second)]
    assert history.log(9, file="logs/2026/b.md") == [history.one(first)]
    assert history.read(first, "a.md") == b"one\n"
    assert history.read(second, "a.md") is None
    assert set(history.tree(second)) == {"logs/2026/b.md"}


def test_before_the_first_commit_there_is_nothing(history: History) -> None:
    assert history.newest == ""
    assert history.log(5) == []
    assert not history.repository.path.exists()


@pytest.mark.parametrize(
    "reason",
    ["", "Session: x", "a\n\nSession: forged\n", "tree 0\nauthor x <y> 1 +0000", "ünï\udc80", "a\0b"],
)
def test_no_reason_can_pass_for_something_else(reason: str, history: History) -> None:
    made = commit_files(history, {"a.md": b""}, author="dream", reason=reason, session="real\nsession", at=AT)
    told = history.one(made)
    assert (told.author, told.session, told.at, told.files) == ("dream", "real session", AT, ("a.md",))
    expected = reason.strip("\n").replace("\0", "").replace("\udc80", "?")
    assert told.reason == (expected or "no reason given")


def test_an_author_cannot_break_out_of_its_line(history: History) -> None:
    made = commit_files(history, {"a.md": b""}, author="x> 1 +0000\nparent y <z", reason="r", at=AT)
    assert "\n" not in history.one(made).author
    assert history.one(made).at == AT


def test_a_short_id_is_enough_where_it_is_clear(history: History) -> None:
    made = commit(history, {"a.md": b"1"})
    assert history.one(made[:8]).id == made
    for wrong in ("ffff0000", "nothing!", "0"):
        with pytest.raises(StoreError, match="nacre memory log"):
            history.one(wrong)


@pytest.mark.parametrize("name", ["../x.md", "/x.md", "a//b.md", "", "~00/x.md", "a/~3f/b.md"])
def test_a_name_that_leaves_or_is_ours_is_refused(name: str, history: History) -> None:
    with pytest.raises((OutsideStore, StoreError)):
        commit(history, {name: b""})
    assert history.newest == ""


def test_a_diff_is_unified_text(history: History) -> None:
    first = commit(history, {"a.md": b"one\ntwo\n", "b.md": b"same"})
    second = commit(history, {"a.md": b"one\n2\n"})
    third = commit(history, {"a.md": None, "c.md": b"\xff no newline"})
    [changed] = history.diff(second)
    assert changed.text == "--- a/a.md\n+++ b/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert sorted(history.changes(first, third)) == ["a.md", "c.md"]
    gone, new = history.diff(third)
    assert gone.text.startswith("--- a/a.md\n+++ /dev/null\n")
    assert new.text == (
        "--- /dev/null\n+++ b/c.md\n@@ -0,0 +1 @@\n+\ufffd no newline\n\\ No newline at end of file\n"
    )


@NEEDS_GIT
def test_plain_git_reads_it_and_finds_it_sound(history: History) -> None:
    """M15: `git log` and `git show` work on it, before and after a folder is split over many trees."""
    commit(history, {"topic_1.md": b"first\n"}, "the first")
    commit(history, {f"topic_{n}.md": b"%d\n" % n for n in range(SPLIT_ABOVE + 50)}, "many")
    commit(history, {"topic_1.md": b"changed\n", "a b/ü.md": "ü\n".encode()}, "one of many")
    assert git(history, "fsck", "--strict", "--full") == ""
    assert git(history, "log", "--format=%an|%s|%cI").splitlines() == [
        "agent|one of many|2026-03-04T05:06:07+00:00",
        "agent|many|2026-03-04T05:06:07+00:00",
        "agent|the first|2026-03-04T05:06:07+00:00",
    ]
    assert git(history, "log", "--format=%s", "--", "*topic_1.md").splitlines() == [
        "one of many",
        "many",
        "the first",
    ]
    assert "+changed" in git(history, "show", "HEAD")
    assert git(history, "show", "HEAD:a b/ü.md") == "ü\n"


@NEEDS_GIT
def test_after_git_gc_everything_is_still_read_and_written(history: History) -> None:
    """Packs with deltas, packed refs, and a branch without a file of its own."""
    texts = [b"".join(b"line %d of %d\n" % (n, version) for n in range(200)) for version in range(30)]
    commits = [commit(history, {"a.md": text, f"b{n}.md": text[:50]}) for n, text in enumerate(texts)]
    git(history, "gc", "--aggressive", "--prune=now", "-q")
    assert not list((history.repository.path / "objects").glob("[0-9a-f][0-9a-f]/*"))
    assert not (history.repository.path / "refs" / "heads" / "main").exists()
    for reader in (history, History(history.repository.path)):
        assert [one.id for one in reader.log(99)] == commits[::-1]
        assert [reader.read(made, "a.md") for made in commits] == texts
    after = commit(history, {"a.md": b"later"})
    assert history.one(after).files == ("a.md",)
    assert git(history, "rev-parse", "HEAD~1").strip() == commits[-1]
    assert git(history, "fsck", "--strict", "--full") == ""


@NEEDS_GIT
def test_what_we_pack_git_reads(history: History) -> None:
    made = commit(history, {f"a{n}.md": b"x" * n * 100 for n in range(300)})
    names = history.repository.names()
    history.repository.pack()
    assert not list((history.repository.path / "objects").glob("[0-9a-f][0-9a-f]/*"))
    assert git(history, "fsck", "--strict", "--full") == ""
    fresh = History(history.repository.path)
    assert fresh.repository.names() == names
    assert fresh.read(made, "a299.md") == b"x" * 29_900


@NEEDS_GIT
def test_versions_that_are_alike_are_packed_as_deltas_that_git_reads(history: History) -> None:
    """S1: a text that grows repeats most of its bytes with every change."""
    text = b""
    commits: dict[str, bytes] = {}
    for number in range(60):
        text += hashlib.sha256(b"%d" % number).hexdigest().encode() + b"\n"
        commits[commit(history, {"MEMORY.md": text})] = text
        if number % 20 == 19:
            history.repository.pack()
    packs = [*(history.repository.path / "objects" / "pack").glob("*.pack")]
    size = sum(pack.stat().st_size for pack in packs)
    assert size < 0.4 * sum(len(zlib.compress(data)) for data in commits.values())
    assert git(history, "fsck", "--strict", "--full") == ""
    listed = git(history, "verify-pack", "-v", *(str(pack) for pack in packs))
    chains = [int(length) for length in re.findall(r"chain length = (\d+)", listed)]
    assert 1 < max(chains) <= MAX_WRITTEN_DEPTH
    again = History(history.repository.path)
    assert {name: again.read(name, "MEMORY.md") for name in commits} == commits


def test_trees_of_many_files_take_little_when_two_of_them_change(history: History) -> None:
    """A save writes one file and the index, which are far apart in the tree."""
    for number in range(80):
        name = hashlib.sha256(b"%d" % number).hexdigest()[:12]
        commit(history, {"MEMORY.md": b"%d" % number, f"project_{name}.md": b"text"})
    commit(history, {f"project_{name}.md": None, "MEMORY.md": b"less"})
    history.repository.pack()
    [pack] = (history.repository.path / "objects" / "pack").glob("*.pack")
    listed = git(history, "verify-pack", "-v", str(pack))
    trees = [int(size) for size in re.findall(r"^\w+ tree +\d+ (\d+)", listed, re.MULTILINE)]
    assert len(trees) == 81
    assert sum(trees) < 81 * 250  # a whole tree of 80 files takes 3,000 bytes
    assert git(history, "fsck", "--strict", "--full") == ""
    again = History(history.repository.path)
    assert len(again.log(99)) == 81
    assert again.read(again.newest, "MEMORY.md") == b"less"


def test_many_small_packs_become_one_and_nothing_is_lost(history: History) -> None:
    other = History(history.repository.path)
    made = []
    for n in range(20):
        made.append(commit(history, {f"a{n}.md": b"%d" % n * 100}))
        history.repository.pack()
        assert other.read(made[0], "a0.md") == b"0" * 100
        assert [one.id for one in other.log(1)] == [made[-1]]
    folder = history.repository.path / "objects"
    assert len(list((folder / "pack").glob("*.idx"))) == len(list((folder / "pack").glob("*.pack"))) < 8
    assert not list(folder.glob("[0-9a-f][0-9a-f]"))
    assert git(history, "fsck", "--strict", "--full") == ""
    assert [one.id for one in History(history.repository.path).log(99)] == made[::-1]


def test_a_damaged_loose_object_stops_no_packing(history: History) -> None:
    made = commit(history, {"a.md": b"one"})
    path = history.repository.path / "objects" / "ab" / ("c" * 38)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"torn")
    history.repository.pack()
    assert path.exists()
    assert history.read(made, "a.md") == b"one"


def test_files_that_are_not_named_are_neither_read_nor_lost(history: History) -> None:
    many = {f"topic_{n}.md": b"%d" % n for n in range(1_000)}
    commit(history, many)
    before = len(history.repository.names())
    made = commit(history, {"topic_7.md": b"seven", "topic_8.md": None})
    # One blob, one commit, the root and at most two of the trees its files are split over.
    assert len(history.repository.names()) - before <= 5
    tree = history.tree(made)
    assert set(tree) == many.keys() - {"topic_8.md"}
    assert history.read(made, "topic_7.md") == b"seven"


def test_a_damaged_object_is_named_in_one_line(history: History) -> None:
    made = commit(history, {"a.md": b"one"})
    path = history.repository.path / "objects" / made[:2] / made[2:]
    path.chmod(0o600)
    path.write_bytes(b"nonsense")
    with pytest.raises(StoreError, match="git fsck"):
        History(history.repository.path).log(1)
    path.unlink()
    with pytest.raises(StoreError, match="lacks object"):
        History(history.repository.path).log(1)


def test_files_and_folders_are_for_the_owner_only(history: History) -> None:
    """M27."""
    commit(history, {"a.md": b"one"})
    commit(history, {"a.md": b"two"})
    history.repository.pack()
    paths = [history.repository.path, *history.repository.path.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}


@settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(
        st.dictionaries(
            st.integers(0, 600).map(lambda n: f"t{n}.md")
            | st.integers(0, 5).map(lambda n: f"d{n}/e/t{n}.md"),
            st.binary(max_size=20) | st.none(),
            max_size=300,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_commit_gives_back_the_files_of_its_time(
    changes: list[dict[str, bytes | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = History(tmp_path_factory.mktemp("h") / "m.git")
    model: dict[str, bytes] = {}
    states: dict[str, dict[str, bytes]] = {}
    for number, files in enumerate(changes):
        model = {name: data for name, data in {**model, **files}.items() if data is not None}
        states[commit(history, files, f"change {number}")] = dict(model)
    before: dict[str, bytes] = {}
    for made, state in states.items():
        tree = history.tree(made)
        assert {name: history.read(made, name) for name in tree} == state
        differing = {name for name in before.keys() | state.keys() if before.get(name) != state.get(name)}
        assert set(history.one(made).files) == differing
        before = state


def test_a_purge_leaves_nothing_in_any_object(history: History) -> None:
    """M14b: the file, its name, the lines that mention it, and reasons; unreachable objects too."""
    commit(history, {"a.md": b"kept\n", "MEMORY.md": b"- [A](a.md)\n"}, "save a")
    commit(
        history,
        {"plum.md": b"Plum likes tea\n", "MEMORY.md": b"- [A](a.md)\n- [P](plum.md)\n"},
        "save plum.md",
    )
    commit(history, {"b.md": b"see also PLUM.md\nb\n"}, "save b")
    commit(history, {"plum.md": None, "MEMORY.md": b"- [A](a.md)\n"}, "forget plum.md")
    commit(history, {"a.md": b"kept, changed\n"}, "change a")
    # Left by a process that was killed before it could commit.
    unborn = history.prepare({"lost.md": b"plum.md is here as well\n"}, _signature())
    history.repository.write(unborn.objects)
    scrub = without_lines("plum.md")
    assert holding(history, ["plum.md"], scrub=scrub)
    report = purge(history, ["plum.md"], scrub=scrub)
    assert report == PurgedHistory(commits=3, files=("MEMORY.md", "b.md", "plum.md"), left=())
    fresh = History(history.repository.path)
    assert holding(fresh, ["plum.md"], scrub=scrub) == ()
    told = [(one.reason, one.files) for one in fresh.log(9)]
    assert told == [("change a", ("a.md",)), ("save b", ("b.md",)), ("save a", ("MEMORY.md", "a.md"))]
    assert fresh.read(fresh.newest, "b.md") == b"b\n"
    assert not any(
        b"tea" in fresh.repository.read(name)[1] or b"plum" in fresh.repository.read(name)[1].lower()
        for name in fresh.repository.names()
    )
    assert list(history.repository.path.parent.iterdir()) == [history.repository.path]


@NEEDS_GIT
def test_a_purge_works_on_packs_and_leaves_a_sound_repository(history: History) -> None:
    for number in range(20):
        commit(history, {"plum.md": b"plum %d\n" % number * 50, "a.md": b"%d" % number}, f"change {number}")
    git(history, "gc", "--aggressive", "-q")
    git(history, "tag", "kept-by-hand")
    commit(history, {"plum.md": None})
    report = purge(history, ["plum.md"])
    assert (report.commits, report.left) == (21, ())
    assert git(history, "fsck", "--strict", "--full", "--unreachable") == ""
    assert git(history, "log", "--all", "--format=%s", "--", "plum.md") == ""
    assert [one.reason for one in History(history.repository.path).log(2)] == ["change 19", "change 18"]


def test_a_purge_of_what_was_never_there_changes_no_content(history: History) -> None:
    commit(history, {"a.md": b"one\n"})
    newest = history.newest
    assert purge(history, ["b.md"], scrub=without_lines("nowhere")) == PurgedHistory(
        commits=0, files=(), left=()
    )
    assert History(history.repository.path).newest == newest


def test_a_purge_of_an_empty_history_does_nothing(history: History) -> None:
    assert purge(history, ["b.md"]) == PurgedHistory(commits=0, files=(), left=())


def _signature() -> Signature:

    return Signature(author="agent", reason="never", session="", at=AT)
