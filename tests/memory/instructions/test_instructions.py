"""Which instructions files load at the start, in which order, and which do not."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from nacre.memory.instructions.files import MAX_BYTES, WARN_CHARS
from nacre.memory.instructions.load import InstructionPaths, SkippedInstructions, load_instructions
from tests.memory.trees import names, paths_in, plant

EVERYTHING = (
    "etc/nacre/CLAUDE.md",
    "etc/nacre/rules/a.md",
    "person/.nacre/CLAUDE.md",
    "person/.nacre/rules/a.md",
    "person/.nacre/rules/deep/b.md",
    "repo/CLAUDE.md",
    "repo/.claude/CLAUDE.md",
    "repo/AGENTS.md",
    "repo/.claude/rules/a/z.md",
    "repo/.claude/rules/b.md",
    "repo/pkg/CLAUDE.md",
    "repo/pkg/.claude/rules/c.md",
    "repo/pkg/sub/AGENTS.md",
    "repo/CLAUDE.local.md",
    "repo/pkg/sub/CLAUDE.local.md",
)
REAL = Path(__file__).parents[4] / "shared" / "data" / "claude_memory"


def test_files_load_from_the_weakest_to_the_strongest(tmp_path):
    """M22: managed, user, project from the root down, local."""
    plant(tmp_path, {name: f"text of {name}" for name in EVERYTHING})
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == list(EVERYTHING)
    assert [file.text for file in loaded.files] == [f"text of {name}" for name in EVERYTHING]
    assert [file.kind for file in loaded.files] == ["managed"] * 2 + ["user"] * 3 + ["project"] * 8 + [
        "local"
    ] * 2
    assert loaded.warnings == ()
    assert loaded.outside == ()


def test_two_loads_are_equal_whatever_order_the_disk_lists_files_in(tmp_path, monkeypatch):
    """M25: same files, same bytes. Patched because no disk can be asked to list backwards."""
    plant(tmp_path, {name: name for name in EVERYTHING})
    first = load_instructions(paths_in(tmp_path))
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: sorted(listed(folder), reverse=True))
    assert load_instructions(paths_in(tmp_path)) == first


def test_nothing_at_all_is_no_problem(tmp_path):
    loaded = load_instructions(paths_in(tmp_path))
    assert (loaded.files, loaded.warnings, loaded.outside) == ((), (), ())


def test_files_beside_the_way_to_the_working_directory_wait(tmp_path):
    plant(
        tmp_path,
        {"CLAUDE.md": "above", "repo/other/CLAUDE.md": "beside", "repo/pkg/sub/x/CLAUDE.md": "below"},
    )
    assert names(load_instructions(paths_in(tmp_path)), tmp_path) == []


def test_a_working_directory_elsewhere_is_looked_at_by_itself(tmp_path):
    plant(tmp_path, {"repo/CLAUDE.md": "a", "elsewhere/CLAUDE.md": "b", "CLAUDE.md": "c"})
    loaded = load_instructions(paths_in(tmp_path, cwd=tmp_path / "elsewhere"))
    assert names(loaded, tmp_path) == ["elsewhere/CLAUDE.md"]


def test_the_users_agents_file_stands_in_for_a_missing_claude_file(tmp_path):
    """M22: `CLAUDE.md` or `AGENTS.md`."""
    plant(tmp_path, {"person/.nacre/AGENTS.md": "agents"})
    assert names(load_instructions(paths_in(tmp_path)), tmp_path) == ["person/.nacre/AGENTS.md"]
    plant(tmp_path, {"person/.nacre/CLAUDE.md": "claude"})
    assert names(load_instructions(paths_in(tmp_path)), tmp_path) == ["person/.nacre/CLAUDE.md"]


@pytest.mark.parametrize(("home", "marked"), [(".claude", False), ("elsewhere", True)])
def test_a_claude_code_home_brings_its_managed_file(tmp_path, home: str, marked: bool):
    """M22"""
    plant(tmp_path, {"etc/claude-code/CLAUDE.md": "policy", "etc/nacre/CLAUDE.md": "ours"})
    folder = tmp_path / "person" / home
    plant(folder, {".claude.json": "{}"} if marked else {})
    assert names(load_instructions(paths_in(tmp_path)), tmp_path) == ["etc/nacre/CLAUDE.md"]
    loaded = load_instructions(paths_in(tmp_path, home=folder))
    assert names(loaded, tmp_path) == ["etc/claude-code/CLAUDE.md", "etc/nacre/CLAUDE.md"]


def test_one_file_under_two_names_loads_once(tmp_path):
    """M23: each file once; people link AGENTS.md to CLAUDE.md."""
    plant(tmp_path, {"repo/CLAUDE.md": "one"})
    (tmp_path / "repo/AGENTS.md").symlink_to("CLAUDE.md")
    (tmp_path / "repo/CLAUDE.local.md").hardlink_to(tmp_path / "repo/CLAUDE.md")
    assert names(load_instructions(paths_in(tmp_path)), tmp_path) == ["repo/CLAUDE.md"]


def test_a_long_file_is_loaded_and_warned_about(tmp_path):
    """M24"""
    plant(tmp_path, {"repo/CLAUDE.md": "x" * WARN_CHARS, "repo/AGENTS.md": "é" * (WARN_CHARS + 1)})
    loaded = load_instructions(paths_in(tmp_path))
    assert [(len(file.text), file.bytes) for file in loaded.files] == [(40_000, 40_000), (40_001, 80_002)]
    [warning] = loaded.warnings
    assert warning.startswith(f"{tmp_path}/repo/AGENTS.md: 40,001 characters, more than 40,000; move ")


def test_byte_order_mark_and_carriage_returns_are_taken_off(tmp_path):
    plant(tmp_path, {"repo/CLAUDE.md": b"\xef\xbb\xbfone\r\ntwo\rthree\n"})
    [file] = load_instructions(paths_in(tmp_path)).files
    assert file.text == "one\ntwo\nthree"


def test_what_is_no_text_file_is_skipped_with_its_reason(tmp_path):
    """Bad input: a FIFO never blocks, nothing is an exception."""
    plant(tmp_path, {
        "repo/CLAUDE.md": b"a\0b",
        "repo/AGENTS.md": b"caf\xe9",
        "repo/.claude/rules/huge.md": b"",
        "repo/.claude/rules/fine.md": "fine",
    })  # fmt: skip
    os.truncate(tmp_path / "repo/.claude/rules/huge.md", MAX_BYTES + 1)
    os.mkfifo(tmp_path / "repo/CLAUDE.local.md")
    (tmp_path / "repo/.claude/CLAUDE.md").mkdir()
    (tmp_path / "repo/pkg").mkdir()
    (tmp_path / "repo/pkg/CLAUDE.md").symlink_to("CLAUDE.md")
    (tmp_path / "repo/pkg/AGENTS.md").symlink_to("nowhere.md")
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == ["repo/.claude/rules/fine.md"]
    loop = loaded.skipped[4]
    assert loop.path == tmp_path / "repo/pkg/CLAUDE.md"
    assert "symbolic link" in loop.why
    assert [*loaded.skipped[:4], *loaded.skipped[5:]] == [
        SkippedInstructions(tmp_path / "repo/CLAUDE.md", "a binary file; instructions are UTF-8 text"),
        SkippedInstructions(tmp_path / "repo/.claude/CLAUDE.md", "not a regular file"),
        SkippedInstructions(tmp_path / "repo/AGENTS.md", "not UTF-8 at byte 3; save it as UTF-8"),
        SkippedInstructions(
            tmp_path / "repo/.claude/rules/huge.md", "larger than 4 MiB; keep instructions short"
        ),
        SkippedInstructions(tmp_path / "repo/CLAUDE.local.md", "not a regular file"),
    ]
    assert (
        f"{tmp_path}/repo/CLAUDE.md is not loaded: a binary file; instructions are UTF-8 text"
        in loaded.warnings
    )


def test_a_folder_of_rules_that_links_to_itself_is_walked_once(tmp_path):
    plant(tmp_path, {"repo/.claude/rules/a.md": "a", "repo/.claude/rules/deep/b.md": "b"})
    (tmp_path / "repo/.claude/rules/deep/again").symlink_to("..")
    (tmp_path / "repo/.claude/rules/round").symlink_to("round")
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == ["repo/.claude/rules/a.md", "repo/.claude/rules/deep/b.md"]


def test_names_the_disk_refuses_to_look_at_are_passed_over(tmp_path):
    """A link to a name that is too long fails in another way than one to nothing."""
    plant(tmp_path, {"repo/.claude/rules/a.md": "a", "repo/CLAUDE.md": "@long.md b"})
    for link in ("repo/.claude/rules/long.md", "repo/long.md", "repo/.claude/CLAUDE.md"):
        (tmp_path / link).symlink_to("x" * 300)
    loaded = load_instructions(paths_in(tmp_path))
    assert names(loaded, tmp_path) == ["repo/CLAUDE.md", "repo/.claude/rules/a.md"]
    assert [skipped.path.name for skipped in loaded.skipped] == ["long.md", "CLAUDE.md", "long.md"]


def test_a_thousand_files_are_enough(tmp_path):
    """A bound for a tree that was made to be endless."""
    plant(tmp_path, {f"repo/.claude/rules/{number:04}.md": "x" for number in range(600)})
    plant(
        tmp_path,
        {f"repo/.claude/rules/{number:04}.md": "---\npaths: x\n---\n" for number in range(600, 1_100)},
    )
    loaded = load_instructions(paths_in(tmp_path))
    assert (len(loaded.files), len(loaded.waiting), len(loaded.skipped)) == (600, 400, 100)


@pytest.mark.parametrize(
    "glob",
    [
        "TOP/repo/CLAUDE.md",
        "**/repo/CLAUDE.md",
        "TOP/*/CLAUDE.md",
        "TOP/{repo,x}/CLAUDE.md",
        "TOP/r[a-f]po/C*.md",
    ],
)
def test_excluded_files_do_not_load(tmp_path, glob: str):
    plant(tmp_path, {"repo/CLAUDE.md": "out", "repo/pkg/CLAUDE.md": "in"})
    excludes = (glob.replace("TOP", str(tmp_path)),)
    loaded = load_instructions(paths_in(tmp_path, excludes=excludes))
    assert names(loaded, tmp_path) == ["repo/pkg/CLAUDE.md"]
    assert loaded.warnings == ()


def test_a_tilde_in_an_exclude_means_the_person(tmp_path):
    plant(tmp_path, {"person/.nacre/CLAUDE.md": "out", "person/.nacre/rules/a.md": "out"})
    assert load_instructions(paths_in(tmp_path, excludes=("~/.nacre",))).files == ()


def test_managed_files_cannot_be_excluded(tmp_path):
    plant(tmp_path, {"etc/nacre/CLAUDE.md": "policy", "repo/CLAUDE.md": "x"})
    loaded = load_instructions(paths_in(tmp_path, excludes=("**",)))
    assert names(loaded, tmp_path) == ["etc/nacre/CLAUDE.md"]


def test_a_repository_cannot_link_its_instructions_to_a_file_elsewhere(tmp_path):
    """M23: what lies outside the working tree needs consent, links included."""
    plant(tmp_path, {"person/.ssh/config": "Host x", "person/rules/a.md": "a", "person/rules/b.md": "b"})
    (tmp_path / "repo/.claude").mkdir(parents=True)
    (tmp_path / "repo/CLAUDE.md").symlink_to(tmp_path / "person/.ssh/config")
    (tmp_path / "repo/.claude/rules").symlink_to(tmp_path / "person/rules")
    loaded = load_instructions(paths_in(tmp_path))
    assert loaded.files == ()
    assert loaded.outside == (tmp_path / "person/.ssh/config", tmp_path / "person/rules")
    agreed = load_instructions(paths_in(tmp_path, allow_outside=frozenset({tmp_path / "person/rules"})))
    assert names(agreed, tmp_path) == ["repo/.claude/rules/a.md", "repo/.claude/rules/b.md"]
    assert agreed.outside == (tmp_path / "person/.ssh/config",)


@pytest.mark.real_data
def test_real_projects_load_whole(tmp_path):
    """Real CLAUDE.md files and rules, as repositories carry them."""
    if not REAL.is_dir():
        pytest.skip("needs ../shared/data/claude_memory next to the repository")
    count = 0
    for packed in sorted(REAL.glob("*.tar.gz")):
        top = tmp_path / packed.name
        with tarfile.open(packed) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # early 3.11 has none
            archive.extractall(top)
        project = top / "project"
        if not project.is_dir():
            continue
        loaded = load_instructions(
            InstructionPaths(home=top / "home", cwd=project, root=project, managed=top / "none", tilde=top)
        )
        on_disk = set(project.rglob("*.md"))
        assert {file.path for file in loaded.files} | {rule.path for rule in loaded.waiting} >= on_disk
        assert [warning for warning in loaded.warnings if "characters" not in warning] == []
        count += len(on_disk)
    assert count >= 10
