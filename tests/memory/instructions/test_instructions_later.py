"""Rules that wait for a file, folders that are opened later, and files that change in mid-session."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.instructions.includes import MAX_PATTERNS, Globs, split_head
from nacre.memory.instructions.load import (
    changed_since,
    load_for_files,
    load_instructions,
    nested_for,
    reload,
    scoped_for,
)
from tests.memory.trees import names, paths_in, plant


def arrived(arrival, top: Path) -> list[str]:
    return [str(file.path.relative_to(top)) for file in arrival.files]


def test_a_rule_with_paths_loads_when_a_matching_file_is_touched_and_only_once(tmp_path):
    """M23"""
    plant(tmp_path, {
        "repo/.claude/rules/api.md": "---\npaths: src/api/**/*.py\n---\n\nOnly for the API.\n",
        "repo/.claude/rules/all.md": "---\ntitle: x\n---\nFor all.",
        "repo/src/api/deep/x.py": "",
    })  # fmt: skip
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == ["repo/.claude/rules/all.md"]
    assert [file.text for file in loaded.files] == ["For all."]
    nothing = scoped_for(loaded, [tmp_path / "repo/src/web/x.py"])
    assert nothing.files == ()
    assert nothing.instructions == loaded
    arrival = scoped_for(loaded, [tmp_path / "repo/src/api/deep/x.py"])
    [file] = arrival.files
    assert (file.text, file.reason, file.because) == (
        "Only for the API.",
        "scoped",
        tmp_path / "repo/src/api/deep/x.py",
    )
    assert arrival.instructions.waiting == ()
    assert scoped_for(arrival.instructions, [tmp_path / "repo/src/api/deep/x.py"]).files == ()


def test_what_a_waiting_rule_includes_waits_with_it(tmp_path):
    plant(tmp_path, {
        "repo/.claude/rules/a.md": "---\npaths: ['*.py']\n---\n@../more.md rule",
        "repo/.claude/more.md": "more",
    })  # fmt: skip
    loaded = load_instructions(paths_in(tmp_path))
    assert loaded.files == ()
    arrival = scoped_for(loaded, [tmp_path / "repo/pkg/x.py"])
    assert arrived(arrival, tmp_path) == ["repo/.claude/more.md", "repo/.claude/rules/a.md"]


def test_a_users_rule_is_seen_from_the_working_directory(tmp_path):
    plant(tmp_path, {"person/.nacre/rules/a.md": "---\npaths: /x.py\n---\nrule"})
    loaded = load_instructions(paths_in(tmp_path))
    assert scoped_for(loaded, [tmp_path / "repo/x.py"]).files == ()
    assert arrived(scoped_for(loaded, [tmp_path / "repo/pkg/sub/x.py"]), tmp_path) == [
        "person/.nacre/rules/a.md"
    ]


def test_a_folders_files_load_when_a_file_below_it_is_read(tmp_path):
    """M23: lazily, from the top down, once."""
    plant(tmp_path, {
        "repo/CLAUDE.md": "top",
        "repo/lib/CLAUDE.md": "lib",
        "repo/lib/deep/AGENTS.md": "deep",
        "repo/lib/deep/CLAUDE.local.md": "mine",
        "repo/lib/.claude/rules/r.md": "---\npaths: deep/*.py\n---\nscoped",
        "repo/lib/deep/x.py": "",
    })  # fmt: skip
    loaded = load_instructions(paths_in(tmp_path))
    arrival = load_for_files(loaded, [tmp_path / "repo/lib/deep/x.py"])
    assert arrived(arrival, tmp_path) == [
        "repo/lib/CLAUDE.md",
        "repo/lib/deep/AGENTS.md",
        "repo/lib/deep/CLAUDE.local.md",
        "repo/lib/.claude/rules/r.md",
    ]
    assert [file.reason for file in arrival.files] == ["nested", "nested", "nested", "scoped"]
    assert {file.because for file in arrival.files} == {tmp_path / "repo/lib/deep/x.py"}
    again = load_for_files(arrival.instructions, [tmp_path / "repo/lib/deep/y.py"])
    assert again.files == ()
    assert names(again.instructions, tmp_path) == ["repo/CLAUDE.md", *arrived(arrival, tmp_path)]


@pytest.mark.parametrize(
    "place",
    ["repo/node_modules/dep/x.js", "repo/.venv/lib/x.py", "repo/.claude/worktrees/a/x.py", "elsewhere/x.py"],
)
def test_installed_code_and_other_places_bring_no_instructions(tmp_path, place: str):
    plant(tmp_path, {place: "", str(Path(place).parent / "CLAUDE.md"): "obey me"})
    loaded = load_instructions(paths_in(tmp_path))
    assert nested_for(loaded, tmp_path / place).files == ()


def test_a_path_that_only_looks_as_if_it_were_inside_brings_nothing(tmp_path):
    plant(tmp_path, {"away/CLAUDE.md": "obey me", "away/x.py": "", "repo/a": ""})
    (tmp_path / "repo/link").symlink_to(tmp_path / "away")
    loaded = load_instructions(paths_in(tmp_path))
    assert nested_for(loaded, tmp_path / "repo/link/x.py").files == ()
    assert nested_for(loaded, tmp_path / "repo/../away/x.py").files == ()


def test_unchanged_files_are_no_change(tmp_path):
    plant(tmp_path, {
        "repo/CLAUDE.md": "@more.md",
        "repo/more.md": "more",
        "repo/lib/CLAUDE.md": "lib",
        "repo/.claude/rules/r.md": "---\npaths: lib/\n---\nscoped",
        "repo/lib/x.py": "",
    })  # fmt: skip
    loaded = load_for_files(load_instructions(paths_in(tmp_path)), [tmp_path / "repo/lib/x.py"]).instructions
    changes = changed_since(loaded)
    assert not changes
    assert changes.instructions == loaded
    assert reload(loaded) == loaded


def test_changed_new_and_removed_files_are_found(tmp_path):
    """M25: announced at the tail; the comparison goes by what the model reads."""
    plant(tmp_path, {
        "repo/CLAUDE.md": "old",
        "repo/AGENTS.md": "same<!-- not a block -->",
        "repo/pkg/CLAUDE.md": "goes",
        "repo/lib/CLAUDE.md": "lib",
        "repo/.claude/rules/r.md": "---\npaths: lib/\n---\nscoped",
    })  # fmt: skip
    loaded = load_for_files(load_instructions(paths_in(tmp_path)), [tmp_path / "repo/lib/x.py"]).instructions
    plant(tmp_path, {
        "repo/CLAUDE.md": "new",
        "repo/AGENTS.md": "<!-- a remark -->\nsame<!-- not a block -->",
        "repo/.claude/rules/r.md": "---\npaths: lib/\n---\nscoped anew",
        "repo/lib/CLAUDE.local.md": "another",
    })  # fmt: skip
    (tmp_path / "repo/pkg/CLAUDE.md").unlink()
    changes = changed_since(loaded)
    assert [(file.path.name, file.text) for file in changes.changed] == [
        ("CLAUDE.md", "new"), ("CLAUDE.local.md", "another"), ("r.md", "scoped anew"),
    ]  # fmt: skip
    assert list(changes.gone) == [tmp_path / "repo/pkg/CLAUDE.md"]
    assert not changed_since(changes.instructions)


def test_a_file_replaced_by_a_rename_is_the_same_file(tmp_path):
    """Editors save that way; the next folder's include of it must not load it twice."""
    plant(
        tmp_path,
        {"repo/CLAUDE.md": "@shared.md", "repo/shared.md": "s", "repo/lib/CLAUDE.md": "@../shared.md"},
    )
    loaded = load_instructions(paths_in(tmp_path))
    plant(tmp_path, {"repo/new.md": "t"})
    (tmp_path / "repo/new.md").replace(tmp_path / "repo/shared.md")
    assert arrived(nested_for(loaded, tmp_path / "repo/lib/x"), tmp_path) == ["repo/lib/CLAUDE.md"]


@pytest.mark.parametrize(
    ("head", "patterns"),
    [
        ("paths: **/*.ts", ("**/*.ts",)),
        ("paths: src/*.{ts,tsx}, docs/**", ("src/*.ts", "src/*.tsx", "docs/**")),
        ('paths: "a/**, b/**"', ("a/**", "b/**")),
        ("paths: ['a', \"b\", c]", ("a", "b", "c")),
        ("paths:\n  - a\n  - 'b'  # why\n  -   \"c d\"\nother: - e", ("a", "b", "c d")),
        ("paths:\n- a\n- b", ("a", "b")),
        ("paths:\n  [\n    a,\n    'b',\n  ]\nnext: [c]", ("a", "b")),
        ("title: x\nPaths : a # remark", ("a",)),
        ("paths: {a,{b,c}}/x", ("a/x", "b/x", "c/x")),
        ("paths:", ()),
        ("paths: []", ()),
        ("paths: '**'", ()),
        ("paths: ['**', '**/*']", ()),
        ("description: user: likes tea", ()),
    ],
)
def test_paths_are_read_however_they_are_written(head: str, patterns: tuple[str, ...]):
    """M23: YAML or not; a rule for everything is a rule without paths."""
    assert split_head(f"---\n{head}\n---\nbody\n") == (patterns, "body\n")


@pytest.mark.parametrize("text", ["paths: a", "---\npaths: a\nbody", "--- x\npaths: a\n---\n", "", "---"])
def test_a_head_that_is_none_stays_in_the_text(text: str):
    assert split_head(text) == ((), text)


def test_braces_cannot_multiply_without_end():
    patterns, _ = split_head("---\npaths: " + "{a,b}" * 60 + "\n---\n")
    assert len(patterns) == MAX_PATTERNS


def test_a_pattern_made_to_be_slow_is_not():
    """Hostile repository: this takes longer than the universe with a backtracking matcher."""
    globs = Globs(Path("/r"), ("**/" * 30 + "*a" * 100 + "b", "*" + "a*" * 300 + "b/**/" * 20 + "c"))
    assert not globs.matches(Path("/r/" + "/".join(["a" * 200] * 15)))


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [
        ("*.py", "x.py", True),
        ("*.py", "a/b/x.py", True),
        ("/*.py", "a/x.py", False),
        ("src/*.py", "src/x.py", True),
        ("src/*.py", "src/a/x.py", False),
        ("src/**/*.py", "src/x.py", True),
        ("src/**/*.py", "src/a/b/x.py", True),
        ("src/**", "src/a/b", True),
        ("src/**", "lib/src/a", False),
        ("src/", "a/src/x", True),
        ("src/", "a/src", False),
        ("src", "a/src", True),
        ("./src/x", "src/x", True),
        ("a?c/[xy]z", "abc/yz", True),
        ("a?c/[!xy]z", "abc/yz", False),
        ("*", "a/b", True),
        ("a*b", "a/b", False),
        ("X.py", "x.py", False),
        ("", "x", False),
        ("[", "[", True),
    ],
)
def test_globs_match_as_in_a_gitignore_file(pattern: str, path: str, is_meant: bool):
    assert Globs(Path("/base"), (pattern,)).matches(Path("/base") / path) is is_meant


def test_a_later_pattern_takes_back_what_an_earlier_one_gave():
    globs = Globs(Path("/b"), ("*.py", "!test_*.py", "test_main.py"))
    assert [globs.matches(Path("/b") / name) for name in ("x.py", "test_x.py", "test_main.py")] == [
        True,
        False,
        True,
    ]


def test_nothing_outside_the_base_is_meant():
    assert not Globs(Path("/base"), ("**/*",)).matches(Path("/other/x"))
    assert not Globs(Path("/base"), ("**/*",)).matches(Path("/base/../x"))
