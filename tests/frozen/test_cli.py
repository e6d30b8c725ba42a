"""Commands on a home with some history: exit codes, and the structure of what `--json` prints."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.frozen.commands import Ended, frozen_time, nacre
from tests.frozen.golden import check
from tests.frozen.home_0_1 import unpack
from tests.frozen.memories import DEPLOYS, lay, topic
from tests.frozen.scenes import Scene
from tests.frozen.structure import described

SESSIONS = ("LONG", "TEAM", "SHORT")
"""Of the home, the oldest first: one with a compaction, one with a team, one answer."""
STORIES: dict[str, tuple[str, ...]] = {
    "general": (
        "--version", "--help", "doctor --json", "doctor --all --json", "stats --json", "stats --all --json",
        "context --json", "context LONG --json", "context 00000000 --json", "instructions list --json",
        "agents types --json", "agents list --json", "agents list --all --json",
        "agents inbox TEAM --all --json", "gc --json", "gc --older-than 1 --yes --json",
        "dream status --json", "recall tea --json", "recall nothing-of-the-kind --json",
        "install claude-code --dry-run",
    ),
    "sessions": (
        "sessions list --json", "sessions list --all --json", "sessions show LONG --json",
        "sessions show TEAM --json", "sessions show SHORT --full --json", "sessions check TEAM --json",
        "sessions check LONG --json", "sessions search rivers --json", "sessions search zebra --json",
        "sessions export SHORT", "compact LONG --undo --json", "compact LONG --by-rule --json",
        "compact SHORT --by-rule --json",
    ),
    "answers": (
        "-p hello", "-p hello --output-format json", "-p hello --output-format stream-json",
        "-p remember_that_tea_is_hot --output-format json --continue", "-p what_is_this? --continue",
        "-p hello --bare --output-format json",
        "-p hello --incognito --output-format json", "-p hello --resume SHORT --output-format json",
    ),
    "memory": (
        "memory path --json", "memory list --json", "memory list --usage --json",
        "memory list --scope user --json", "memory show tea --json", "memory search porto --json",
        "memory log --json", "memory log tea --json", "memory log --scope user --json", "memory diff --json",
        "memory why porto --json", "memory save The_office_is_in_room_12. --json",
        "memory save The_office_is_in_room_13. --pin --json", "memory forget room_12 --yes --json",
        "memory undo --json", "memory undo --json", "memory lint --json", "memory lint --fix --json",
        "memory audit --json", "memory verify --json", "memory review --json", "memory confirm --all --json",
        "memory move green_tea --to user --json", "memory export packed.tar.gz --json",
        "memory import packed.tar.gz --dry-run --json", "memory import packed.tar.gz --json",
        "memory forget room=12=is=ours.md --scope user --purge --yes --json", "memory sync --json",
    ),
    "dreams": (
        "dream --dry-run --force --by-rule --json", "dream --force --by-rule --json", "dream --json",
        "dream undo --json", "dream kill --json", "dream status --json",
    ),
    "errors": (
        "no-such-command", "memry", "doctor --no-such-option", "sessions", "sessions show",
        "sessions show no-such-session --json", "sessions check no-such-session --json",
        "memory show no-such-memory --json", "memory forget no-such-memory --yes --json",
        "memory why no-such-memory --json", "memory undo 0123456789 --json", "memory save",
        "memory save x --type odd", "memory import no-such-file", "memory list --scope odd --json",
        "compact no-such-session --json", "context no-such-session --json", "agents stop no-such-agent",
        "agents inbox no-such-agent --json", "agents send nobody hello", "recall",
        "replay no-such-file --json", "-p", "-p hello --model no-such-model",
        "-p hello --model claude-sonnet-5-5", "-p hello --resume no-such-session", "--output-format json",
        "chat --resume no-such-session", "sim --port 70000",
    ),
}  # fmt: skip
"""Command lines by story; those of one story run one after the other, `_` stands for a space,
and `=` for an underscore."""
EMPTY = (
    "doctor --json", "memory list --json", "memory log --json", "memory undo --json",
    "sessions list --json", "sessions check --json", "context --json", "stats --json", "agents list --json",
    "dream status --json", "gc --json", "recall x --json", "instructions list --json",
    "-p hello --continue", "compact --json",
)  # fmt: skip


@pytest.fixture
def home(scene: Scene) -> Iterator[Scene]:
    """A home with sessions, memories and a team."""
    unpack(scene)
    with frozen_time(scene):
        yield scene


def played(scene: Scene, line: str, **environ: str) -> str:
    logs = sorted(scene.home.glob("projects/*/*.jsonl"))
    ids = dict(zip(SESSIONS, (path.stem for path in logs), strict=False))
    words = (ids.get(word, word.replace("_", " ").replace("=", "_")) for word in line.split())
    return scene.plain(described(line, nacre(scene, *words, **environ)))


@pytest.mark.slow
@pytest.mark.parametrize("story", list(STORIES))
def test_commands_end_and_print_as_they_did(story: str, home: Scene) -> None:
    if story == "dreams":
        again = topic("Deploys", DEPLOYS)
        lay(home, {"deploys.md": again, "deploys_again.md": again})
    check(f"cli/{story}.txt", "\n".join(played(home, line) for line in STORIES[story]))


def test_settings_that_cannot_be_used_end_every_command_alike(home: Scene) -> None:
    (home.home / "settings.json").write_text('{"maxTurns": "many", "noSuchSetting": 1}')
    lines = ("doctor --json", "-p hello", "memory list --json", "sessions list --json", "context --json")
    told = [played(home, line) for line in lines]
    (home.home / "settings.json").write_text("{")
    told += [played(home, line) for line in lines]
    check("cli/bad_settings.txt", "\n".join(told))


def test_memory_that_is_off_ends_its_commands_alike(home: Scene) -> None:
    lines = ("memory list --json", "memory save x --json", "recall x --json", "dream --json", "doctor --json")
    told = [played(home, line, NACRE_DISABLE_AUTO_MEMORY="1") for line in lines]
    check("cli/memory_off.txt", "\n".join(told))


def test_an_empty_home_is_no_error(scene: Scene) -> None:
    with frozen_time(scene):
        check("cli/empty_home.txt", "\n".join(played(scene, line) for line in EMPTY))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"), [("--version", 0), ("no-such-command", 2), ("memory list --json", 0), ("-p hello", 0)]
)
def test_the_program_itself_ends_like_this(line: str, code: int, home: Scene) -> None:
    """As a process of its own, by `python -m nacre`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NACRE_")}
    done = subprocess.run(
        [sys.executable, "-m", "nacre", *line.split()],
        cwd=home.work,
        env={**environ, **home.environ()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    here = nacre(home, *line.split())
    assert done.returncode == code
    assert described(line, Ended(done.returncode, done.stdout, done.stderr)) == described(line, here)
