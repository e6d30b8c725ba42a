"""Repositories with a history, to replay: this one's own, and made-up ones that are the same every time."""

from __future__ import annotations

import os
import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERBS = "load save open close read write parse build merge split check find sort send drop scan plan".split()
NOUNS = (
    "order invoice user token session ledger index cache region store letter budget window prefix record page"
    " report branch worker queue"
).split()
FOLDERS = ("src/app", "src/app/core", "src/app/io", "web/src", "tools", "tests")
_QUIET = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.org",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.org",
}


def git(folder: Path, *arguments: str) -> bytes:
    """What git answers, undisturbed by anybody's settings."""
    return subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **_QUIET}, check=True, capture_output=True
    ).stdout


def own_history(folder: Path) -> bool:
    """Clone this repository, history and all; false where there is none to clone."""
    if not (ROOT / ".git").exists():
        return False
    git(folder.parent, "clone", "-q", "--shared", "--no-checkout", str(ROOT), folder.name)
    return True


def commits(folder: Path) -> list[str]:
    """Every commit of the main line, oldest first."""
    return git(folder, "log", "--first-parent", "--reverse", "--format=%H").decode().split()


def check_out(folder: Path, commit: str) -> None:
    git(folder, "checkout", "-q", "-f", "--detach", commit)
    git(folder, "clean", "-qfdx")


@dataclass
class Source:
    """One made-up file: what it defines, and some names it calls."""

    path: str
    functions: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    def text(self, padding: int) -> str:
        comment = "//" if self.path.endswith(".ts") else "#"
        lines = [f"{comment} {self.path}"]
        for flag in self.flags:
            lines.append(f'add_option("{flag}", default=False)')
        for name in self.functions:
            head = f"export function {name}() {{" if self.path.endswith(".ts") else f"def {name}(value):"
            lines += [head, *(f"    use({call})" for call in self.calls[:3]), "    return value", ""]
        filler = f"{comment} the quick brown fox keeps the books of the lazy dog, row by row, day by day\n"
        return "\n".join(lines) + "\n" + filler * (padding // len(filler))


class MadeUp:
    """A project that grows, renames, moves and removes; what is gone lives on in its changelog."""

    def __init__(self, folder: Path, *, files: int, file_bytes: int, seed: int = 7) -> None:
        self.folder = folder
        self.padding = file_bytes
        self.chance = random.Random(seed)
        self.count = 0
        self.targets = ["test", "lint", "build"]
        self.log = ["# Changelog", ""]
        self.sources = [self._source() for _ in range(files)]
        folder.mkdir()
        git(folder, "init", "-q")

    def grow(self, count: int) -> None:
        """Commit the project, then so many changes to it."""
        for number in range(count):
            if number:
                self._change()
            self._write()
            git(self.folder, "add", "-A")
            git(self.folder, "commit", "-q", "--allow-empty", "-m", f"change {number}")

    def _name(self) -> str:
        self.count += 1
        pick = self.chance.choice
        return f"{pick(VERBS)}_{pick(NOUNS)}_{pick(NOUNS)}" + (f"_{self.count}" if self.count % 3 else "")

    def _source(self) -> Source:
        ending = self.chance.choice(["py", "py", "ts"])
        path = f"{self.chance.choice(FOLDERS)}/{self._name()}.{ending}"
        source = Source(path, [self._name() for _ in range(self.chance.randint(2, 8))])
        if self.chance.random() < 0.3:
            source.flags = [f"--{self._name().replace('_', '-')}"]
        return source

    def _change(self) -> None:
        for _ in range(max(1, len(self.sources) // 50)):
            source = self.chance.choice(self.sources)
            match self.chance.randrange(6):
                case 0 | 1 if source.functions:
                    at = self.chance.randrange(len(source.functions))
                    new = self._name()
                    self.log.append(f"- `{source.functions[at]}()` is now `{new}()`.")
                    for each in self.sources:
                        each.calls = [new if call == source.functions[at] else call for call in each.calls]
                    source.functions[at] = new
                case 2:
                    source.path = f"{self.chance.choice(FOLDERS)}/{source.path.rpartition('/')[2]}"
                case 3:
                    self.sources.remove(source)
                    self.log.append(f"- Removed `{source.path}`.")
                case 4:
                    source.flags = [f"--{self._name().replace('_', '-')}"]
                case _:
                    self.sources.append(self._source())
                    other = self.chance.choice(self.sources)
                    source.calls.extend(other.functions[:1])
        if self.chance.random() < 0.2:
            self.targets[self.chance.randrange(len(self.targets))] = self._name().replace("_", "-")

    def _write(self) -> None:
        wanted = {source.path: source.text(self.padding) for source in self.sources}
        wanted["Makefile"] = "".join(f"{target}:\n\techo {target}\n" for target in self.targets)
        wanted["CHANGELOG.md"] = "\n".join(self.log) + "\n"
        tracked = git(self.folder, "ls-files", "-z").decode().split("\0")
        for path in {*tracked} - {*wanted, ""}:
            (self.folder / path).unlink()
        for path, text in wanted.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                file.write_text(text, encoding="utf-8")
