"""Nothing is written outside the memory directory, whatever the path looks like (M6)."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import OutsideStore
from nacre.memory.files import containment as contain
from nacre.memory.files.containment import folder_inside, inside, open_inside, topic_inside
from nacre.store.disk import NotRegularError


def contains(root: Path, path: str | Path) -> bool:
    try:
        inside(root, path)
    except OutsideStore:
        return False
    return True


def planted(base: Path) -> Path:
    """A memory directory with every kind of link in it, beside something worth protecting."""
    root = base / "memory"
    (root / "sub").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git/config.md").write_text("hidden")
    (root / "sub/old.md").write_text("old")
    (base / "outside").mkdir()
    (base / "outside/secret.md").write_text("secret")
    (base / "memory-twin").mkdir()
    (root / "out").symlink_to(base / "outside")
    (root / "out.md").symlink_to(base / "outside/secret.md")
    (root / "twin").symlink_to(base / "memory-twin")
    (root / "dangling.md").symlink_to(base / "outside/new.md")
    (root / "dangling_in.md").symlink_to(root / "not_yet.md")
    (root / "loop").symlink_to(root / "loop")
    (root / "inner").symlink_to(root / "sub")
    (root / "alias.md").symlink_to(root / "sub/old.md")
    (root / "self").symlink_to(root)
    (root / "veiled.md").symlink_to(root / ".git/config.md")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return planted(Path(os.path.realpath(tmp_path)))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.md", "a.md"),
        ("./a.md", "a.md"),
        ("sub/new/deep.md", "sub/new/deep.md"),
        ("inner/old.md", "sub/old.md"),
        ("alias.md", "sub/old.md"),
        ("self/self/a.md", "a.md"),
        ("Ünïcödé 记忆.md", "Ünïcödé 记忆.md"),
        ("50%_done.md", "50%_done.md"),
        ("100%25.md", "100%25.md"),
        ("e.g. dots... inside.md", "e.g. dots... inside.md"),
        ("logs/2031/01/2031-01-02.md", "logs/2031/01/2031-01-02.md"),
    ],
)
def test_what_is_inside_is_found_with_its_links_resolved(root: Path, path: str, found: str) -> None:
    """M6."""
    assert inside(root, path) == root / found
    assert contains(root, path)
    assert contains(root, root / path)


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "..", "/", "a/", "a//b.md", "a/./b.md", "sub/../../outside/x.md", "../memory/x.md", "~/x.md",
        "/etc/passwd", "a\0.md", "\0", "..\\x.md", "a\\b.md", "C:\\x.md", "C:x.md", "\\\\host\\share\\x.md",
        "%2e%2e/x.md", "%2E%2e%2fx.md", "%252e%252e%252fx.md", "%25252525252525252e./x.md", "a%2fb.md",
        "%5cx.md", "a%00.md", "%c0%ae%c0%ae/x.md", "%u002e%u002e%u2215x.md", "%ff.md",
        "．．/x.md", "．./x.md", "..／x.md", "a／b.md", "a＼b.md", "․․/x.md", "‥/x.md", "。。/x.md",
        "a∕b.md", "a⁄b.md", "a⧸b.md", "a℀b.md", "﹒﹒/x.md", "%EF%BC%8E%EF%BC%8E/x.md",
        ".\u200b./x.md", "\u200b../x.md", " ../x.md", "..\u00a0/x.md", ".../x.md",
        ".hidden.md", "sub/.hidden.md", ".git/config", "．hidden.md", "%2egit/config",
        "new\nline.md", "tab\t.md", "\x7f.md", "\u202egnp.md", "\udcff.md",
        "x" * 300 + ".md", "语" * 80 + ".md", "/".join(["folder_name"] * 100) + "/x.md",
        "out/x.md", "out.md", "twin/x.md", "dangling.md", "dangling_in.md", "loop", "loop/x.md", "self",
        "veiled.md", "inner/../../outside/x.md", "self/out/x.md",
    ],
)  # fmt: skip
def test_what_leads_out_or_only_looks_plain_is_refused_in_one_line(root: Path, path: str) -> None:
    """M6: `..` in every disguise, links that leave or dangle, NUL, hidden names."""
    assert not contains(root, path)
    with pytest.raises(OutsideStore) as refusal:
        open_inside(root, path, os.O_CREAT | os.O_WRONLY)
    assert "\n" not in str(refusal.value)
    assert "cannot be a memory file" in str(refusal.value)


def test_the_root_itself_and_its_neighbours_are_outside(root: Path) -> None:
    """M6: compared on a separator boundary; `memory-twin` begins like `memory` and is not in it."""
    twin = root.parent / "memory-twin"
    for path in (
        root,
        f"{root}/",
        root.parent,
        twin / "x.md",
        f"{root}x.md",
        root.parent / "outside/secret.md",
    ):
        assert not contains(root, path)


def test_an_absolute_path_counts_by_where_it_leads(root: Path) -> None:
    """M6: through another name of the root it is inside; through a link to elsewhere it is not."""
    alias = root.parent / "alias"
    alias.symlink_to(root)
    (root.parent / "into_sub").symlink_to(root / "sub")
    assert inside(root, alias / "a.md") == root / "a.md"
    assert inside(alias, root / "a.md") == root / "a.md"
    assert inside(root, root.parent / "into_sub/a.md") == root / "sub/a.md"
    assert not contains(root, alias / "out/a.md")
    assert not contains(root, f"{root}/../outside/a.md")


def test_a_file_system_that_ignores_case_knows_the_root_by_any_spelling(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M6. Patched because such a file system cannot be had everywhere."""
    monkeypatch.setattr(contain.disk, "is_same_file", lambda a, b: str(a).casefold() == str(b).casefold())
    assert inside(root, f"{str(root).upper()}/a.md") == root / "a.md"
    assert not contains(root, f"{str(root).upper()}-TWIN/a.md")


def test_a_root_that_does_not_exist_yet_contains_what_will_be_in_it(tmp_path: Path) -> None:
    """M6."""
    root = Path(os.path.realpath(tmp_path)) / "not/yet"
    assert contains(root, "a.md")
    assert contains(root, root / "a.md")
    assert not contains(root, "../a.md")


@pytest.mark.parametrize(
    "path",
    [
        "MEMORY.md", "memory.md", "Memory.MD", "sub/MEMORY.md", "ＭEMORY.md", "MEM\u200bORY.md", "CLAUDE.md",
        "agents.md", "claude.local.md", "con.md", "NUL.md", "com1.md", "notes.txt", "notes", "notes.MD",
        "team/a.md", "TEAM/a.md", "logs/2031/01/2031-01-02.md", "self/team/a.md",
    ],
)  # fmt: skip
def test_a_topic_has_a_name_of_its_own(root: Path, path: str) -> None:
    """M6, M8: the index, instructions, devices, shared and daily memory are no topics."""
    with pytest.raises(OutsideStore):
        topic_inside(root, path)


def test_topics_may_lie_in_folders_and_have_any_script(root: Path) -> None:
    """M11."""
    for path in ("team.md", "sub/console.md", "用户.md", "user_role.md"):
        assert topic_inside(root, path) == root / path


def test_a_file_is_made_with_its_folders_for_the_owner_alone(root: Path) -> None:
    """M27: 0600 and 0700."""
    descriptor = open_inside(root, "deep/er/a.md", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"text")
    os.close(descriptor)
    modes = [stat.S_IMODE((root / each).stat().st_mode) for each in ("deep", "deep/er", "deep/er/a.md")]
    assert modes == [0o700, 0o700, 0o600]
    assert (root / "deep/er/a.md").read_bytes() == b"text"


def test_reading_makes_no_folders(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_inside(root, "none/a.md", os.O_RDONLY)
    assert not (root / "none").exists()


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_CREAT])
@pytest.mark.parametrize(("path", "swapped"), [("sub/secret.md", "sub"), ("secret.md", "secret.md")])
def test_a_link_planted_between_check_and_use_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, path: str, swapped: str, flags: int
) -> None:
    """M6. Patched so that the attack happens at the worst moment: right after the path was found good."""
    (root / "secret.md").write_text("mine")
    check = contain.inside

    def then_swap(place: Path, path: str | Path) -> Path:
        found = check(place, path)
        (root / swapped).rename(root / "moved_away")
        (root / swapped).symlink_to(root.parent / "outside" / swapped.removeprefix("sub"))
        return found

    monkeypatch.setattr(contain, "inside", then_swap)
    with pytest.raises(OutsideStore, match="became a symlink"):
        open_inside(root, path, flags)
    assert (root.parent / "outside/secret.md").read_text() == "secret"


@pytest.mark.slow
def test_a_folder_that_flickers_between_real_and_link_never_lets_a_write_out(root: Path) -> None:
    """M6: the same race for real, with another thread as the attacker."""
    done = threading.Event()

    def flicker() -> None:
        while not done.is_set():
            (root / "sub").rename(root / "aside")
            (root / "sub").symlink_to(root.parent / "outside")
            (root / "sub").unlink()
            (root / "aside").rename(root / "sub")

    (root / "sub/secret.md").write_text("mine")
    attacker = threading.Thread(target=flicker)
    attacker.start()
    written = 0
    try:
        while written < 50:  # the true folder is there often enough
            with contextlib.suppress(OutsideStore, FileNotFoundError, NotADirectoryError):
                descriptor = open_inside(root, "sub/secret.md", os.O_WRONLY | os.O_TRUNC)
                written += os.write(descriptor, b"x")
                os.close(descriptor)
    finally:
        done.set()
        attacker.join()
    assert (root.parent / "outside/secret.md").read_text() == "secret"
    assert (root / "sub/secret.md").read_text() == "x"


def test_a_folder_swapped_while_held_keeps_what_is_written_inside(root: Path) -> None:
    """M6: by descriptor and name, a rename lands in the directory that was opened."""
    with folder_inside(root, "sub/a.md") as (folder, name):
        (root / "sub").rename(root / "away")
        (root / "sub").symlink_to(root.parent / "outside")
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
    assert (root / "away/a.md").exists()
    assert not (root.parent / "outside/a.md").exists()


def test_what_is_no_regular_file_is_refused_without_waiting(root: Path) -> None:
    """M6: a FIFO never blocks."""
    os.mkfifo(root / "pipe.md")
    (root / "folder.md").mkdir()
    for flags in (os.O_RDONLY, os.O_WRONLY):
        with pytest.raises(NotRegularError):
            open_inside(root, "pipe.md", flags)
    with pytest.raises(NotRegularError):
        open_inside(root, "folder.md", os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        open_inside(root, "sub/old.md/below.md", os.O_WRONLY | os.O_CREAT)


FRAGMENTS = [
    "..", ".", "/", "//", "\\", "%", "%2e", "%2E", "%252e", "%2f", "%252F", "%5c", "%00", "\0", "．", "／",
    "＼", "․", "‥", "∕", "⁄", "\u200b", "\u202e", "~", " ", "\n", "C:", "sub", "out", "out.md", "twin",
    "self", "inner", "loop", "dangling.md", "a", "A", ".md", "x.md", "outside", "memory", "语", "é",
    "e\u0301", "\udc80",
]  # fmt: skip
ODD_PATHS = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("/".join),
    st.text(max_size=30),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield planted(Path(os.path.realpath(tmp_path_factory.mktemp("odd"))))


def tree_outside(root: Path) -> list[tuple[str, str]]:
    """Everything beside the memory directory, with contents."""
    places = [each for each in root.parent.rglob("*") if root not in (each, *each.parents)]
    return sorted((str(each), each.read_text() if each.is_file() else "") for each in places)


@given(path=ODD_PATHS, absolute=st.booleans())
def test_no_path_whatsoever_writes_outside(place: Path, path: str, absolute: bool) -> None:
    """M6: either it is refused, or the file is really below the root, with no link left in its path."""
    before = tree_outside(place)
    wanted = f"{place}/{path}" if absolute else path
    try:
        descriptor = open_inside(place, wanted, os.O_CREAT | os.O_WRONLY)
    except (OutsideStore, NotRegularError, NotADirectoryError, IsADirectoryError):
        pass
    else:
        os.write(descriptor, b"x")
        real = Path(f"/proc/self/fd/{descriptor}").readlink()
        os.close(descriptor)
        assert real == inside(place, wanted)
        assert real.is_relative_to(place)
        assert contains(place, wanted)
    assert tree_outside(place) == before


@given(path=ODD_PATHS)
def test_containment_asks_the_same_of_relative_and_absolute_paths(place: Path, path: str) -> None:
    """M6: one gate, one answer."""
    if not path.startswith(("/", "./", "~")):
        assert contains(place, path) == contains(place, f"{place}/{path}")


@given(path=ODD_PATHS)
def test_what_was_found_inside_is_found_again_as_itself(place: Path, path: str) -> None:
    """M6: the real path needs no second resolving."""
    try:
        found = inside(place, path)
    except OutsideStore:
        return
    assert inside(place, found) == found
