"""In a hostile repository a line of git is asked about, or it runs and starts, prints and reaches nothing."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Sequence

import pytest

from nacre.context.environment import git_branch
from tests.tools.git_hostile import Attack, settings, shapes
from tests.tools.git_lab import (
    SECRET,
    Lab,
    build_project,
    commands,
    has_connection,
    open_lab,
    restore_project,
)
from tests.tools.git_ordinary import ASKED, NOT_ASKED
from tests.tools.git_ordinary import LINES as ORDINARY_LINES

SAMPLE_LINES = "git status ; git diff ; git log -p -m --all ; git show --remerge-diff HEAD ; git blame file"
CHUNK = 10


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Lab, socket.socket]]:
    with open_lab(monkeypatch) as opened:
        build_project(opened[0])
        yield opened


async def _played(
    opened: tuple[Lab, socket.socket], name: str, attack: Attack, commands: Sequence[str]
) -> int:
    """Play one attack; return how many of the commands ran without a question."""
    lab, listening = opened
    attack(lab)
    allowed = [command for command in commands if lab.effect(command) == "allow"]
    assert not lab.started, f"{name}: the check started a program"
    for command in allowed:
        output = await lab.run(command)
        assert not lab.started, f"{name}: {command} started a program"
        assert SECRET not in output, f"{name}: {command} printed a private file"
    assert not has_connection(listening), f"{name}: a connection was made"
    return len(allowed)


async def test_a_hostile_repository_starts_and_prints_nothing_unasked(lab: tuple[Lab, socket.socket]) -> None:
    """A sample; the tests below play all of them."""
    ran = []
    for name, attack in [*shapes()][::25] + [*settings()][5::400]:
        restore_project(lab[0])
        ran.append(await _played(lab, name, attack, [SAMPLE_LINES]))
    assert len(ran) >= 8
    assert 0 < sum(map(bool, ran)) < len(ran), "some are asked about, some run"


@pytest.mark.slow
@pytest.mark.parametrize("at", range(0, len([*shapes()]), CHUNK))
async def test_no_shape_of_a_hostile_repository_starts_or_prints_anything_unasked(
    lab: tuple[Lab, socket.socket], at: int
) -> None:
    effective = 0
    for name, attack in [*shapes()][at : at + CHUNK]:
        restore_project(lab[0])
        unasked = await _played(lab, name, attack, commands())
        restore_project(lab[0])
        attack(lab[0])
        output = "".join(map(lab[0].by_hand, commands()))
        connects = has_connection(lab[1])
        works = bool(lab[0].started) or SECRET in output or connects
        effective += works
        print(f"{name}: {unasked} of {len(commands())} unasked{', works without nacre' if works else ''}")
    assert effective or at >= 6 * CHUNK, "or these repositories prove nothing"


@pytest.mark.slow
@pytest.mark.parametrize("at", range(8))
async def test_no_setting_of_git_starts_or_prints_anything_unasked(
    lab: tuple[Lab, socket.socket], at: int
) -> None:
    """Every setting that git documents, with the name of a program as its value."""
    config = lab[0].root / ".git" / "config"
    before = config.read_bytes()
    ran = []
    for name, attack in [*settings()][at::8]:
        config.write_bytes(before)
        ran.append(await _played(lab, name, attack, [SAMPLE_LINES]))
    print(f"{len(ran)} settings, {sum(map(bool, ran))} of them not asked about")
    assert len(ran) > 80


@pytest.fixture
def empty_lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    with open_lab(monkeypatch) as (lab, _):
        yield lab


SAMPLE = ["clone", "submodule", "husky 9", "partial_clone", "linked_worktree"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.slow) for name in NOT_ASKED]
)
async def test_an_ordinary_repository_is_not_asked_about(empty_lab: Lab, name: str) -> None:
    NOT_ASKED[name](empty_lab)
    # A linked worktree lies beside its main repository.
    if (empty_lab.base / "main").exists():
        subprocess.run(["chmod", "-R", "a+rX", str(empty_lab.base / "main")], check=True)
    output = await empty_lab.run("git status && git diff --stat && git log --oneline -3 2>&1 | head -3")
    assert "fatal" not in output or name == "unborn"
    assert git_branch(empty_lab.root) == empty_lab.git("branch", "--show-current").strip()
    assert [line for line in ORDINARY_LINES if empty_lab.effect(line) != "allow"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_an_ordinary_repository_that_needs_a_question(empty_lab: Lab, name: str) -> None:
    ASKED[name](empty_lab)
    assert {empty_lab.effect(line) for line in ORDINARY_LINES} == {"ask"}
