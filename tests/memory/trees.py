"""Made-up trees of instructions files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nacre.memory.instructions.load import InstructionPaths, Instructions


def plant(top: Path, files: Mapping[str, str | bytes]) -> None:
    """Write these files below a folder, with the folders they need."""
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def paths_in(top: Path, **more: object) -> InstructionPaths:
    """A person, a computer and a repository below one folder; the work is in `repo/pkg/sub`."""
    cwd = top / "repo" / "pkg" / "sub"
    cwd.mkdir(parents=True, exist_ok=True)
    values: dict[str, object] = {
        "home": top / "person" / ".nacre",
        "cwd": cwd,
        "root": top / "repo",
        "managed": top / "etc" / "nacre",
        "claude_managed": top / "etc" / "claude-code" / "CLAUDE.md",
        "tilde": top / "person",
    }
    return InstructionPaths(**{**values, **more})  # type: ignore[arg-type]


def names(instructions: Instructions, top: Path) -> list[str]:
    """The loaded files in order, seen from the top."""
    return [str(file.path.relative_to(top)) for file in instructions.all_files]
