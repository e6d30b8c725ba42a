"""What a memory names, held against a real working tree (R12, M20)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.format.entry import Entry
from nacre.memory.recall.base import Drift, RankedMemory, Reference
from nacre.memory.recall.drift.check import check, check_each, check_ranked, one_line
from nacre.memory.recall.drift.tree_files import parse_index, read_tree
from nacre.memory.recall.drift.words import MANY, has_word
from nacre.testing import FrozenClock

PLENTY = 60.0
"""Seconds: more than any tree here takes, so that no answer depends on the machine."""
FILES = {
    "src/app/fit.py": "class Ladder:\n    def climb_all(self):\n        return 1\n",
    "src/app/cli.py": "@click.option('--skip-checks')\n@click.option('--fast')\ndef main(): ...\n",
    "src/app/__init__.py": "",
    "src/app/settings.py": "PREFIX = 'APP_'\nmax_turns: int = 3\nHOME = 'APP_HOME'\nSAVED = 'state.json'\n",
    "docs/guide.md": "Call `told_only_here()` and pass --told-flag.\n",
    "Makefile": "VENV = x\n.PHONY: test\ntest: build\n\techo\nbuild docs:\n\techo\n$(VENV)/bin/x:\n\techo\n",
    "package.json": '{"name": "web", "scripts": {"pack:img": "node x.js"}}',
    "pyproject.toml": '[project]\nname = "app"\n[project.scripts]\nappctl = "app.cli:main"\n',
    "tools/deploy.sh": "#!/bin/sh\n",
}


def git(root: Path, *args: str) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", *args], cwd=root, env=environ, check=True, capture_output=True)


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.fixture(params=["git", "plain"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small project: tracked by git, and as a folder without it."""
    folder = tmp_path / "project"
    write(folder, FILES)
    if request.param == "git":
        git(folder, "init", "-q")
        git(folder, "add", ".")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    write(folder, FILES)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    return folder


def told(text: str, root: Path) -> dict[str, bool | None]:
    return {one.text: one.exists for one in check(text, root, budget_seconds=PLENTY).references}


def test_paths_are_looked_at_on_disk(root: Path) -> None:
    assert told("`src/app/fit.py`, `app/fit.py`, fit.py, `src/app/`, `src/app/gone.py`, gone.py", root) == {
        "src/app/fit.py": True, "app/fit.py": True, "fit.py": True, "src/app/": True,
        "src/app/gone.py": False, "gone.py": False,
    }  # fmt: skip


def test_a_line_counts_only_while_the_file_has_it(root: Path) -> None:
    assert told("fit.py:3 and src/app/fit.py:4", root) == {"fit.py:3": True, "src/app/fit.py:4": False}


def test_a_file_that_was_removed_but_is_still_in_the_index_is_gone(repository: Path) -> None:
    (repository / "src/app/fit.py").unlink()
    assert told("`src/app/fit.py`, fit.py, `Ladder.climb_all`", repository) == {
        "src/app/fit.py": False, "fit.py": False, "Ladder.climb_all": False,
    }  # fmt: skip


def test_a_folder_is_gone_only_where_the_one_above_it_is_known(root: Path) -> None:
    assert told("`src/nothing`, `origin/main`, `owner/name`", root) == {"src/nothing": False}


def test_symbols_are_whole_words_of_code(root: Path) -> None:
    assert told("`climb_all()`, `Ladder.climb_all`, `climb_al()`, `Ladder.fall_down`", root) == {
        "climb_all": True, "Ladder.climb_all": True, "climb_al": False, "Ladder.fall_down": False,
    }  # fmt: skip


def test_that_a_page_tells_of_a_function_does_not_make_it_exist(root: Path) -> None:
    """Memories and changelogs name what is long gone; a flag, though, may be documented alone."""
    assert told("`told_only_here()`, --told-flag", root) == {"told_only_here": False, "--told-flag": True}


def test_in_a_tree_of_pages_alone_pages_count(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "about some_name\n"})
    assert told("`some_name`, `other_name`", tmp_path) == {"some_name": True, "other_name": False}


def test_flags_and_variables_are_found_as_libraries_spell_them(root: Path) -> None:
    write(root, {"src/app/more.py": "parser.add('dry-walk')\n"})
    assert told("--skip-checks, --dry-walk, --gone-flag, APP_HOME, APP_MAX_TURNS, APP_GONE_NOW", root) == {
        "--skip-checks": True, "--dry-walk": True, "--gone-flag": False,
        "APP_HOME": True, "APP_MAX_TURNS": True, "APP_GONE_NOW": False,
    }  # fmt: skip


def test_what_need_not_be_in_the_tree_is_left_out(root: Path) -> None:
    """Other programs' flags and names, generated folders, files that are made at run time, other memories."""
    text = (
        "--no-verify, `asyncio.run_all()`, `dist/app.js`, `state.json`, `deploy.md`, `appx --fast`, NO_COLOR"
    )
    assert told(text, root) == {}


def test_commands_are_held_against_what_the_project_offers(root: Path) -> None:
    text = (
        "`make test`, `make docs`, `make gone`, `npm run pack:img`, `npm run gone`, `tools/deploy.sh prod`, "
        "`bash tools/gone.sh`, `python -m app.cli`, `python -m app.gone`, "
        "`appctl --skip-checks`, `appctl --gone-now`"
    )
    assert told(text, root) == {
        "make test": True, "make docs": True, "make gone": False, "npm run pack:img": True,
        "npm run gone": False, "tools/deploy.sh prod": True, "bash tools/gone.sh": False,
        "python -m app.cli": True, "python -m app.gone": False, "appctl --skip-checks": True,
        "appctl --gone-now": False,
    }  # fmt: skip


def test_a_makefile_that_includes_others_is_not_judged(root: Path) -> None:
    write(root, {"Makefile": "include more.mk\ntest:\n\techo\n"})
    assert told("`make test`, `make other`", root) == {"make test": True}


def test_new_work_that_git_does_not_know_yet_counts(repository: Path) -> None:
    write(repository, {"src/app/new.py": "def brand_new(): ...\n", "new/more.py": "also_new = 1\n"})
    assert told("`brand_new()`, `also_new`, `src/app/new.py`", repository) == {
        "brand_new": True, "also_new": True, "src/app/new.py": True,
    }  # fmt: skip


def test_other_peoples_code_does_not_count(root: Path) -> None:
    write(root, {"node_modules/x/i.js": "their_name()\n", "venv/lib/y.py": "their_name()\n"})
    write(root, {"clone/.git/HEAD": "x", "clone/z.py": "their_name()\n"})
    assert told("`their_name()`", root) == {"their_name": False}


def test_binary_and_huge_files_are_not_looked_into(root: Path) -> None:
    (root / "src/app/blob.py").write_bytes(b"\0 in_a_blob")
    (root / "src/app/huge.py").write_bytes(b"x = 1\n" * 200_000 + b"in_huge = 1\n")
    assert told("`in_a_blob`, `in_huge`", root) == {"in_a_blob": False, "in_huge": False}


def test_many_words_get_the_same_answers_as_few(root: Path) -> None:
    """Two ways to look, chosen by the number of words."""
    names = [f"`missing_{number}`" for number in range(MANY)]
    texts = [" ".join(names), "`climb_all()`, --skip-checks, --gone-flag, `climb_al()`"]
    many, few = check_each(texts, root, budget_seconds=PLENTY)
    assert few == check(texts[1], root, budget_seconds=PLENTY)
    assert {one.exists for one in many.references} == {False}


def test_nothing_outside_of_the_root_is_looked_at(repository: Path) -> None:
    """A link in a stranger's repository is no way to learn of other files."""
    outside = repository.parent / "outside"
    write(outside, {"secret.py": "secret_name = 1\n", "deep/secret_two.py": "secret_name = 1\n"})
    (repository / "linked").symlink_to(outside)
    (repository / "link.py").symlink_to(outside / "secret.py")
    git(repository, "add", ".")
    assert told("`linked/secret.py`, `../outside/secret.py`, `secret_name`", repository) == {
        "linked/secret.py": False, "secret_name": False,
    }  # fmt: skip


def test_a_folder_replaced_by_a_link_is_not_followed(repository: Path) -> None:
    """The index says `src/app/fit.py`; what lies there now is somebody else's."""
    outside = repository.parent / "outside"
    write(outside, {"app/fit.py": "secret_name = 1\n"})
    subprocess.run(["rm", "-r", repository / "src"], check=True)
    (repository / "src").symlink_to(outside)
    assert told("`secret_name`, `src/app/fit.py`", repository) == {
        "secret_name": False,
        "src/app/fit.py": False,
    }


def test_a_link_inside_the_root_is_a_path(repository: Path) -> None:
    (repository / "short").symlink_to("src/app")
    (repository / "nowhere.py").symlink_to("/nonexistent/x")
    assert told("`short/fit.py`, `nowhere.py`", repository) == {"short/fit.py": True, "nowhere.py": True}


def test_nothing_of_the_repository_is_run_and_nothing_blocks(repository: Path, tmp_path: Path) -> None:
    """Hooks, settings and pipes of a stranger's repository are just bytes."""
    mark = tmp_path / "ran"
    script = repository / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(script))
    git(repository, "config", "core.hooksPath", str(repository))
    os.mkfifo(repository / "src/app/pipe.py")
    assert told("`climb_all()`, `never_there()`, `make test`", repository) == {
        "climb_all": True, "never_there": False, "make test": True,
    }  # fmt: skip
    assert not mark.exists()


def test_a_worktree_has_an_index_of_its_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
    other = tmp_path / "other"
    git(repository, "worktree", "add", "-q", str(other))
    tree = read_tree(other, is_late=lambda: False)
    assert tree.from_index
    assert {one.path for one in tree.files} == set(FILES)


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_every_version_of_the_index_is_read(tmp_path: Path, version: str, form: str) -> None:
    write(tmp_path, FILES | {"a" * 40 + "/名字.py": "x\n"})
    git(tmp_path, "init", "-q", f"--object-format={form}")
    git(tmp_path, "add", ".")
    git(tmp_path, "update-index", "--index-version", version)
    tree = read_tree(tmp_path, is_late=lambda: False)
    assert tree.from_index
    assert {one.path for one in tree.files} == {*FILES, "a" * 40 + "/名字.py"}
    assert {one.path: one.size for one in tree.files}["Makefile"] == len(FILES["Makefile"])


def test_what_a_sparse_checkout_leaves_out_is_not_called_gone(repository: Path) -> None:
    git(repository, "update-index", "--skip-worktree", "src/app/fit.py")
    (repository / "src/app/fit.py").unlink()
    assert told("`src/app/fit.py`, `climb_all()`", repository) == {"src/app/fit.py": True, "climb_all": None}


def test_a_split_index_is_passed_by(repository: Path) -> None:
    git(repository, "update-index", "--split-index")
    write(repository, {"one.py": "x = 1\n"})
    git(repository, "add", "one.py")
    assert told("`src/app/fit.py`, fit.py, `climb_all()`", repository) == {
        "src/app/fit.py": True, "fit.py": True, "climb_all": True,
    }  # fmt: skip


@given(at=st.integers(0, 10_000), new=st.integers(0, 255), cut=st.integers(0, 200))
def test_a_damaged_index_never_leads_out_and_never_fails(at: int, new: int, cut: int) -> None:
    data = bytearray(INDEX[: len(INDEX) - cut])
    data[at % len(data)] = new
    tree = parse_index(bytes(data), "/root")
    for one in tree.files if tree else ():
        assert not one.path.startswith(("/", "../")) and "/../" not in one.path


def _made_index() -> bytes:
    """Three entries of version 2, put together by hand."""
    entries = b""
    for name in (b"a.py", b"src/b.py", b"src/deep/c.py"):
        fixed = bytes(24) + (0o100644).to_bytes(4) + bytes(12) + bytes(20) + len(name).to_bytes(2) + name
        entries += fixed + bytes(8 - len(fixed) % 8)
    return b"DIRC" + (2).to_bytes(4) + (3).to_bytes(4) + entries + bytes(20)


INDEX = _made_index()


def test_names_in_the_index_that_lead_out_are_left_out() -> None:
    tree = parse_index(INDEX.replace(b"src/b.py", b"../b.pyx"), "/root")
    assert tree is not None
    assert [one.path for one in tree.files] == ["a.py", "src/deep/c.py"]


class TickingClock(FrozenClock):
    """Every look at it takes some time."""

    def __init__(self, tick: float) -> None:
        super().__init__()
        self.tick = tick

    def seconds(self) -> float:
        self.advance(self.tick)
        return super().seconds()


def test_what_is_not_reached_in_time_has_no_answer(root: Path) -> None:
    text = "`src/app/fit.py`, `gone/x.py`, `climb_all()`, `never_there()`"
    late = check(text, root, budget_seconds=0.0)
    assert [one.exists for one in late.references] == [None] * 4
    assert not late.is_broken
    # Paths come first, so that a little time is enough for them.
    some = {
        one.text: one.exists
        for one in check(text, root, budget_seconds=5, clock=TickingClock(1.0)).references
    }
    assert some["src/app/fit.py"] is True
    assert some["never_there"] is None


def test_the_files_a_memory_names_are_looked_into_first(repository: Path) -> None:
    write(repository, {f"src/many/m{number}.py": "x = 1\n" for number in range(50)})
    git(repository, "add", ".")
    clock = TickingClock(1.0)
    found = check("`climb_all()` in `src/app/fit.py`", repository, budget_seconds=8, clock=clock)
    assert [one.exists for one in found.references] == [True, True]


def test_memories_share_one_pass_and_keep_their_own_answers(root: Path) -> None:
    broken, whole, empty = check_each(["`gone_one()`", "`climb_all()`", "words"], root, budget_seconds=PLENTY)
    assert broken.is_broken and not whole.is_broken and not empty.is_broken
    assert empty == Drift()


def test_ranked_memories_are_read_and_checked(root: Path, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\nname: A\n---\nIn `src/app/gone.py`.\n")
    entries = [Entry(file=name) for name in ("a.md", "missing.md")]
    ranked = [RankedMemory(entry=entry, directory=tmp_path, score=1, confidence=1) for entry in entries]
    found = check_ranked(ranked, root, budget_seconds=PLENTY)
    assert found == (
        Drift(references=(Reference(kind="path", text="src/app/gone.py", exists=False),)),
        None,
    )


def test_one_line_says_what_is_gone_first() -> None:
    answers: dict[str, bool | None] = {"a.py": True, "b_c": False, "--d": None}
    drift = Drift(
        references=tuple(Reference(kind="path", text=text, exists=is_) for text, is_ in answers.items())
    )
    assert one_line(drift) == "In the working tree: gone: `b_c`; still there: `a.py`; not looked for: `--d`."
    assert one_line(Drift()) == ""


def test_one_line_stays_short() -> None:
    many = Drift(
        references=tuple(Reference(kind="path", text=f"{n}" * 100, exists=False) for n in range(100))
    )
    assert one_line(many).endswith("and 94 more.")
    assert len(one_line(many)) < 700


@given(
    st.binary(max_size=30),
    st.sampled_from([b"name", b"a_b", b"--flag", b"--two-words"]),
    st.binary(max_size=30),
)
def test_a_word_is_found_if_and_only_if_nothing_touches_it(before: bytes, word: bytes, after: bytes) -> None:
    inside = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_" + b"-" * (b"-" in word)
    alone = (not before or before[-1] not in inside) and (not after or after[0] not in inside)
    if word not in before and word not in after and (before + word + after).count(word) == 1:
        assert has_word(before + word + after, word) is alone
